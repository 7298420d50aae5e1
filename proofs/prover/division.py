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
) -> tuple[list[sp.Expr], list[sp.Expr], list[sp.Expr]]:
    """Conditions without their non-zero factors, these factors, and a pivot for each.

    A definition may have turned the pivot of a hypothesis into several moments. Its condition is then
    freed of factors that are declared non-zero, and a moment that no other condition holds is its pivot.
    """
    reduced, pivots = list(conditions), list(bases)
    units: list[sp.Expr] = [sp.Integer(1)] * len(conditions)
    for i, base in enumerate(bases):
        if isinstance(base, sp.Symbol | S):
            continue
        constant, factors = sp.factor_list(conditions[i])
        kept = [f**n for f, n in factors if sp.expand(f) not in declared]
        reduced[i] = sp.expand(constant * sp.Mul(*kept))
        units[i] = sp.Mul(*(f**n for f, n in factors if sp.expand(f) in declared))
        others = [c for k, c in enumerate(conditions) if k != i]
        moments = sorted(reduced[i].atoms(S), key=lambda m: (-len(sp.sstr(m)), sp.sstr(m)))
        free = [m for m in moments if not any(c.has(m) for c in others)]
        linear = [m for m in free if sp.expand(reduced[i]).coeff(m, 1).is_number]
        if not linear:
            raise RefusalError(f"a definition turns a pivot into {base}, which is not one moment")
        scale = reduced[i].coeff(linear[0], 1)
        reduced[i], units[i] = sp.expand(reduced[i] / scale), units[i] * scale
        pivots[i] = linear[0]
    for i, pivot in enumerate(pivots):
        if pivot in pivots[:i]:
            raise RefusalError(f"definitions make {pivot} the pivot of two hypotheses")
    return reduced, units, pivots


def _outermost(expr: sp.Basic) -> list[sp.Expr]:
    """The nodes that are not built from arithmetic: sums over an index, in practice."""
    if isinstance(expr, sp.Add | sp.Mul | sp.Pow):
        return [node for arg in expr.args for node in _outermost(arg)]
    return [] if isinstance(expr, sp.Symbol | sp.Number) else [cast("sp.Expr", expr)]
