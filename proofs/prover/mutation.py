"""Formula mutation: every statement with one thing changed, and what becomes of it.

A mutant flips a sign, drops a term or a factor, swaps a symbol for another of its sort, changes an index set
(1_S to 1_T, 1, 1 − 1_S), moves a constant, an exponent, a limit or the order of a derivative by one, replaces
exp, sin or cos by another, turns ≤ round or makes it =, on either side or in one hypothesis. It is refuted if
it is false in the exact model, true if it is proved and holds there, unproved if it holds there without being
proved, and undecided if the model cannot evaluate it and nothing proves it. One that is proved and false is a
survivor: the method is unsound. A changed hypothesis mostly leaves the conclusion unproved; where it still
follows, the statement is more general than it says.

`python -m proofs.prover.mutation` tries a sample of every statement, drawn with a seed and printed with its
size, and exits with 1 on a survivor; `--each all` tries every mutant, which takes hours.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import multiprocessing
import random
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sympy as sp

from proofs.prover.rational import holds, mutant
from proofs.prover.statements import Statement
from proofs.prover.syntax import Index, Letter, shape

SIZES = (2, 3)


class Verdict(StrEnum):
    """What became of a mutant."""

    REFUTED = "refuted"
    UNPROVED = "unproved"
    TRUE = "true"
    SURVIVOR = "survivor"
    GENERAL = "more general"
    UNDECIDED = "undecided"


FAILURES = (Verdict.SURVIVOR,)


@dataclass(frozen=True)
class MutantResult:
    """One mutant: the statement it came from, its text, and what became of it."""

    statement: str
    text: str
    verdict: Verdict


@dataclass(frozen=True)
class Report:
    """The mutants of a run, and how many there are in all."""

    results: tuple[MutantResult, ...]
    total: int = 0

    def count(self, verdict: Verdict) -> int:
        return sum(result.verdict is verdict for result in self.results)

    def of(self, verdict: Verdict) -> list[MutantResult]:
        return [result for result in self.results if result.verdict is verdict]

    @property
    def ok(self) -> bool:
        return not any(self.of(verdict) for verdict in FAILURES)

    def __str__(self) -> str:
        counts = ", ".join(f"{self.count(verdict)} {verdict}" for verdict in Verdict)
        size = len(self.results)
        return f"{size} of {max(size, self.total)} mutants: {counts}"


def mutate(statement: Statement, *, most: int | None = None, seed: int = 0) -> Report:
    """Run the method of one statement on its mutants, or on `most` of them, drawn with a seed."""
    pool: list[tuple[Statement, str]] = [(m, "") for m in mutants(statement)]
    pool += hypothesis_mutants(statement)
    places: Iterable[int] = range(len(pool))
    if most is not None and most < len(pool):
        places = sorted(random.Random(f"{seed}|{statement.name}").sample(places, most))
    results = [
        MutantResult(m.name, f"{m} from {changed}", _verdict_on_hypothesis(m))
        if changed
        else MutantResult(m.name, str(m), _verdict(m))
        for m, changed in (pool[place] for place in places)
    ]
    return Report(tuple(results), len(pool))


def mutate_catalogue(
    *, most: int | None = None, seed: int = 0, processes: int = 2
) -> Iterator[Report]:
    """One report for each statement of the catalogue, as they are finished."""
    # Workers build the catalogue themselves: its samplers cannot be sent to another process.
    work = functools.partial(_mutate_position, most=most, seed=seed)
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(work, range(len(_statements())))


def combine(reports: Iterable[Report]) -> Report:
    """One report of several."""
    reports = tuple(reports)
    results = tuple(result for report in reports for result in report.results)
    return Report(results, sum(report.total for report in reports))


@functools.cache
def _statements() -> tuple[Statement, ...]:
    """The statements of the catalogue, each once though entries share some."""
    from proofs.catalogue import entries

    by_name = {statement.name: statement for entry in entries() for statement in entry.statements}
    return tuple(by_name.values())


def _mutate_position(position: int, *, most: int | None, seed: int) -> Report:
    return mutate(_statements()[position], most=most, seed=seed)


def mutants(statement: Statement) -> Iterator[Statement]:
    """Each distinct statement one change of a side or of the relation away."""
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
    if statement.relation == "≤":
        yield mutant(statement, statement.rhs, statement.lhs)
        yield dataclasses.replace(statement, relation="=")


def hypothesis_mutants(statement: Statement) -> Iterator[tuple[Statement, str]]:
    """The statement with the value of one hypothesis changed, and that hypothesis."""
    symbols = sorted(
        set().union(*(e.free_symbols for pair in statement.hypotheses for e in pair)),
        key=sp.default_sort_key,
    )
    for position, (pivot, value) in enumerate(statement.hypotheses):
        links = tuple(
            link
            for link in statement.links
            if (pivot, value) not in (link.hypothesis, getattr(link, "source", None))
        )
        # In an order of their own: a sample must not depend on the hashes of a process.
        for changed in sorted({-value, *_changes(value, symbols)} - {value}, key=str):
            pair = (pivot, changed)
            others = statement.hypotheses
            hypotheses = (*others[:position], pair, *others[position + 1 :])
            if not changed.has(sp.nan, sp.zoo):
                new = dataclasses.replace(statement, hypotheses=hypotheses, links=links)
                yield new, f"{pivot} = {changed}"


def _is_formula(statement: Statement, lhs: sp.Expr, rhs: sp.Expr) -> bool:
    # A change can leave a division by zero, or matrices that do not fit: not formulas at all.
    if lhs.has(sp.nan, sp.zoo) or rhs.has(sp.nan, sp.zoo):
        return False
    # J and the matrices of a series have no sine.
    angles = {arg for side in (lhs, rhs) for f in side.atoms(*HEADS, sp.log) for arg in f.args}
    if any(not symbol.is_real for angle in angles for symbol in angle.free_symbols):
        return False
    if not statement.lhs.atoms(Letter):
        return True
    try:
        return shape(lhs - rhs) in {shape(statement.lhs), None}
    except ValueError:
        return False


def _verdict(mutant: Statement) -> Verdict:
    proved, model = _is_proved(mutant), _in_model(mutant)
    if proved:
        return Verdict.TRUE if model is True else Verdict.SURVIVOR
    if model is None:
        return Verdict.UNDECIDED
    return Verdict.UNPROVED if model else Verdict.REFUTED


def _verdict_on_hypothesis(mutant: Statement) -> Verdict:
    """The conclusion is true in the model, so a proof from a changed hypothesis refutes nothing."""
    return Verdict.GENERAL if _is_proved(mutant) else Verdict.UNPROVED


def _is_proved(mutant: Statement) -> bool:
    try:
        return mutant.prove().ok
    except (ValueError, ArithmeticError, TypeError, sp.PolynomialError, NotImplementedError):
        return False


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
        # The variables of a derivative, an integral or a sum are bound: only limits and orders change.
        if isinstance(child, sp.Tuple) or (isinstance(tree, sp.Subs) and position):
            others = _tuples(tree, child, position)
        else:
            others = _changes(child, symbols)
        for other in others:
            args = [*tree.args[:position], other, *tree.args[position + 1 :]]
            yield tree.func(*args)


def _tuples(tree: sp.Basic, child: Any, position: int) -> Iterator[Any]:
    """Limits of an integral or a series, points of an evaluation and orders of a derivative, moved by one."""
    if isinstance(tree, sp.Derivative):
        variable, order = child.args
        yield from (sp.Tuple(variable, new) for new in (order + 1, order - 1) if new > 0)
    elif isinstance(tree, sp.Integral | sp.Sum):
        variable, lower, upper = child.args
        yield sp.Tuple(variable, lower + 1, upper)
        if upper != sp.oo:
            yield sp.Tuple(variable, lower, upper + 1)
    elif position == 2:
        for i, point in enumerate(child.args):
            yield sp.Tuple(*child.args[:i], point + 1, *child.args[i + 1 :])


HEADS = (sp.exp, sp.sin, sp.cos)


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
    elif isinstance(node, HEADS):
        yield from (head(*node.args) for head in HEADS if not isinstance(node, head))
    elif isinstance(node, sp.log | sp.Abs):
        yield node.args[0]


def _sort(symbol: sp.Basic) -> tuple[Any, ...]:
    if isinstance(symbol, Index):
        return ("index", symbol.idempotent)
    if isinstance(symbol, Letter):
        return ("letter", symbol.shape, symbol.indexed)
    return ("scalar", bool(getattr(symbol, "is_integer", False)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Mutate the catalogue and list the mutants that are true or undecided."""
    parser = argparse.ArgumentParser(description="Every statement with one thing changed.")
    parser.add_argument("--each", default="24", help="mutants of a statement, or all (default: 24)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args(arguments)
    most = None if options.each == "all" else int(options.each)
    started = time.monotonic()
    reports = mutate_catalogue(most=most, seed=options.seed, processes=options.processes)
    report = combine(reports)
    for verdict in (Verdict.TRUE, Verdict.GENERAL, Verdict.UNDECIDED, *FAILURES):
        for result in sorted(report.of(verdict), key=lambda result: result.statement):
            print(f"{verdict}: {result.statement}\n    {result.text}")
    budget = "all" if most is None else f"at most {most} of each statement, seed {options.seed}"
    print(f"{report} ({budget}; {time.monotonic() - started:.0f} s, {options.processes} processes)")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
