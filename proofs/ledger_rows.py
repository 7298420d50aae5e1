"""One row of the ledger from the evidence for an entry: which of it holds, and what fails."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from proofs import coq_check, coq_source
from proofs.edges import stands_on
from proofs.entry import Entry, Kind, Status
from proofs.generated.entries import GeneratedCheck
from proofs.native import NativeRecord, NativeStanding, standing
from proofs.numeric.checks import CheckResult, checks_of
from proofs.printed import arithmetic
from proofs.prover import rational
from proofs.prover.statements import Statement
from proofs.prover.syntax import RefusalError

NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class Numeric:
    """Cases of all functions of an entry in one dtype; `bits_lost` where there is a reference."""

    cases: int
    violations: int
    worst_over_bound: float
    bits_lost: float | None


@dataclass(frozen=True)
class ClauseRow:
    """One claim of an entry, the names of the statements and theorems that prove it, and its status."""

    text: str
    proof: tuple[str, ...]
    coq: tuple[str, ...]
    status: str


@dataclass(frozen=True)
class LedgerRow:
    """One entry of the ledger; `green` says that it and all that it stands on hold, None if unknown."""

    label: str
    aliases: tuple[str, ...]
    kind: str
    title: str
    proof: str
    clauses: tuple[ClauseRow, ...]
    stands_on: tuple[str, ...]
    scope: str
    coq: str
    coq_theorems: tuple[str, ...]
    generated: GeneratedCheck
    reference_bits: int | None
    float64: Numeric | None
    float32: Numeric | None
    native: NativeStanding
    failures: tuple[str, ...] = ()
    green: bool | None = None


@dataclass(frozen=True)
class EntryProof:
    """The names of the statements of an entry that are proved and hold in every instance, and what fails."""

    proved: frozenset[str]
    failures: tuple[str, ...]


def prove_entry(entry: Entry) -> EntryProof:
    """Prove and instantiate every statement of an entry; one that cannot be treated is not proved."""
    proved: set[str] = set()
    failures: list[str] = []
    for statement in entry.statements:
        errors = [*_unproved(statement), *_false_instances(statement)]
        if not errors:
            proved.add(statement.name)
        failures += errors
    return EntryProof(frozenset(proved), tuple(failures))


def judge(
    entry: Entry,
    proof: EntryProof,
    generated: GeneratedCheck,
    results: dict[tuple[str, str, int], CheckResult],
    coq: coq_check.CoqReport,
    by_label: dict[str, tuple[str, ...]],
    figures: Sequence[arithmetic.FigureResult],
    records: Sequence[NativeRecord] = (),
) -> LedgerRow:
    """The row of an entry: what was run and held, and a failure for everything that did not."""
    mine = {check.function for function in entry.functions for check in checks_of(function)}
    runs = [result for (name, _, _), result in results.items() if name in mine]
    failures = [*proof.failures, *(failure for o in runs for failure in _numeric_failures(o))]
    theorems = theorem_ids(entry, by_label)
    status = _coq_status(theorems, coq)
    if status == "failed":
        failures.append(f"Coq: {', '.join(theorems)} failed")
    if entry.kind is Kind.ARITHMETIC:
        wrong = arithmetic.unexpected(figures)
        failures += [f"printed figure {name} is not as expected" for name in wrong]
    failures += [f"generated reference: {failure}" for failure in generated.failures]
    clauses = _clauses(entry, proof, coq)
    failures += [f"no proof of: {clause.text}" for clause in clauses if _is_open(clause)]
    native = standing(entry.names, records)
    if native.status == "failed":
        failures.append(
            f"native: {native.record} is {native.worst_over_bound:.3g} of its bound off"
        )
    if not clauses:
        failures.append("the entry carries no clause")
    return LedgerRow(
        label=entry.label,
        aliases=entry.names[1:],
        kind=str(entry.kind),
        title=entry.title,
        proof=_verdict(entry.kind, clauses),
        clauses=clauses,
        stands_on=stands_on(entry.label),
        scope=entry.scope,
        coq=status,
        coq_theorems=theorems,
        generated=generated,
        reference_bits=max((o.tally.reference_bits for o in runs), default=None),
        float64=_numeric(runs, "float64"),
        float32=_numeric(runs, "float32"),
        native=native,
        failures=tuple(failures),
    )


def _unproved(statement: Statement) -> Iterator[str]:
    try:
        reason = "" if statement.prove().ok else str(statement)
    except RefusalError as error:
        reason = str(error)
    if reason:
        yield f"not proved: {statement.name}: {reason}"


def _false_instances(statement: Statement) -> Iterator[str]:
    try:
        for instance in rational.instantiate(statement):
            if not instance.ok:
                yield f"fails at N = {instance.size}: {statement.name}: {instance.detail}"
    except rational.ModelError as error:
        yield f"assumes what does not hold: {error}"


def _clauses(entry: Entry, proof: EntryProof, coq: coq_check.CoqReport) -> tuple[ClauseRow, ...]:
    """The clauses with what became of each; a theorem is checked, broken or, without Coq, neither."""

    def is_checked(theorem: str) -> bool | None:
        verdict = _coq_status((theorem,), coq)
        return None if verdict == NOT_CHECKED else verdict == "checked"

    return tuple(
        ClauseRow(
            text=clause.text,
            proof=tuple(statement.name for statement in clause.statements),
            coq=clause.coq,
            status=clause.status(lambda statement: statement.name in proof.proved, is_checked),
        )
        for clause in entry.clauses
    )


def _is_open(clause: ClauseRow) -> bool:
    return clause.status == Status.UNPROVED


def _verdict(kind: Kind, clauses: Sequence[ClauseRow]) -> str:
    """One word for all clauses of an entry: what the weakest of them allows."""
    statuses = {clause.status for clause in clauses}
    if not statuses or Status.UNPROVED in statuses:
        return "failed"
    if Status.NOT_CHECKED in statuses:
        return "not checked" if statuses == {Status.NOT_CHECKED} else "proved in part"
    if statuses == {Status.RECOMPUTED}:
        return "recomputed"
    return "evaluated" if kind is Kind.DEFINITION else "proved"


def theorem_ids(entry: Entry, by_label: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The theorems that name the entry by any of its labels, each once."""
    ids = [identifier for name in entry.names for identifier in by_label.get(name, ())]
    return tuple(dict.fromkeys(ids))


