"""The ledger: one row for each statement, saying how it is proved and how the code stands against it.

Rows combine four kinds of evidence: the symbolic certificate of every clause with its exact-rational
instances, the Coq theorem, both sides of every statement evaluated in Arb and mpmath beside a hand-written
definition, and the torch function compared with that definition in both precisions. A fifth is read and not
made: what a preflight of this very code found on a model. What was not run says "not checked"; only what was
run and held counts.
"""

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from proofs import coq_check, coq_source
from proofs.catalogue import entries, find
from proofs.edges import is_green, stands_on
from proofs.entry import ASSUMPTIONS, Entry, Kind, Status
from proofs.generated.entries import GeneratedCheck, check_entry, coverage
from proofs.generated.naming import wrong_texts
from proofs.labels import REQUIRED
from proofs.ledger_rows import (
    NOT_CHECKED,
    EntryProof,
    LedgerRow,
    judge,
    prove_entry,
    theorem_ids,
)
from proofs.mathematics import mathml
from proofs.native import RECORDS, read_records, standing
from proofs.numeric.checks import CHECKS, CheckResult, checks_of
from proofs.numeric.comparison import DTYPES, ReferenceComparison, run
from proofs.numeric.parallel import Progress, parallel
from proofs.numeric.stability import sample
from proofs.printed import arithmetic
from proofs.prover import mutation, rational

# Of each statement; `python -m proofs.prover.mutation` runs all of them.
MUTANTS = 6
# Cases of every statement for its generated reference; `python -m proofs.generated` takes more.
GENERATED = 2
# Of the JSON: raised when a field changes its meaning or goes.
SCHEMA = 4


@dataclass(frozen=True)
class Ledger:
    """All rows, the summary and what failed."""

    rows: tuple[LedgerRow, ...]
    labels_required: int
    labels_covered: int
    coq_status: str
    coq_reason: str
    coq_theorems: int
    coq_checked: int
    mutants: str
    figures: str
    seconds: dict[str, float]
    failures: tuple[str, ...] = field(default=())

    @property
    def failed(self) -> int:
        """Rows with a failure, and failures that belong to no row."""
        return sum(bool(row.failures) for row in self.rows) + len(self.failures)

    @property
    def summary(self) -> dict[str, object]:
        """The figures of the last line and of the JSON."""
        definitions = sum(row.kind == Kind.DEFINITION for row in self.rows)
        proved = sum(row.proof == "proved" for row in self.rows)
        statuses = [clause.status for row in self.rows for clause in row.clauses]
        covered, missing = coverage(row.generated for row in self.rows)
        return {
            "entries": len(self.rows),
            "labels_required": self.labels_required,
            "labels_covered": self.labels_covered,
            "proved": proved,
            "proved_in_part": sum(row.proof == "proved in part" for row in self.rows),
            "definitions": definitions,
            "failed": self.failed,
            "clauses": len(statuses),
            "clauses_proved": statuses.count(Status.PROVED),
            "clauses_coq_only": statuses.count(Status.COQ_ONLY),
            "clauses_recomputed": statuses.count(Status.RECOMPUTED),
            "clauses_not_checked": statuses.count(Status.NOT_CHECKED),
            "clauses_unproved": statuses.count(Status.UNPROVED),
            "references_required": len(covered) + len(missing),
            "references_generated": len(covered),
            "native_checks": sum(bool(row.native.checks) for row in self.rows),
            "native_checked": sum(row.native.status == "checked" for row in self.rows),
            "coq_theorems": self.coq_theorems,
            "coq_checked": self.coq_checked,
            "coq": self.coq_status,
            "mutants": self.mutants,
            "figures": self.figures,
            "seconds": {stage: round(seconds, 1) for stage, seconds in self.seconds.items()},
        }

    def as_json(self) -> dict[str, object]:
        """The whole ledger as plain data."""
        return {
            "schema": SCHEMA,
            "summary": self.summary,
            "entries": [_row_json(row) for row in self.rows],
            "failures": list(self.failures),
        }


