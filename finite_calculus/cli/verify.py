"""`finite-calculus verify`: prove every statement and hold the code to its references."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from finite_calculus.cli.app import app
from finite_calculus.cli.display import Stages, console
from finite_calculus.cli.guide import PROOFS
from finite_calculus.cli.options import MOST_CASES, MOST_PROCESSES, Quiet
from finite_calculus.cli.outputs import save_json, writable


@app.command(rich_help_panel=PROOFS)
def verify(
    only: Annotated[
        str | None, typer.Option(help="Verify one statement by its label, e.g. main:response.")
    ] = None,
    why: Annotated[
        str | None, typer.Option(help="Show one statement with its proof, and stop.")
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Write the whole ledger to this file.", callback=writable),
    ] = None,
    cases: Annotated[
        int,
        typer.Option(min=1, max=MOST_CASES, help="Adversarial cases per function and precision."),
    ] = 25,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_PROCESSES, help="Processes; default: one per core."),
    ] = None,
    require_coq: Annotated[
        bool, typer.Option("--require-coq", help="Fail unless Coq checked every theorem.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Prove every statement of the calculus and hold the code against its references.

    Each statement is proved symbolically for every N and d, instantiated in exact rationals, mutated,
    checked in Coq where Coq is installed, and its torch functions are compared with references of
    proven accuracy. Exit code 1 if anything fails.

    Example: `finite-calculus verify --why main:response`
    """
    from proofs import ledger

    label = only if why is None else why
    if label is not None:
        _require_label(label)
    if why is not None:
        for line in ledger.explain(why):
            print(line)
        return
    terminal = console()
    with Stages(terminal, quiet) as progress:
        report = ledger.verify(
            only=only,
            cases=cases,
            jobs=jobs,
            with_coq=only is None or require_coq,
            progress=progress,
        )
    if json_file is not None:
        save_json(json_file, report.as_json())
    if not quiet:
        terminal.print(_table(report))
        terminal.print(
            "clauses: proved symbolically, then those that only Coq proves, that a program recomputes, that "
            "were not checked\n"
            "float64, float32: cases beyond their bound / cases, largest error over its bound, bits lost\n"
            "native: largest error over its bound in the newest preflight of this very code, and its model"
        )
    _print_failures(report)
    coq_missing = require_coq and report.coq_status != "checked"
    print(_summary_line(report))
    if coq_missing:
        print(f"Coq was required but is {report.coq_status}: {report.coq_reason}")
    raise typer.Exit(1 if report.failed or coq_missing else 0)


def _require_label(label: str) -> None:
    from proofs.catalogue import entries

    names = [name for entry in entries() for name in entry.names]
    if label not in names:
        import difflib

        close = difflib.get_close_matches(label, names, n=3, cutoff=0.4)
        hint = f" Did you mean {', '.join(close)}?" if close else ""
        raise typer.BadParameter(f"no statement has the label {label[:80]!r}.{hint}")


def _table(report) -> Table:
    table = Table(title="Ledger", header_style="bold", pad_edge=False)
    table.add_column("statement", no_wrap=True)
    table.add_column("also", overflow="fold", ratio=1)
    for column in ("kind", "proof", "clauses", "Coq", "bits", "float64", "float32"):
        table.add_column(column, no_wrap=True)
    table.add_column("native", overflow="fold")
    for row in report.rows:
        theorems = f" ({len(row.coq_theorems)})" if row.coq_theorems else ""
        table.add_row(
            row.label,
            " ".join(row.aliases),
            row.kind,
            row.proof,
            _clause_text(row),
            row.coq + theorems,
            str(row.reference_bits or row.generated.bits or "–"),
            _numeric_text(row.float64),
            _numeric_text(row.float32),
            _native_text(row.native),
            style="bold red" if row.failures else None,
        )
    return table


def _native_text(native) -> str:
    """The worst over its bound in the newest record of this code, and the model."""
    if native.worst_over_bound is None:
        return "–" if native.status == "none" else native.status
    return f"{_short(native.worst_over_bound)} {native.record}"


def _clause_text(row) -> str:
    """Clauses that are proved symbolically, in Coq only, or not checked: as in 2, 1 Coq."""
    statuses = [clause.status for clause in row.clauses]
    words = {
        "proved in Coq only": "Coq",
        "recomputed": "recomputed",
        "not checked": "unchecked",
        "not proved": "OPEN",
    }
    proved = statuses.count("proved")
    parts = [str(proved)] if proved else []
    parts += [f"{statuses.count(s)} {word}" for s, word in words.items() if s in statuses]
    return ", ".join(parts)


def _numeric_text(numeric) -> str:
    """Violations of cases, the largest error over its bound, the most bits lost."""
    if numeric is None:
        return "–"
    lost = "–" if numeric.bits_lost is None else f"{numeric.bits_lost:.0f}"
    return f"{numeric.violations}/{numeric.cases} {_short(numeric.worst_over_bound)} {lost}"


def _print_failures(report) -> None:
    for row in report.rows:
        for failure in row.failures:
            print(f"FAILED {row.label}: {failure}")
    for failure in report.failures:
        print(f"FAILED {failure}")


def _summary_line(report) -> str:
    s = report.summary
    coq = f"Coq {s['coq_checked']}/{s['coq_theorems']} theorems checked"
    if report.coq_status == "not checked":
        coq = f"Coq not checked ({report.coq_reason}), {s['coq_theorems']} theorems"
    parts = f"{s['proved_in_part']} proved in part, " if s["proved_in_part"] else ""
    return (
        f"{s['entries']} statements: {s['proved']} proved, {parts}{s['definitions']} definitions, "
        f"{s['failed']} failed; {s['clauses']} clauses: {s['clauses_proved']} proved, "
        f"{s['clauses_coq_only']} in Coq only, {s['clauses_recomputed']} recomputed, "
        f"{s['clauses_not_checked']} not checked, {s['clauses_unproved']} not proved; "
        "references generated "
        f"{s['references_generated']}/{s['references_required']}; "
        f"native checks {s['native_checked']}/{s['native_checks']}; "
        f"labels {s['labels_covered']}/{s['labels_required']}; {coq}; "
        f"{s['mutants']}; {s['figures']}; {_seconds(report)}"
    )


def _seconds(report) -> str:
    spent = ", ".join(f"{stage} {seconds:.0f} s" for stage, seconds in report.seconds.items())
    return f"took {spent}"


def _short(figure: float) -> str:
    """Two decimals where that is short; an error may be 300 digits beyond its bound."""
    return f"{figure:.2f}" if figure < 100 else f"{figure:.2g}"
