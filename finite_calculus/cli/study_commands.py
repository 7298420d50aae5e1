"""`finite-calculus run STUDY`: one command for each study, its options made from the study's settings.

A study is imported only when its own command is asked for; the list of studies shows the first line of
each one's description, read from its source.
"""

import inspect
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from finite_calculus.cli.options import MOST_PROCESSES, Device, Quiet
from finite_calculus.cli.outputs import writable_folder
from finite_calculus.cli.progress import Units
from finite_calculus.cli.stops import or_stop


def _place(words: str) -> str:
    """A directory that can be written, or an address, which is asked later."""
    if "://" not in words:
        writable_folder(Path(words))
    return words


Out = Annotated[
    str,
    typer.Option(
        help="Directory of the run, or an address in an object store, as in s3://bucket/run; an existing run "
        "is resumed.",
        metavar="DIRECTORY",
        callback=_place,
    ),
]
Limit = Annotated[
    int | None, typer.Option(min=1, help="Stop after so many units; run again to go on.")
]
From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        help="An archive of this very run, whose units are taken over; what it lacks is computed.",
        show_default=False,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, max=MOST_PROCESSES, help="Processes that share the units; default: 1."),
]
Ray = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Run on a Ray cluster: local for one of this machine, auto for one that runs here, or its "
        "address. `--workers` then is how many members are wanted; default: one for every GPU or core.",
        show_default=False,
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MOST_PROCESSES,
        help="Threads of each process; default: as the run began, or the cores.",
    ),
]


class StudyGroup(TyperGroup):
    """The studies as commands, found when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of all studies."""
        from finite_calculus.harness.registry import study_names

        return list(study_names())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command as a list shows it: a name and a line."""
        from finite_calculus.harness.registry import study_summary

        if cmd_name not in self.list_commands(ctx):
            return None
        return TyperCommand(cmd_name, help=study_summary(cmd_name))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was asked for, with the options of its study."""
        from finite_calculus.harness.registry import find_study

        try:
            study = find_study(args[0])
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        return args[0], study_command(study), args[1:]


def study_command(study: Any) -> Any:
    """The command of one study: its settings as options, and those of every run."""
    from finite_calculus.harness.options import options_of

    parameters = [_parameter(option) for option in options_of(study.Settings)]
    shared = {
        "out": (Out, inspect.Parameter.empty),
        "device": (Device, "cpu"),
        "workers": (Workers, None),
        "ray": (Ray, None),
        "threads": (Threads, None),
        "limit": (Limit, None),
        "archive": (From, None),
        "quiet": (Quiet, False),
    }
    for name, (annotation, default) in shared.items():
        parameters.append(_keyword(name, annotation, default))

    def command(**values: Any) -> None:
        fields = {name: value for name, value in values.items() if name not in shared}
        _run(study, fields, **{name: values[name] for name in shared})

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    made = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    text = inspect.getdoc(inspect.getmodule(type(study)))
    words = f"{text}\n\nExample: `finite-calculus run {study.name} --out {study.name}`"
    made.command(name=study.name, help=words)(command)
    return typer.main.get_command(made)


def _parameter(option: Any) -> inspect.Parameter:
    kind: Any = list[str] if option.several else option.kind
    if option.kind is bool:
        flag = f"{option.flag}/--no-{option.flag.removeprefix('--')}"
        declared = typer.Option(flag, help=option.help, show_default=False)
    else:
        metavar = "0,3,7-9" if option.layers else None
        declared = typer.Option(option.flag, help=option.help, show_default=False, metavar=metavar)
    default = "embedded" if option.field == "model" else None
    if default is not None:
        declared.show_default = True
    return _keyword(option.field, Annotated[kind | None, declared], default)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _run(
    study: Any,
    fields: dict[str, Any],
    *,
    out: str,
    device: str,
    workers: int | None,
    ray: str | None,
    threads: int | None,
    limit: int | None,
    archive: Path | None,
    quiet: bool,
) -> None:
    import torch

    from finite_calculus.harness.executors import Executor, Processes, choose_threads
    from finite_calculus.harness.records import failed_checks
    from finite_calculus.harness.store import opened

    settings = _settings(study, fields)
    executor: Executor = Processes(workers or 1)
    # On a cluster a member for each core, unless it is told otherwise.
    sharing = workers or 1 if ray is None else os.cpu_count() or 1
    if ray is not None:
        from finite_calculus.harness.ray_cluster import RayCluster

        executor = RayCluster(ray, workers)
    if not quiet:
        print(f"{settings.title}: plan, then gate, then units", flush=True)

    def work() -> Any:
        with opened(out, write=True) as store:
            torch.set_num_threads(choose_threads(store.path, sharing, threads, archive))
            with Units(quiet, "units") as report:
                state = executor(
                    study,
                    settings,
                    store,
                    device=device,
                    limit=limit,
                    archive=archive,
                    report=report,
                )
            store.pull(units=True)
            return state, failed_checks(store.path)

    state, failed = or_stop(work)
    print(f"{state.done} of {state.total} units are done in {out}{failed and '; ' + failed}")
    if not quiet:
        print(f"next: finite-calculus status {out}, replay {out}, summary {out}")
    raise typer.Exit(1 if failed else 0)


def _settings(study: Any, fields: dict[str, Any]) -> Any:
    """Settings from the words of the command: exit code 2 with the reason where one is wrong."""
    from finite_calculus.checkpoints import CheckpointError, architecture
    from finite_calculus.harness.options import settings_from
    from finite_calculus.harness.settings import ModelSettings

    try:
        depth = None
        if issubclass(study.Settings, ModelSettings):
            depth = architecture(fields["model"]).layers
        return settings_from(study.Settings, fields, depth)
    except (ValueError, CheckpointError) as error:
        raise typer.BadParameter(_words(error, study.Settings)) from None


def _words(error: Exception, settings: Any) -> str:
    """A message of our own as it is; pydantic's errors by option, with what came."""
    from finite_calculus.harness.options import options_of

    listed: Any = getattr(error, "errors", None)
    if listed is None:
        return str(error)
    flags = {option.field: option.flag for option in options_of(settings)}
    lines = []
    for wrong in listed():
        message = str(wrong["msg"]).removeprefix("Value error, ")
        field = str(wrong["loc"][0]) if wrong["loc"] else ""
        if message.startswith("`") or not field:
            lines.append(message)
        else:
            lines.append(
                f"{flags.get(field, field)}: {message[0].lower()}{message[1:]}; got {wrong['input']!r}."
            )
    return " ".join(lines)