def verify(
    *,
    only: str | None = None,
    cases: int = 25,
    jobs: int | None = None,
    with_coq: bool = True,
    with_mutation: bool = True,
    records: Path = RECORDS,
    progress: Progress = lambda stage, done, total: None,
) -> Ledger:
    """Prove, instantiate, mutate, compile and compare everything, or one entry.

    `records` is the folder with those of the preflight; only those of the code at hand count.
    """
    chosen = entries() if only is None else (find(only),)
    jobs = jobs or os.cpu_count() or 1
    clock = _Clock(progress)
    progress = clock.report
    proofs = dict(_stage("symbolic proofs", _prove, [e.label for e in chosen], jobs, progress))
    generated = dict(
        _stage("generated references", _generate, [e.label for e in chosen], jobs, progress)
    )
    names = sorted({check.function for e in chosen for f in e.functions for check in checks_of(f)})
    work = [(name, dtype, cases) for name in names for dtype in DTYPES]
    results = dict(_stage("comparisons", _compare, work, jobs, progress))
    figures = arithmetic.audit()
    mutants = mutation.Report(())
    if with_mutation:
        reports = _stage("formula mutants", _mutate, _distinct(chosen), jobs, progress)
        mutants = mutation.combine(report for _, report in reports)
    coq = _coq(with_coq, progress)
    by_label = coq_source.by_label()
    native = read_records(records)
    rows = tuple(
        judge(e, proofs[e.label], generated[e.label], results, coq, by_label, figures, native)
        for e in chosen
    )
    rows = tuple(map(_with_the_wrong_text, rows))
    if only is None:
        rows = tuple(_with_foundations(rows))
    covered = {name for e in entries() for name in (e.label, *e.aliases)}
    return Ledger(
        rows=rows,
        labels_required=len(REQUIRED),
        labels_covered=len(set(REQUIRED) & covered),
        coq_status=coq.status,
        coq_reason=coq.reason,
        coq_theorems=len(coq_source.theorems()),
        coq_checked=sum(report.status == "checked" for report in coq.theorems.values()),
        mutants=str(mutants) if with_mutation else NOT_CHECKED,
        figures=_figure_text(figures),
        seconds=clock.seconds,
        failures=tuple(_loose_failures(coq, mutants, set(REQUIRED) - covered)),
    )


def explain(label: str) -> Iterator[str]:
    """An entry in full: statement, assumptions, certificates, Coq theorems and functions."""
    entry = find(label)
    yield f"{entry.label} ({entry.kind}): {entry.title}"
    yield f"  {entry.text}"
    if len(entry.names) > 1:
        yield f"also: {', '.join(entry.names[1:])}"
    yield f"scope: {entry.scope}"
    for name in entry.assumptions:
        yield f"assumes: {ASSUMPTIONS[name]}"
    for clause in entry.clauses:
        yield ""
        yield f"clause: {clause.text}"
        proofs = [*(statement.name for statement in clause.statements), *clause.coq]
        yield f"  proved by: {'; '.join(proofs) or clause.computed or 'nothing'}"
    yield f"stands on: {', '.join(stands_on(entry.label)) or 'definitions alone'}"
    for statement in entry.statements:
        yield ""
        yield str(statement.prove())
        for instance in rational.instantiate(statement):
            verdict = "holds" if instance.ok else "FAILS"
            yield f"      N = {instance.size}: {verdict} ({instance.arithmetic})"
    yield ""
    theorems, by_label = coq_source.theorems(), coq_source.by_label()
    for identifier in theorem_ids(entry, by_label):
        theorem = theorems[identifier]
        yield f"Coq: {identifier}, line {theorem.line}: {theorem.comment}"
    if not theorem_ids(entry, by_label):
        yield "Coq: no theorem yet"
    for function in entry.functions:
        names = ", ".join(check.function for check in checks_of(function)) or "none"
        yield f"torch: finite_calculus.{function}; checks: {names}"
    native = standing(entry.names, read_records())
    for name in native.checks:
        yield f"native: native_checks.{name}, run by finite-calculus preflight"
    if native.checks:
        found = f"{native.record}, worst over bound {native.worst_over_bound}"
        yield f"native record: {found if native.record else 'none of this code'}"