def _coq_status(theorems: tuple[str, ...], coq: coq_check.CoqReport) -> str:
    if not theorems:
        return "none"
    if coq.status == NOT_CHECKED:
        return NOT_CHECKED
    if any(_broken(name, failure) for name in theorems for failure in coq.failures):
        return "failed"
    # After a failure elsewhere the library was not compiled to its end: nothing is known of the rest.
    return coq.status if coq.status == "checked" else NOT_CHECKED


def _broken(identifier: str, failure: coq_source.Failure) -> bool:
    """Whether a failure is this theorem's own, or its file's if Coq could not name the theorem."""
    if failure.theorem is None:
        return failure.file == f"{identifier.partition('.')[0]}.v"
    return failure.theorem == identifier


def _numeric(runs: Iterable[CheckResult], dtype: str) -> Numeric | None:
    mine = [result for result in runs if result.tally.dtype == dtype]
    if not mine:
        return None
    return Numeric(
        cases=sum(o.tally.cases for o in mine),
        violations=sum(o.tally.violations for o in mine),
        worst_over_bound=max(o.tally.worst_over_bound for o in mine),
        bits_lost=max((o.stability.bits for o in mine if o.stability), default=None),
    )


def _numeric_failures(result: CheckResult) -> Iterator[str]:
    tally, stability = result.tally, result.stability
    if tally.violations:
        yield (
            f"{tally.function} {tally.dtype}: {tally.violations} of {tally.cases} cases beyond their "
            f"bound, worst {tally.worst_over_bound:.3g}, case {tally.worst}"
        )
    if stability is not None and not stability.holds:
        yield (
            f"{tally.function} {tally.dtype}: not stable, {stability.bits:.1f} bits lost where "
            f"{stability.allowed:.1f} are allowed, case {stability.worst}"
        )
