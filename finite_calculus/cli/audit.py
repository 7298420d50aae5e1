"""`finite-calculus audit`: every function against its derived error bound."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from finite_calculus.cli.app import app
from finite_calculus.cli.display import Stages, console
from finite_calculus.cli.guide import PROOFS
from finite_calculus.cli.options import MOST_CASES, MOST_PROCESSES, Quiet
from finite_calculus.cli.outputs import save_json, writable, writable_folder

if TYPE_CHECKING:
    from proofs.numeric.checks import CheckResult

# Where the records of this repository are.
_RECORDS = Path("results/audit")


@app.command(rich_help_panel=PROOFS)
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
        int | None,
        typer.Option(min=1, max=MOST_PROCESSES, help="Processes; default: one per core."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Directory for the records; finished ones are not repeated.",
            callback=writable_folder,
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="DIRECTORY",
            help="Write the records of a finished `finite-calculus run audit` to --out, and stop.",
        ),
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option(
            metavar="FUNCTION[:DTYPE]",
            help="Run the worst cases of a record in --out (default: results/audit) again, and stop.",
        ),
    ] = None,
    stale: Annotated[
        bool,
        typer.Option(
            "--stale",
            help="List the records in --out (default: results/audit) that are of other code, and stop.",
        ),
    ] = False,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json", help="With --stale: write the list to this file too.", callback=writable
        ),
    ] = None,
    exhaustive: Annotated[
        bool,
        typer.Option(
            "--exhaustive", help="Try the scalar kernels on every float32 instead: half an hour."
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Hold every function to its derived error bound on adversarial inputs, and to the problem itself.

    Inputs are drawn from every regime where plain formulas fail; a case is a violation when the error,
    measured in Arb, exceeds the bound derived for that very input. A bound follows the code, so one
    case in 64 is also held to what a rounding of its inputs would do to the exact result: a function
    that loses half of its digits beyond that is unstable. Exit code 1 on either, and with --stale
    if a record is of other code than the code at hand.

    Example: `finite-calculus audit --cases 1e5 --function finite_response --out results/audit`
    """
    from proofs.numeric import audit as auditing
    from proofs.numeric.record_files import RecordsError

    if json_file is not None and not stale:
        raise typer.BadParameter("--json needs --stale, whose list it writes; got no --stale.")
    if stale:
        raise typer.Exit(_stale(out or _RECORDS, json_file))
    if replay is not None:
        raise typer.Exit(_replay(replay, out or _RECORDS))
    if run is not None and out is None:
        raise typer.BadParameter(f"--from {run} needs --out, the folder of the records.")
    if exhaustive:
        raise typer.Exit(_exhaustive(function, jobs, out, quiet))
    if dtype not in (None, "float64", "float32"):
        raise typer.BadParameter(f"--dtype must be float64 or float32; got {dtype!r}.")
    dtypes = [dtype] if dtype else ["float64", "float32"]
    try:
        names = auditing.selected(function)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    terminal = console()
    if run is not None and out is not None:
        from finite_calculus.cli.audit_runs import merge_run
        from finite_calculus.cli.stops import or_stop

        _tell(terminal, or_stop(lambda: merge_run(run, out)), quiet)
    with Stages(terminal, quiet) as report:
        given = {"cases": _count(cases), "seed": seed, "jobs": jobs, "out": out}
        try:
            outcomes = list(auditing.audit(names, dtypes, **given, progress=report))
        except RecordsError as error:
            raise typer.BadParameter(str(error)) from None
    _tell(terminal, outcomes, quiet)


def _tell(terminal: Console, outcomes: "list[CheckResult]", quiet: bool) -> NoReturn:
    """Show what was found and end: with 1 if an error exceeded its bound or digits were lost."""
    if not quiet:
        terminal.print(_audit_table(outcomes))
    tallies = [outcome.tally for outcome in outcomes]
    print(
        f"{sum(tally.cases for tally in tallies)} cases of "
        f"{len({tally.function for tally in tallies})} checks: "
        f"{sum(tally.violations for tally in tallies)} violations; largest error over bound "
        f"{max(tally.worst_over_bound for tally in tallies):.3f}; "
        f"{sum(outcome.unstable for outcome in outcomes)} unstable"
    )
    raise typer.Exit(1 if any(outcome.failed for outcome in outcomes) else 0)


