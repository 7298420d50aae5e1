"""The command line: `finite-calculus verify` and what else the package does from a shell."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Exact finite attention responses: verify the calculus and use it.",
)


@app.callback()
def _root() -> None:
    """Exact finite attention responses: verify the calculus and use it."""


@app.command()
def verify(
    only: Annotated[
        str | None, typer.Option(help="Verify one statement by its label, e.g. main:response.")
    ] = None,
    why: Annotated[
        str | None, typer.Option(help="Show one statement with its proof, and stop.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the whole ledger to this file.")
    ] = None,
    cases: Annotated[
        int, typer.Option(min=1, help="Adversarial cases per function and precision.")
    ] = 25,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes; default: one per core.")
    ] = None,
    require_coq: Annotated[
        bool, typer.Option("--require-coq", help="Fail unless Coq checked every theorem.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the summary only.")] = False,
) -> None:
    """Prove every statement of the calculus and hold the code against its references.

    Each statement is proved symbolically for every N and d, instantiated in exact rationals, mutated,
    checked in Coq where Coq is installed, and its torch functions are compared with references of
    proven accuracy. Exit code 1 if anything fails.

    Example: `finite-calculus verify --why main:response`
    """
    from proofs import ledger

    label = why or only
    if label is not None:
        _require_label(label)
    if why is not None:
        for line in ledger.explain(why):
            print(line)
        return
    console = _console()
    with _Stages(console, quiet) as report:
        found = ledger.verify(
            only=only, cases=cases, jobs=jobs, with_coq=only is None or require_coq, progress=report
        )
    if json_file is not None:
        json_file.write_text(json.dumps(found.as_json(), indent=1, ensure_ascii=False) + "\n")
    if not quiet:
        console.print(_table(found))
        console.print(
            "float64, float32: cases beyond their bound / cases, largest error over its bound"
        )
    _print_failures(found)
    coq_missing = require_coq and found.coq_status != "checked"
    print(_summary_line(found))
    if coq_missing:
        print(f"Coq was required but is {found.coq_status}: {found.coq_reason}")
    raise typer.Exit(1 if found.failed or coq_missing else 0)


@app.command()
def audit(
    cases: Annotated[
        str, typer.Option(help="Cases per function and precision; 1e6 is understood.")
    ] = "1e4",
    function: Annotated[
        str | None, typer.Option(help="One public function, e.g. finite_response; default: all.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="float64 or float32; default: both.")] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="First seed; runs with other seeds are new.")
    ] = 0,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes; default: one per core.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Directory for the records; finished ones are not repeated.")
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(help="Run the worst case of a record again, and stop.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the summary only.")] = False,
) -> None:
    """Hold every function to its derived error bound on adversarial inputs.

    Inputs are drawn from every regime where plain formulas fail; a case is a violation when the error,
    measured in Arb, exceeds the bound derived for that very input. Exit code 1 on any violation.

    Example: `finite-calculus audit --cases 1e5 --function finite_response --out results/audit`
    """
    from proofs import audit as auditing

    if replay is not None:
        raise typer.Exit(_replay(auditing, replay))
    if dtype not in (None, "float64", "float32"):
        raise typer.BadParameter(f"--dtype must be float64 or float32; got {dtype!r}.")
    dtypes = [dtype] if dtype else ["float64", "float32"]
    try:
        names = auditing.selected(function)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    console = _console()
    with _Stages(console, quiet) as report:
        given = {"cases": _count(cases), "seed": seed, "jobs": jobs, "out": out}
        tallies = list(auditing.audit(names, dtypes, **given, progress=report))
    if not quiet:
        console.print(_audit_table(tallies))
    violations = sum(tally.violations for tally in tallies)
    print(
        f"{sum(tally.cases for tally in tallies)} cases of {len(names)} checks: "
        f"{violations} violations; largest error over bound "
        f"{max(tally.worst_over_bound for tally in tallies):.3f}"
    )
    raise typer.Exit(1 if violations else 0)


@app.command()
def models(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON with every pin in full.")
    ] = False,
) -> None:
    """List the checkpoints that are known, where they come from and whether they are here."""
    from finite_calculus.checkpoints.commands import models_command

    models_command(json=as_json)


@app.command()
def preflight(
    model: Annotated[
        str, typer.Argument(help="A name that `finite-calculus models` lists.")
    ] = "embedded",
    prompt: Annotated[
        str | None, typer.Option(help="A prompt for the checks; default: two dozen random tokens.")
    ] = None,
    batch: Annotated[int, typer.Option(min=2, help="Rows of the executed batches.")] = 8,
    device: Annotated[str, typer.Option(help="torch device; only cpu has been tested.")] = "cpu",
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Save the records and the fingerprint here.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the gate only.")] = False,
) -> None:
    """Check a model natively before any experiment stands on it.

    Captured tensors are replayed in float64, edits are executed on two paths, caches and rows are
    checked for leaks, and each figure is held to a derived float32 bound beside the paper's tolerance.
    Exit code 1 if the gate is shut.

    Example: `finite-calculus preflight tiny-llama`
    """
    from finite_calculus.checkpoints import CheckpointError, load
    from native_checks.preflight import preflight as run_preflight

    try:
        loaded, tokenizer = load(model, device=device)
    except (CheckpointError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None
    report = run_preflight(loaded, tokenizer, prompt=prompt, batch=batch, quiet=quiet)
    if json_file is not None:
        report.save(json_file)
    for line in report.lines() if not quiet else report.lines()[-1:]:
        print(line)
    raise typer.Exit(0 if report.passed else 1)


def main() -> None:
    """Entry point of the console command."""
    app()


def _count(text: str) -> int:
    """A whole number of cases, 1e6 included."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (value >= 1 and value.is_integer()):
        raise typer.BadParameter(f"--cases must be a whole number of at least 1; got {text!r}.")
    return int(value)


