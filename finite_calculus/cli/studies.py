"""`finite-calculus run`, `status`, `replay` and `summary`: studies in directories that can be resumed."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from finite_calculus.cli.app import app
from finite_calculus.cli.progress import Units

_NEEDED = ("pydantic", "pyarrow", "transformers")

Directory = Annotated[Path, typer.Argument(help="Directory of a run.", show_default=False)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the outcome only.")]


@app.command()
def run(
    study: Annotated[str, typer.Argument(help="joint-kv; the paper's other studies are to come.")],
    out: Annotated[Path, typer.Option(help="Directory of the run; an existing run is resumed.")],
    model: Annotated[
        str, typer.Option(help="A name that `finite-calculus models` lists.")
    ] = "embedded",
    design: Annotated[
        str, typer.Option(help="supplement (several layers and tasks) or initial (one layer).")
    ] = "supplement",
    task: Annotated[
        list[str] | None, typer.Option(help="retrieval or sst2, repeatable; default: the design's.")
    ] = None,
    layers: Annotated[
        str | None, typer.Option(help="Layers as in 7,15,22, or all; default: the design's.")
    ] = None,
    strengths: Annotated[
        str | None,
        typer.Option(help="Strengths below 1 as in 0.1,0.5, or none; default: the design's."),
    ] = None,
    pairs: Annotated[int, typer.Option(min=1, help="Prompt pairs per task.")] = 32,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the prompts; default: the paper's.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=2, help="Executed rows with their control.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with SST-2's train.tsv and dev.tsv; default: from the hub."),
    ] = None,
    captures: Annotated[bool, typer.Option(help="Keep the tensors that `replay` needs.")] = True,
    device: Annotated[str, typer.Option(help="torch device; only cpu has been tested.")] = "cpu",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many units; run again to go on.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run a study, or go on with it: the same command again resumes at the next unit.

    Prompts are built and checked first, then the model passes its preflight, which is saved in the
    directory; a shut gate stops the run. Every finished prompt pair is committed with its hashes, so that
    Ctrl-C or a kill loses only the pair in hand. Other settings, another model or other code are
    refused with the difference shown. The log is run.log.

    Example: `finite-calculus run joint-kv --model embedded --layers all --task retrieval --out joint`
    """
    _require_installed()
    from finite_calculus.studies.study import find_study

    found = _or_refuse(lambda: find_study(study))
    options = _given(seed=seed, batch=batch, tasks=task or None)
    settings = _or_refuse(
        lambda: _settings(model, design, layers, strengths, pairs, captures, options)
    )
    _run(found, settings, out, device=device, data=data, limit=limit, quiet=quiet)


@app.command()
def status(directory: Directory) -> None:
    """Say what a run holds: what is done, what is missing, what was checked. Every hash is verified.

    Exit code 1 if a file is damaged or foreign, a check failed or the gate is shut.

    Example: `finite-calculus status joint`
    """
    _require_installed()
    from finite_calculus.studies.status import status as survey_run

    found = _or_stop(lambda: survey_run(directory))
    print("\n".join(found.lines()))
    raise typer.Exit(0 if found.sound else 1)


@app.command()
def replay(directory: Directory, quiet: Quiet = False) -> None:
    """Recompute every prediction of a run in float64 from its captures, without the model, and compare.

    The replay starts from the definition and shares no code with the predictors. Exit code 1 if a number
    is off by more than 3e-15 of the scale of its terms.

    Example: `finite-calculus replay joint`
    """
    _require_installed()
    from finite_calculus.studies.replay import ALLOWED, replay as replay_run

    with Units(quiet, "replay") as report:
        result = _or_stop(lambda: replay_run(directory, report=report))
    if not quiet:
        for name, worst in sorted(result.worst.items()):
            print(f"{name:24s} {worst:.1e}")
    for wrong in result.disagreeing[:10]:
        print(
            f"DISAGREES  {wrong.where}: {wrong.name} {wrong.recorded!r}, replayed {wrong.replayed!r}"
        )
    print(
        f"{result.compared} numbers of {result.units} units: {len(result.disagreeing)} disagree; allowed "
        f"{ALLOWED:.0e} of the scale of the terms, worst {max(result.worst.values(), default=0):.1e}"
    )
    raise typer.Exit(0 if result.passed else 1)


