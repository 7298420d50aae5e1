"""The generated reference of a whole entry, and which entries have one.

Equalities, bounds and expansions must have one; `python -m proofs.generated` prints the coverage by
label. An entry is covered when every statement of it was evaluated and held and, for an equality or an
expansion, when a hand-written definition was among what had to agree. An entry that cannot be had is
in MISSING with its reason, and counts as missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from proofs.entry import Entry, Kind
from proofs.generated.comparison import StatementCheck, check_statement
from proofs.generated.scenes import scene_of

REQUIRED = (Kind.EQUALITY, Kind.BOUND, Kind.EXPANSION)
# These say what a quantity is, so that a definition has to say the same.
_DEFINED = (Kind.EQUALITY, Kind.EXPANSION)
# Labels without a generated reference, each with the reason.
MISSING: dict[str, str] = {}


@dataclass(frozen=True)
class GeneratedCheck:
    """An entry on some cases: bits of Arb, relative width of the worst agreement, what failed."""

    label: str
    kind: str
    cases: int
    bits: int
    worst: float
    statements: int
    definitions: int
    failures: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether every statement was evaluated and held."""
        return self.statements > 0 and not self.failures


def is_required(entry: Entry) -> bool:
    """Whether an entry must have a generated reference."""
    return entry.kind in REQUIRED


def check_entry(entry: Entry, cases: int = 2, seed: int = 0) -> GeneratedCheck:
    """Both sides of every statement of an entry, and its definitions, on `cases` cases each."""
    if entry.label in MISSING:
        return _combine(entry, [], 0, (MISSING[entry.label],))
    scene = scene_of(entry)
    checks = [check_statement(statement, scene, cases, seed) for statement in entry.statements]
    failures = [failure for check in checks for failure in check.failures]
    if entry.kind in _DEFINED and not any(check.is_defined for check in checks):
        failures.append(f"{entry.label}: no hand-written definition is compared with it")
    return _combine(entry, checks, cases, tuple(failures))


def coverage(checks: Iterable[GeneratedCheck]) -> tuple[list[str], list[str]]:
    """Required labels that are covered, and those that are missing."""
    covered, missing = [], []
    for check in checks:
        if check.kind in REQUIRED:
            (covered if check.passed else missing).append(check.label)
    return covered, missing


def _combine(
    entry: Entry, checks: list[StatementCheck], cases: int, failures: tuple[str, ...]
) -> GeneratedCheck:
    return GeneratedCheck(
        label=entry.label,
        kind=str(entry.kind),
        cases=cases * len(checks),
        bits=max((check.bits for check in checks), default=0),
        worst=max((check.worst for check in checks), default=0.0),
        statements=len(checks),
        definitions=sum(check.is_defined for check in checks),
        failures=failures,
    )