def _stage(
    name: str, work: Callable, items: Sequence, jobs: int, progress: Progress
) -> Iterator[tuple]:
    return parallel(lambda done, total: progress(name, done, total), work, items, jobs)


class _Clock:
    """Passes progress on and notes how long each stage took."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._started: dict[str, float] = {}
        self.seconds: dict[str, float] = {}

    def report(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        self.seconds[stage] = now - self._started.setdefault(stage, now)
        self._progress(stage, done, total)


def _prove(label: str) -> EntryProof:
    return prove_entry(find(label))


def _generate(label: str) -> GeneratedCheck:
    return check_entry(find(label), GENERATED)


def _with_the_wrong_text(row: LedgerRow) -> LedgerRow:
    """A row that failed also says which of its statement, definition and code contradicts the others."""
    if not row.failures:
        return row
    return replace(row, failures=(*row.failures, *wrong_texts(find(row.label))))


def _with_foundations(rows: Sequence[LedgerRow]) -> Iterator[LedgerRow]:
    """The rows, green where nothing fails and nothing is left open in them or in what they stand on."""
    complete = {"proved", "evaluated", "recomputed"}
    holds = {row.label: row.proof in complete and not row.failures for row in rows}
    for row in rows:
        yield replace(row, green=is_green(row.label, holds))


def _distinct(chosen: Iterable[Entry]) -> list[tuple[str, int]]:
    """Each statement once, as (label, position), though entries share some."""
    places = {
        statement.name: (entry.label, position)
        for entry in chosen
        for position, statement in enumerate(entry.statements)
    }
    return list(places.values())


def _mutate(place: tuple[str, int]) -> mutation.Report:
    label, position = place
    return mutation.mutate(find(label).statements[position], most=MUTANTS)


def _compare(work: tuple[str, str, int]) -> CheckResult:
    name, dtype, cases = work
    check = CHECKS[name]
    stability = sample(check, dtype, cases) if isinstance(check, ReferenceComparison) else None
    return CheckResult(run(check, dtype, cases), stability)


def _coq(enabled: bool, progress: Progress) -> coq_check.CoqReport:
    if not enabled:
        return coq_check.CoqReport(NOT_CHECKED, None, 0.0, {}, reason="not asked for")
    total = len({theorem.module for theorem in coq_source.theorems().values()})
    count = itertools.count(1)
    progress("Coq", 0, total)
    report = coq_check.check(lambda _: progress("Coq", min(next(count), total), total))
    progress("Coq", total, total)
    return report


def _loose_failures(
    coq: coq_check.CoqReport, mutants: mutation.Report, missing: Iterable[str]
) -> Iterator[str]:
    yield from (f"Coq: {failure}" for failure in coq.failures)
    if coq.status == "failed" and not coq.failures:
        yield f"Coq: {coq.reason}"
    for verdict in mutation.FAILURES:
        yield from (f"mutant {verdict}: {o.statement}: {o.text}" for o in mutants.of(verdict))
    yield from (f"no entry for the label {label}" for label in sorted(missing))


def _figure_text(figures: Sequence[arithmetic.FigureResult]) -> str:
    return f"{sum(o.consistent for o in figures)} of {len(figures)} printed figures consistent"


def _row_json(row: LedgerRow) -> dict[str, object]:
    data = asdict(row)
    entry = find(row.label)
    data["text"] = entry.text
    data["assumptions"] = [ASSUMPTIONS[name] for name in entry.assumptions]
    for shown, clause in zip(data["clauses"], entry.clauses, strict=True):
        shown["mathematics"] = [
            {"name": each.name, "mathml": mathml(each)} for each in clause.statements
        ]
    data["coq"] = {"status": row.coq, "theorems": list(data.pop("coq_theorems"))}
    data["generated"] = {"cases": row.generated.cases, "bits": row.generated.bits}
    data["native"] = {"status": row.native.status, **data["native"]}
    return data
