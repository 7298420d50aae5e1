"""The search for cofactors by division. It is not trusted: the kernel expands what it finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import sympy as sp

from proofs.prover.syntax import RefusalError, S


def divide(
    numerator: sp.Expr, conditions: Sequence[sp.Expr], pivots: Sequence[sp.Expr]
) -> tuple[list[sp.Expr], sp.Expr]:
    """Cofactors q and a remainder r with numerator = Σ q·condition + r.

    Each condition is monic in a power of its pivot and uses only later pivots, so with the pivots
    first in a lexicographic order the leading monomials are coprime: the conditions are a Gröbner
    basis, and r = 0 exactly when the numerator lies in their ideal.
    """
    if numerator == 0 or not conditions:
        return [sp.Integer(0)] * len(conditions), numerator
    sums = [node for expr in (numerator, *conditions) for node in _outermost(expr)]
    # Moments share index symbols, which polynomial division must not look into.
    nodes = sorted({*pivots, *sums}, key=sp.default_sort_key)
    opaque = {node: sp.Dummy(sp.sstr(node)) for node in nodes}
    dividend, *divisors = (expr.xreplace(opaque) for expr in (numerator, *conditions))
    first = [opaque[pivot] for pivot in pivots]
    symbols = dividend.free_symbols.union(*(expr.free_symbols for expr in divisors))
    rest = sorted(symbols - set(first), key=sp.default_sort_key)
    result: Any = sp.reduced(dividend, divisors, *first, *rest, order="lex")
    back = {symbol: node for node, symbol in opaque.items()}
    cofactors, remainder = ([part.xreplace(back) for part in result[0]], result[1].xreplace(back))
    return cofactors, remainder


def choose_pivots(
    conditions: Sequence[sp.Expr], bases: Sequence[sp.Expr], declared: set[sp.Expr]
) -> tuple[list[sp.Expr], list[sp.Expr], list[sp.Expr], list[int]]:
    """Conditions without their non-zero factors, these factors, a pivot for each, and their order.

    A definition may have turned the pivot of a hypothesis into several moments. Its condition is then
    freed of factors that are declared non-zero, and what no later condition holds is its pivot.
    """
    reduced, pivots = list(conditions), list(bases)
    units: list[sp.Expr] = [sp.Integer(1)] * len(conditions)
    regular = [i for i, base in enumerate(bases) if isinstance(base, sp.Symbol | S)]
    waiting = [i for i in range(len(bases)) if i not in regular]
    order: list[int] = []
    for i in waiting:
        reduced[i], units[i] = _without_units(conditions[i], declared)
    while waiting:
        for i in waiting:
            later = [reduced[k] for k in (*waiting, *regular) if k != i]
            candidates = _linear_nodes(reduced[i], later)
            if candidates:
                break
        else:
            base = bases[waiting[0]]
            raise RefusalError(f"a definition turns a pivot into {base}, which is not one moment")
        pivots[i] = candidates[0]
        scale = reduced[i].coeff(pivots[i], 1)
        reduced[i], units[i] = sp.expand(reduced[i] / scale), units[i] * scale
        waiting.remove(i)
        order.append(i)
    for i, pivot in enumerate(pivots):
        if pivot in pivots[:i]:
            raise RefusalError(f"definitions make {pivot} the pivot of two hypotheses")
    return reduced, units, pivots, [*order, *regular]


def _without_units(condition: sp.Expr, declared: set[sp.Expr]) -> tuple[sp.Expr, sp.Expr]:
    constant, factors = sp.factor_list(condition)
    kept = [f**n for f, n in factors if sp.expand(f) not in declared]
    units = [f**n for f, n in factors if sp.expand(f) in declared]
    return sp.expand(constant * sp.Mul(*kept)), sp.Mul(*units)


def _linear_nodes(condition: sp.Expr, later: Sequence[sp.Expr]) -> list[Any]:
    """The moments, then the symbols, that occur linearly here and not in later conditions."""
    moments = sorted(condition.atoms(S), key=lambda m: (-len(sp.sstr(m)), sp.sstr(m)))
    outside = condition.xreplace({moment: sp.Integer(0) for moment in moments})
    symbols = sorted(outside.free_symbols, key=str)
    return [
        node
        for node in (*moments, *symbols)
        if _is_linear(condition, node) and not any(c.has(node) for c in later)
    ]


def _is_linear(expr: sp.Expr, node: Any) -> bool:
    """Whether a moment or a symbol occurs once, with a number before it."""
    coefficient: Any = expr.coeff(node, 1)
    return (
        bool(coefficient.is_number)
        and coefficient != 0
        and not (expr - coefficient * node).has(node)
    )


def _outermost(expr: sp.Basic) -> list[sp.Expr]:
    """The nodes that are not built from arithmetic: sums over an index, in practice."""
    if isinstance(expr, sp.Add | sp.Mul | sp.Pow):
        return [node for arg in expr.args for node in _outermost(arg)]
    return [] if isinstance(expr, sp.Symbol | sp.Number) else [cast("sp.Expr", expr)]
