"""Power series in one square matrix for the checker.

A term Σ c(n)·B^{n+a} has the coefficient c(k − a) at the order k, a polynomial in k over products of k + i
and powers of k!. Below the first common order each coefficient is summed as a number, above it the difference
of the two sides is one such expression and has to be zero. A factorial below makes it converge everywhere.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, cast

import sympy as sp

from proofs.checker.trees import Reader


def check_series(lhs: sp.Expr, rhs: sp.Expr, variable: sp.Symbol, series: Any) -> str:
    """Why two series and the coefficients of their certificate differ, empty if they agree."""
    for side in (lhs, rhs):
        terms = [_term(term, variable) for term in sp.Add.make_args(_distribute(side))]
        for order, coefficient in enumerate(series.low):
            if sum((_at(term, order) for term in terms), Fraction(0)) != _number(coefficient):
                return f"the coefficient of order {order} is not {coefficient}"
        infinite = [term for term in terms if term[2] is not None]
        if any(first + shift > len(series.low) for _, shift, _, first in infinite) or any(
            shift >= len(series.low) for _, shift, c, _ in terms if c is None
        ):
            return "a term begins after the order from which the coefficients are general"
        general = sp.Add(*(scale * body(series.order) for scale, _, body, _ in infinite))
        difference = _without_factorials(general - series.general, series.order)
        if Reader().read(difference).top:
            return "the general coefficients differ"
    return ""


def _distribute(expr: Any) -> Any:
    """Products over sums of finitely many terms, so that each term is one series or one power."""
    if isinstance(expr, sp.Add):
        return sp.Add(*map(_distribute, expr.args))
    if isinstance(expr, sp.Mul):
        for i, factor in enumerate(expr.args):
            if isinstance(factor, sp.Add):
                rest = [*expr.args[:i], *expr.args[i + 1 :]]
                return sp.Add(*(_distribute(sp.Mul(part, *rest)) for part in factor.args))
    return expr


def _term(term: Any, variable: sp.Symbol) -> tuple[Any, int, Any, int]:
    """(scale, shift, coefficient as a function of the order, first order before the shift)."""
    scale, shift, body, first = sp.Integer(1), 0, None, 0
    for factor in sp.Mul.make_args(term):
        if isinstance(factor, sp.Sum):
            ((n, start, end),) = factor.limits
            parts = sp.Mul.make_args(cast("sp.Expr", factor.function))
            if body is not None or end != sp.oo or not start.is_Integer:
                raise ValueError(f"not one series to infinity: {term}")
            powers = [f for f in parts if f.as_base_exp()[0] == variable]
            offset = sp.Add(*(f.as_base_exp()[1] for f in powers)) - n
            rest = sp.Mul(*(f for f in parts if f not in powers))
            if not offset.is_Integer or rest.has(variable) or not _converges(rest, n, start):
                raise ValueError(f"not a series that converges for every matrix: {factor}")
            body, first = (rest, n, int(offset)), int(start + offset)
        elif factor.as_base_exp()[0] == variable:
            shift += int(factor.as_base_exp()[1])
        else:
            scale *= factor
    if scale.has(variable) or not isinstance(scale, sp.Rational):
        raise ValueError(f"not a rational multiple of a series: {term}")
    if body is None:
        return scale, shift, None, 0
    coefficient, n, offset = body
    return scale, shift, lambda k: coefficient.xreplace({n: k - offset - shift}), first


def _converges(coefficient: Any, n: sp.Symbol, start: Any) -> bool:
    """Whether a coefficient is a polynomial in n over more factorials than it is multiplied by."""
    factorials = 0
    for factor in sp.Mul.make_args(coefficient):
        base, exponent = factor.as_base_exp()
        if isinstance(base, sp.factorial) and exponent.is_Integer:
            least = sp.expand(base.args[0] - n) + start
            if not (least.is_Integer and least >= 0):
                return False
            factorials += int(exponent)
        elif not factor.is_polynomial(n) or factor.free_symbols - {n}:
            return False
    return factorials < 0


def _at(term: tuple[Any, int, Any, int], order: int) -> Fraction:
    scale, shift, body, first = term
    if body is None:
        return _number(scale) if order == shift else Fraction(0)
    return _number(scale * body(sp.Integer(order))) if order >= first + shift else Fraction(0)


def _number(value: Any) -> Fraction:
    value = sp.sympify(value)
    if not isinstance(value, sp.Rational):
        raise ValueError(f"{value} is not rational")
    return Fraction(int(value.p), int(value.q))


def _without_factorials(tree: Any, order: sp.Symbol) -> Any:
    """(k + i)! as k!·(k + 1)…(k + i), and k! as a symbol of its own."""
    symbol = sp.Symbol("k!", positive=True)
    values: dict[Any, Any] = {}
    for node in tree.atoms(sp.factorial):
        step = sp.expand(node.args[0] - order)
        if not step.is_Integer or abs(int(step)) > 100:
            raise ValueError(f"not a factorial of the order: {node}")
        i = int(step)
        up = math.prod((order + a for a in range(1, i + 1)), start=sp.Integer(1))
        down = math.prod((order - a for a in range(-i)), start=sp.Integer(1))
        values[node] = symbol * up / down
    return tree.xreplace(values)
