"""Numerical checks of all studies in one table: a figure beside its bound, and whether it holds.

A row may stand for many comparisons of one kind in a unit; it then shows the one that comes closest to its
bound, and counts how many there were and how many failed.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from finite_calculus.harness.rows import Row

CHECKS = "checks"


@dataclass(frozen=True)
class CheckRow(Row):
    """One kind of check in one unit, as the harness saves it."""

    unit: str
    check: str
    figure: float
    bound: float
    passed: bool
    cases: int
    failed: int


@dataclass(frozen=True)
class Check:
    """One kind of check in one unit, as a study reports it; `cases` comparisons, `failed` of them beyond."""

    name: str
    figure: float
    bound: float
    cases: int
    failed: int

    def row(self, unit: str) -> CheckRow:
        """The check as a row of the table."""
        passed = self.failed == 0
        return CheckRow(unit, self.name, self.figure, self.bound, passed, self.cases, self.failed)


def compare(name: str, pairs: Iterable[tuple[float, float]]) -> Check:
    """Figures that must not exceed their bounds, given as (figure, bound); NaN exceeds every bound."""
    listed = list(pairs)
    if not listed:
        raise ValueError(f"`pairs` of the check {name!r} must hold a comparison; got none.")
    figure, bound = max(listed, key=_closeness)
    failed = sum(not figure <= bound for figure, bound in listed)
    return Check(name, figure, bound, len(listed), failed)


def count(name: str, violations: Sequence[bool]) -> Check:
    """Cases of which none may be a violation."""
    failed = sum(violations)
    return Check(name, float(failed), 0.0, len(violations), failed)


def totals(rows: Iterable[CheckRow]) -> tuple[int, int]:
    """How many comparisons were recorded, and how many of them failed."""
    listed = list(rows)
    return sum(row.cases for row in listed), sum(row.failed for row in listed)


def failures(rows: Iterable[CheckRow]) -> dict[str, int]:
    """How often each check failed that did."""
    failed: dict[str, int] = {}
    for row in rows:
        if row.failed:
            failed[row.check] = failed.get(row.check, 0) + row.failed
    return failed


def failure_words(rows: Iterable[CheckRow]) -> str:
    """As in "3 of 48 checks FAILED: local write (3)"; nothing where none did."""
    listed = list(rows)
    cases, failed = totals(listed)
    names = ", ".join(f"{name} ({count})" for name, count in failures(listed).items())
    return f"{failed} of {cases} checks FAILED: {names}" if failed else ""


def _closeness(pair: tuple[float, float]) -> float:
    """The figure in units of its bound; what is not a number comes first."""
    figure, bound = pair
    if math.isnan(figure) or math.isnan(bound):
        return math.inf
    if bound == 0:
        return math.inf if figure > 0 else 0.0
    return figure / bound