@app.command()
def summary(
    directory: Annotated[Path, typer.Argument(help="Directory of a run, or of an archive.")],
    out: Annotated[
        Path | None, typer.Option(help="Where the tables go; default: summary/ in the directory.")
    ] = None,
    archive: Annotated[
        Path | None,
        typer.Option(help="Also write records, manifest and tables here: no tensors, no texts."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write the tables of a run as Markdown, LaTeX and CSV, from its records only.

    Example: `finite-calculus summary joint --archive results/joint-kv/embedded`
    """
    _require_installed()
    from finite_calculus.studies.archive import archive as write_archive
    from finite_calculus.studies.records import read_records
    from finite_calculus.studies.summary import write_summary

    records = _or_stop(lambda: read_records(directory))
    written = write_summary(records, out or directory / "summary")
    if archive is not None:
        written.append(_or_stop(lambda: write_archive(directory, archive)))
    if not quiet:
        print(written[0].read_text())
    print(f"wrote {len(written)} files to {written[0].parent}")


def _settings(
    model: str,
    design: str,
    layers: str | None,
    strengths: str | None,
    pairs: int,
    captures: bool,
    options: dict[str, Any],
) -> Any:
    from finite_calculus.checkpoints import checkpoint
    from finite_calculus.studies.joint_kv import joint_settings

    if design not in ("supplement", "initial"):
        raise ValueError(f"--design must be supplement or initial; got {design!r}.")
    if layers == "all":
        options["layers"] = range(checkpoint(model).architecture.layers)
    elif layers is not None:
        options["layers"] = _numbers("--layers", layers, int)
    if strengths is not None:
        options["strengths"] = (
            [] if strengths == "none" else _numbers("--strengths", strengths, float)
        )
    return joint_settings(model, design=design, pairs=pairs, captures=captures, **options)


def _run(found: Any, settings: Any, out: Path, *, quiet: bool, device: str, **options: Any) -> None:
    from finite_calculus.checkpoints import CheckpointError, load
    from finite_calculus.studies.runner import run as run_study

    try:
        loaded, tokenizer = load(settings.model, device=device)
    except (CheckpointError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None
    if not quiet:
        print(
            f"{settings.study} on {settings.model}: prompts, then preflight, then units", flush=True
        )
    try:
        with Units(quiet, "units") as report:
            state = _or_stop(
                lambda: run_study(
                    found,
                    settings,
                    out,
                    model=loaded,
                    tokenizer=tokenizer,
                    report=report,
                    **options,
                )
            )
    except KeyboardInterrupt:
        print("stopped; finished units are kept, and the same command goes on at the next one")
        raise typer.Exit(130) from None
    print(f"{state.done} of {state.total} units are done in {out}")


def _require_installed() -> None:
    """Studies have needs of their own, which an installation of the core does not bring."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise typer.BadParameter(
            f"Studies need {', '.join(missing)}: install finite-calculus[studies]."
        )


def _numbers(name: str, text: str, convert: Callable[[str], Any]) -> list[Any]:
    try:
        return [convert(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{name} must be numbers separated by commas; got {text!r}.") from None


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _or_refuse(make: Callable[[], Any]) -> Any:
    """A wrong word on the command line: exit code 2 with the reason."""
    try:
        return make()
    except ValueError as error:
        raise typer.BadParameter(_first_line(error)) from None


def _or_stop(make: Callable[[], Any]) -> Any:
    """A run that cannot go on: exit code 1 with the reason."""
    from finite_calculus.studies.study import GateShutError

    try:
        return make()
    except (ValueError, GateShutError) as error:
        print(error)
        raise typer.Exit(1) from None


def _first_line(error: ValueError) -> str:
    """A message of our own as it is; of pydantic's the words of its first error."""
    listed: Any = getattr(error, "errors", None)
    return str(error) if listed is None else str(listed()[0]["msg"])
