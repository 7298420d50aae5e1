"""`finite-calculus run`, `status`, `replay`, `again`, `summary`: studies in directories that resume."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from finite_calculus.cli.app import app
from finite_calculus.cli.guide import DONE, FAILED, SHUT, STUDIES
from finite_calculus.cli.options import Device, Quiet
from finite_calculus.cli.outputs import writable_folder
from finite_calculus.cli.progress import Units
from finite_calculus.cli.stops import or_stop
from finite_calculus.cli.study_commands import StudyGroup

if TYPE_CHECKING:
    from finite_calculus.harness.replay import Replay
    from finite_calculus.harness.runner import Progress
    from finite_calculus.harness.status import Status

Place = Annotated[
    list[str] | None,
    typer.Option(
        help="A folder of yours that the settings need, as in data=FOLDER; repeatable.",
        show_default=False,
    ),
]
Directory = Annotated[
    str,
    typer.Argument(
        help="Directory of a run, or its address in an object store, as in s3://bucket/run.",
        show_default=False,
    ),
]

app.add_typer(
    typer.Typer(cls=StudyGroup, no_args_is_help=True, rich_markup_mode="markdown"),
    name="run",
    rich_help_panel=STUDIES,
    help="""Run a study, or go on with it: the same command again resumes at the next unit.

    Prompts are built and checked first, then the model passes its preflight, which is saved in the
    directory; a shut gate stops the run. Every finished unit is committed with its hashes, so that Ctrl-C or
    a kill loses only the unit in hand. Other settings, another model or other code are refused with the
    difference shown. Several processes may work on one directory: `--workers`, or the same command again.

    Example: `finite-calculus run joint-kv --model embedded --layers all --task retrieval --out joint`
    """,
)


@app.command(rich_help_panel=STUDIES)
def work(
    directory: Directory,
    place: Place = None,
    device: Device = "cpu",
    quiet: Quiet = False,
) -> None:
    """Join a run that was begun: take units that nobody has, until none is left.

    From any machine that sees the directory, as often as you like: a second terminal, a node of a cluster.
    Settings and threads are those of the run; other code, versions or kernels are refused, since rounding
    depends on them. Records are those of one process, byte for byte.

    Example: `finite-calculus work joint`
    """
    from finite_calculus.harness.joining import join_run
    from finite_calculus.harness.records import failed_checks
    from finite_calculus.harness.store import opened

    places = dict(_pair(each, "place", "data=FOLDER") for each in place or ())

    def join() -> "tuple[Progress, str]":
        with opened(directory, write=True, begun=True) as store:
            with Units(quiet, "units") as report:
                state = join_run(store, places=places, device=device, report=report)
            store.pull(units=True)
            return state, failed_checks(store.path)

    state, failed = or_stop(join)
    print(f"{state.done} of {state.total} units are done in {directory}{failed and '; ' + failed}")
    raise typer.Exit(FAILED if failed else DONE)


@app.command(rich_help_panel=STUDIES)
def status(directory: Directory) -> None:
    """Say what a run holds: what is done, what is missing, what was checked. Every hash is verified.

    Exit code 1 if a file is damaged or foreign, a check failed or numbers disagree; 3 if the gate is shut.

    Example: `finite-calculus status joint`
    """
    from finite_calculus.harness.status import status as survey_run
    from finite_calculus.harness.store import reading

    def survey() -> "Status":
        with reading(directory) as path:
            return survey_run(path)

    state = or_stop(survey)
    print("\n".join(state.lines()))
    raise typer.Exit(DONE if state.sound else SHUT if state.only_shut else FAILED)


@app.command(rich_help_panel=STUDIES)
def replay(directory: Directory, quiet: Quiet = False) -> None:
    """Recompute every prediction of a run in float64 from its captures, without the model, and compare.

    The replay starts from the definition and shares no code with the predictors. Exit code 1 if a number
    is off by more than 3e-15 of the scale of its terms.

    Example: `finite-calculus replay joint`
    """
    from finite_calculus.harness.replay import ALLOWED, replay as replay_run
    from finite_calculus.harness.store import opened

    def again() -> "Replay":
        with opened(directory, begun=True) as store:
            store.pull(units=True)
            with Units(quiet, "replay") as report:
                result = replay_run(store.path, report=report)
            store.push()
            return result

    result = or_stop(again)
    if not quiet:
        for name, worst in sorted(result.worst.items()):
            print(f"{name:24s} {worst:.1e}")
    for wrong in result.disagreeing[:10]:
        print(
            f"DISAGREES  {wrong.where}: {wrong.name} {wrong.recorded!r}, replayed {wrong.replayed!r}"
        )
    more = f", {result.without} more have no captures" if result.without else ""
    print(
        f"{result.compared} numbers of {result.units} units{more}: {len(result.disagreeing)} disagree; "
        f"allowed {ALLOWED:.0e} of the scale of the terms, worst {max(result.worst.values(), default=0):.1e}"
    )
    raise typer.Exit(0 if result.passed else 1)


@app.command(rich_help_panel=STUDIES)
def again(
    archive: Annotated[Path, typer.Argument(help="Directory of an archive.", show_default=False)],
    unit: Annotated[
        str,
        typer.Argument(help="One unit of it, as its units.json names them.", show_default=False),
    ],
    place: Place = None,
    row: Annotated[
        list[str] | None,
        typer.Option(
            help="Show the rows whose column has this value, as in layer=22; repeatable, to narrow it down.",
            show_default=False,
        ),
    ] = None,
    device: Device = "cpu",
) -> None:
    """Compute one unit of an archive again and compare every value with the recorded one.

    Settings come from the archive. Exit code 1 if a value differs; code, versions and kernels that differ are
    named either way, since rounding depends on them.

    Example: `finite-calculus again results/retrieval-heads/embedded ordered-test-003 --row band=slow`
    """
    import torch

    from finite_calculus.harness.again import again as compute_again
    from finite_calculus.harness.executors import choose_threads

    places = dict(_pair(each, "place", "data=FOLDER") for each in place or ())
    wanted = dict(_pair(each, "row", "layer=22") for each in row or ())
    torch.set_num_threads(or_stop(lambda: choose_threads(archive, 1, None, archive)))
    result = or_stop(lambda: compute_again(archive, unit, places=places, device=device))
    for line in result.changed:
        print(f"other than in the record: {line}")
    for each in result.differing[:10]:
        print(
            f"DIFFERS  {each.table}, row {each.row}, {each.column}: recorded {each.recorded!r}, "
            f"now {each.again!r}"
        )
    for table, recorded, computed in or_stop(lambda: result.matching(wanted)) if wanted else ():
        print(f"{table}, recorded: {recorded}")
        print(f"{' ' * len(table)}  computed: {computed}")
    rows = ", ".join(f"{count} {name}" for name, count in result.rows.items() if count)
    once = "" if result.repeatable else "; it holds timings, which no run repeats"
    print(f"{unit}: {rows}; {len(result.differing)} of {result.values} values differ{once}")
    raise typer.Exit(1 if result.differing else 0)


def _pair(words: str, option: str, example: str) -> tuple[str, str]:
    name, equals, value = words.partition("=")
    if not (name and equals and value):
        raise typer.BadParameter(f"--{option} must be NAME=VALUE, as in {example}; got {words!r}.")
    return name, value


@app.command(rich_help_panel=STUDIES)
def summary(
    directory: Annotated[
        str,
        typer.Argument(help="Directory of a run or of an archive, or the address of a run."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where the tables go; default: summary/ in the directory.",
            callback=writable_folder,
        ),
    ] = None,
    archive: Annotated[
        Path | None,
        typer.Option(
            help="Also write records, manifest and summary here: no tensors, no texts.",
            callback=writable_folder,
        ),
    ] = None,
    first: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="A part of an unfinished run: so many units of its last stage, from the first.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write the tables of a run as Markdown, LaTeX and CSV, from its records only.

    Example: `finite-calculus summary joint --archive results/joint-kv/embedded`
    """
    from finite_calculus.harness.archive import archive as write_archive
    from finite_calculus.harness.records import read_saved
    from finite_calculus.harness.store import is_address, reading
    from finite_calculus.harness.summary import write_summary

    if is_address(directory) and out is None:
        raise typer.BadParameter(f"the tables of {directory} need --out, a directory for them.")
    target = out or Path(directory) / "summary"

    def write() -> None:
        with reading(directory) as path:
            written = write_summary(read_saved(path, first=first), target)
            if not quiet:
                print(written[0].read_text())
            print(f"wrote {len(written)} files to {written[0].parent}")
            if archive is not None:
                manifest = write_archive(path, archive, first=first)
                print(f"wrote the archive {manifest.parent}")

    or_stop(write)