def _replay(auditing, path: Path) -> int:
    """Print one replayed case; 1 if it still violates its bound."""
    sample, record = auditing.replay(path)
    print(f"{record['function']} {record['dtype']}, {record['worst']}")
    if record["settings"]["sources"] != auditing.fingerprint():
        print("the sources have changed since this record was made: the case may be another one")
    for error, bound in zip(sample.errors, sample.bounds, strict=True):
        print(f"  error {error:.6e}  bound {bound:.6e}")
    over = sample.over_bound
    print(
        f"largest error over bound {over:.6f}: {'violation' if not over <= 1 else 'within its bound'}"
    )
    return 0 if over <= 1 else 1


def _audit_table(tallies) -> Table:
    table = Table(title="Audit", header_style="bold", pad_edge=False)
    columns = (
        "function",
        "dtype",
        "cases",
        "violations",
        "error/bound",
        "bound/error median",
        "bits",
    )
    for column in columns:
        table.add_column(column, no_wrap=True, justify="left" if column == "function" else "right")
    for tally in tallies:
        table.add_row(
            tally.function,
            tally.dtype,
            str(tally.cases),
            str(tally.violations),
            f"{tally.worst_over_bound:.3f}",
            f"{tally.slack_quantile(0.5):.3g}",
            str(tally.reference_bits or "–"),
            style="bold red" if tally.violations else None,
        )
    return table


def _require_label(label: str) -> None:
    from proofs.catalogue import entries

    names = [name for entry in entries() for name in entry.names]
    if label not in names:
        import difflib

        close = difflib.get_close_matches(label, names, n=3, cutoff=0.4)
        hint = f" Did you mean {', '.join(close)}?" if close else ""
        raise typer.BadParameter(f"no statement has the label {label!r}.{hint}")


def _console() -> Console:
    """The terminal as it is; elsewhere wide enough for the ledger."""
    console = Console()
    return console if console.is_terminal else Console(width=150)


class _Stages:
    """A progress bar per stage on a terminal, one line per stage elsewhere, nothing when quiet."""

    def __init__(self, console: Console, quiet: bool) -> None:
        columns = (
            TextColumn("{task.description:>18}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._bars = Progress(*columns, console=console, disable=quiet or not console.is_terminal)
        self._plain = not quiet and not console.is_terminal
        self._stages: dict[str, object] = {}

    def __enter__(self):
        self._bars.start()
        return self._report

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def _report(self, stage: str, done: int, total: int) -> None:
        if stage not in self._stages:
            self._stages[stage] = self._bars.add_task(stage, total=total)
            if self._plain:
                print(f"{stage} ({total}) ...", flush=True)
        self._bars.update(self._stages[stage], completed=done, total=total)  # pyright: ignore


def _table(found) -> Table:
    table = Table(title="Ledger", header_style="bold", pad_edge=False)
    table.add_column("statement", no_wrap=True)
    table.add_column("also", overflow="fold", ratio=1)
    for column in ("kind", "proof", "Coq", "bits", "float64", "float32"):
        table.add_column(column, no_wrap=True)
    for row in found.rows:
        theorems = f" ({len(row.coq_theorems)})" if row.coq_theorems else ""
        table.add_row(
            row.label,
            " ".join(row.aliases),
            row.kind,
            row.proof,
            row.coq + theorems,
            str(row.reference_bits or "–"),
            _numeric_text(row.float64),
            _numeric_text(row.float32),
            style="bold red" if row.failures else None,
        )
    return table


def _numeric_text(numeric) -> str:
    """Violations of cases, and the largest error over its bound."""
    if numeric is None:
        return "–"
    return f"{numeric.violations}/{numeric.cases} {numeric.worst_over_bound:.2f}"


def _print_failures(found) -> None:
    for row in found.rows:
        for failure in row.failures:
            print(f"FAILED {row.label}: {failure}")
    for failure in found.failures:
        print(f"FAILED {failure}")


def _summary_line(found) -> str:
    s = found.summary
    coq = f"Coq {s['coq_checked']}/{s['coq_theorems']} theorems checked"
    if found.coq_status == "not checked":
        coq = f"Coq not checked ({found.coq_reason}), {s['coq_theorems']} theorems"
    return (
        f"{s['entries']} statements: {s['proved']} proved, {s['definitions']} definitions, "
        f"{s['failed']} failed; labels {s['labels_covered']}/{s['labels_required']}; {coq}; "
        f"{s['mutants']}; {s['figures']}; {_seconds(found)}"
    )


def _seconds(found) -> str:
    spent = ", ".join(f"{stage} {seconds:.0f} s" for stage, seconds in found.seconds.items())
    return f"took {spent}"


if __name__ == "__main__":
    sys.exit(main())
