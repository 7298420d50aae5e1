"""Formula mutation: every statement with one symbol changed must be rejected or be true as well.

A mutant flips a sign, drops a term or a factor, swaps a symbol for another of its sort, changes an
index set (1_S to 1_T, 1, 1 − 1_S), or moves a constant or an exponent by one, on either side. The
proof method of the statement is run on each mutant. One that it proves is checked in the exact
model: if it holds it is another true identity and is listed, if not it is a survivor, which means
that the method is unsound. One on which the method has no verdict must be refuted by the model.

`python -m proofs.prover.mutation` runs all of them and exits with 1 on a survivor or an undecided mutant.
"""

from __future__ import annotations

import functools
import multiprocessing
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sympy as sp

from proofs.prover.rational import holds, mutant
from proofs.prover.statements import Statement
from proofs.prover.syntax import Index, Letter, shape

SIZES = (2, 3, 7)


class Verdict(StrEnum):
    """What became of a mutant."""

    REJECTED = "rejected"
    TRUE = "true identity"
    SURVIVOR = "survivor"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class MutantResult:
    """One mutant: the statement it came from, its text, and what became of it."""

    statement: str
    text: str
    verdict: Verdict


@dataclass(frozen=True)
class Report:
    """All mutants of a run."""

    results: tuple[MutantResult, ...]

    def count(self, verdict: Verdict) -> int:
        return sum(result.verdict is verdict for result in self.results)

    def of(self, verdict: Verdict) -> list[MutantResult]:
        return [result for result in self.results if result.verdict is verdict]

    @property
    def ok(self) -> bool:
        return not self.of(Verdict.SURVIVOR) and not self.of(Verdict.UNDECIDED)

    def __str__(self) -> str:
        counts = ", ".join(f"{self.count(verdict)} {verdict}" for verdict in Verdict)
        return f"{len(self.results)} mutants: {counts}"


def mutate(statement: Statement) -> Report:
    """Run the method of one statement on all of its mutants."""
    return Report(tuple(_judge(mutant) for mutant in mutants(statement)))


def mutate_catalogue(*, processes: int = 2) -> Iterator[Report]:
    """One report for each statement of the catalogue, as they are finished."""
    # Workers build the catalogue themselves: its samplers cannot be sent to another process.
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(_mutate_position, range(len(_statements())))


def combine(reports: Iterable[Report]) -> Report:
    """One report of several."""
    return Report(tuple(result for report in reports for result in report.results))


@functools.cache
def _statements() -> tuple[Statement, ...]:
    """The statements of the catalogue, each once though entries share some."""
    from proofs.catalogue import entries

    by_name = {statement.name: statement for entry in entries() for statement in entry.statements}
    return tuple(by_name.values())


def _mutate_position(position: int) -> Report:
    return mutate(_statements()[position])


def mutants(statement: Statement) -> Iterator[Statement]:
    """Each distinct statement one change away."""
    pool = statement.lhs.free_symbols | statement.rhs.free_symbols
    symbols = sorted(pool, key=sp.default_sort_key)
    earlier = {(statement.lhs, statement.rhs)}
    for side in ("lhs", "rhs"):
        tree = getattr(statement, side)
        for new_side in [-tree, *_changes(tree, symbols)]:
            pair = (new_side, statement.rhs) if side == "lhs" else (statement.lhs, new_side)
            if pair not in earlier and _is_formula(statement, *pair):
                earlier.add(pair)
                yield mutant(statement, *pair)


def _is_formula(statement: Statement, lhs: sp.Expr, rhs: sp.Expr) -> bool:
    # A change can leave a division by zero, or matrices that do not fit: not formulas at all.
    if lhs.has(sp.nan, sp.zoo) or rhs.has(sp.nan, sp.zoo):
        return False
    if not statement.lhs.atoms(Letter):
        return True
    try:
        return shape(lhs - rhs) in {shape(statement.lhs), None}
    except ValueError:
        return False


def _judge(mutant: Statement) -> MutantResult:
    return MutantResult(mutant.name, str(mutant), _verdict(mutant))


def _verdict(mutant: Statement) -> Verdict:
    try:
        proved = mutant.prove().ok
    except (ValueError, ArithmeticError, sp.PolynomialError, NotImplementedError):
        return Verdict.REJECTED if _in_model(mutant) is False else Verdict.UNDECIDED
    if not proved:
        return Verdict.REJECTED
    return Verdict.TRUE if _in_model(mutant) is True else Verdict.SURVIVOR


def _in_model(mutant: Statement) -> bool | None:
    """Whether the mutant holds in the exact model; None when it cannot be evaluated there."""
    try:
        return holds(mutant, tuple(size for size in SIZES if size >= mutant.smallest))
    except ZeroDivisionError:
        return False  # undefined where the statement itself is defined
    except (ValueError, TypeError, NotImplementedError):
        return None


def _changes(tree: sp.Basic, symbols: Sequence[sp.Basic]) -> Iterator[Any]:
    """Every tree that differs from this one in a single place."""
    yield from _here(tree, symbols)
    for position, child in enumerate(tree.args):
        # The variables of a derivative, an integral or a sum are not part of the formula.
        if isinstance(child, sp.Tuple) or (isinstance(tree, sp.Subs) and position):
            continue
        for other in _changes(child, symbols):
            args = [*tree.args[:position], other, *tree.args[position + 1 :]]
            yield tree.func(*args)


def _here(node: sp.Basic, symbols: Sequence[sp.Basic]) -> Iterator[Any]:
    if isinstance(node, sp.Symbol):
        yield from (other for other in symbols if other != node and _sort(other) == _sort(node))
        if isinstance(node, Index) and node.idempotent:
            yield from (sp.Integer(1), 1 - node)
    elif isinstance(node, sp.Rational):
        yield from (node + 1, node - 1)
    elif isinstance(node, sp.Add):
        for position, term in enumerate(node.args):
            rest = [*node.args[:position], *node.args[position + 1 :]]
            yield from (sp.Add(*rest), sp.Add(*rest, -term))
    elif isinstance(node, sp.Mul):
        for position in range(len(node.args)):
            yield sp.Mul(*node.args[:position], *node.args[position + 1 :])
    elif isinstance(node, sp.Pow) and node.exp.is_Integer:
        yield node.base


def _sort(symbol: sp.Basic) -> tuple[Any, ...]:
    if isinstance(symbol, Index):
        return ("index", symbol.idempotent)
    if isinstance(symbol, Letter):
        return ("letter", symbol.shape, symbol.indexed)
    return ("scalar", bool(getattr(symbol, "is_integer", False)))


def main() -> int:
    """Run the whole catalogue and list the mutants that are true."""
    report = combine(mutate_catalogue())
    for verdict in (Verdict.TRUE, Verdict.SURVIVOR, Verdict.UNDECIDED):
        for result in sorted(report.of(verdict), key=lambda result: result.statement):
            print(f"{verdict}: {result.statement}\n    {result.text}")
    print(report)
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