def _count(text: str) -> int:
    """A whole number of cases, 1e6 included."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (1 <= value <= MOST_CASES and value.is_integer()):
        raise typer.BadParameter(
            f"--cases must be a whole number from 1 to {MOST_CASES:.0e}; got {text[:80]!r}."
        )
    return int(value)


def _stale(folder: Path, json_file: Path | None) -> int:
    """Print the stale records and the commands that make them again; 1 if there are any."""
    from dataclasses import asdict

    from proofs.numeric import staleness

    try:
        records = staleness.stale(folder)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if json_file is not None:
        rows = [asdict(record) for record in records]
        save_json(json_file, {"stale": rows})
    for record in records:
        print(f"{record.record}: {record.reason}\n  {record.command}")
    print(f"{len(records)} stale records in {folder}")
    return 1 if records else 0


def _replay(target: str, folder: Path) -> int:
    """Replay the records of a function, in one precision or both; 1 if one fails again."""
    from proofs.numeric import record_files
    from proofs.numeric.audit import selected

    function, _, dtype = target.partition(":")
    try:
        names = selected(function)
        audits = record_files.read(folder).audits
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    records = [
        record for (name, kind), record in audits.items() if name in names and dtype in ("", kind)
    ]
    worst = [record for record in records if record["worst"] is not None]
    if not worst:
        kind = "one without errors" if records else f"no record of {target} in `{folder}`"
        raise typer.BadParameter(
            f"--replay must name a record with a worst case, as FUNCTION[:DTYPE]; got {kind}."
        )
    return max([_replay_record(record) for record in worst])


def _replay_record(record: dict[str, Any]) -> int:
    """Print the replayed cases of a record; 1 if one still violates its bound or loses its digits."""
    from proofs.numeric import audit_records
    from proofs.numeric.audit import sources

    bounded, stable = audit_records.replay(record), audit_records.replay_stability(record)
    assert bounded is not None  # the record has a worst case
    name = f"{record['function']} {record['dtype']}"
    if record["settings"]["sources"] != sources(record["function"]):
        print("the code has changed since this record was made")
    _print_case(f"{name}, nearest to its bound", bounded)
    for error, bound in zip(bounded.measured.errors, bounded.measured.bounds, strict=True):
        print(f"  error {error:.6e}  bound {bound:.6e}")
    over = bounded.measured.over_bound
    verdict = "within its bound" if over <= 1 else "violation"
    print(f"largest error over bound {over:.6f}: {verdict}")
    if stable is None:
        return 0 if over <= 1 else 1
    _print_case(f"{name}, the most digits lost", stable)
    allowed = record["stability"]["allowed"]
    verdict = "stable" if stable.measured < allowed else "unstable"
    print(f"{stable.measured:.1f} bits lost of {allowed:.1f} allowed: {verdict}")
    return 0 if over <= 1 and stable.measured < allowed else 1


def _print_case(title: str, worst) -> None:
    print(f"{title}: {worst.place}")
    for name, item in {**worst.case.each, **worst.case.shared}.items():
        print(f"  {name} = {item.tolist() if hasattr(item, 'tolist') else item}")
    if not worst.in_place:
        print(
            "other cases are drawn now: this one is measured on its own, from the record's inputs"
        )


def _exhaustive(function: str | None, jobs: int | None, out: Path | None, quiet: bool) -> int:
    """Print the largest error of each kernel over all float32 inputs; 1 if one exceeds the target."""
    from proofs.numeric.exhaustive import KERNELS, TARGET_ULPS, sweep
    from proofs.numeric.record_files import RecordsError

    if function not in (None, *KERNELS):
        raise typer.BadParameter(
            f"--function must be a scalar kernel, one of {', '.join(KERNELS)}; got {function!r}."
        )
    terminal = console()
    with Stages(terminal, quiet) as report:
        names = [function] if function else list(KERNELS)
        given = {"jobs": jobs or os.cpu_count() or 1, "out": out, "progress": report}
        try:
            sweeps = [sweep(name, **given) for name in names]
        except RecordsError as error:
            raise typer.BadParameter(str(error)) from None
    for result in sweeps:
        print(
            f"{result.kernel}: {result.inputs} float32 inputs, largest error {result.ulps:.6f} ulp "
            f"at {result.worst[0][1]!r}, {result.violations} without a result"
        )
    failed = [result for result in sweeps if result.violations or not result.ulps <= TARGET_ULPS]
    print(f"{len(sweeps)} kernels, {len(failed)} beyond {TARGET_ULPS:g} ulps")
    return 1 if failed else 0


def _audit_table(outcomes) -> Table:
    table = Table(title="Audit", header_style="bold", pad_edge=False)
    columns = (
        "function",
        "dtype",
        "cases",
        "violations",
        "error/bound",
        "bound/error median",
        "bits lost",
        "bits of Arb",
    )
    for column in columns:
        table.add_column(column, no_wrap=True, justify="left" if column == "function" else "right")
    for outcome in outcomes:
        tally, lost = outcome.tally, outcome.stability
        table.add_row(
            tally.function,
            tally.dtype,
            str(tally.cases),
            str(tally.violations),
            f"{tally.worst_over_bound:.3f}",
            f"{tally.slack_quantile(0.5):.3g}",
            f"{lost.bits:.1f} of {lost.allowed:.1f}" if lost else "–",
            str(tally.reference_bits or "–"),
            style="bold red" if outcome.failed else None,
        )
    return table
