"""The mutants of a statement: each is one change away from it.

A mutant flips a sign, drops a term or a factor, swaps a symbol for another of its sort, changes an index set
(1_S to 1_T, 1, 1 − 1_S), moves a constant, an exponent, a limit or the order of a derivative by one, replaces
exp, sin or cos by another, turns ≤ round or makes it =, on either side or in one hypothesis.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import sympy as sp

from proofs.prover.rational import mutant
from proofs.prover.statements import Statement
from proofs.prover.syntax import Index, Letter, shape

HEADS = (sp.exp, sp.sin, sp.cos)


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
