"""Proofs about power series in one square matrix B, for every order n at once.

All powers of one matrix commute, so a series is its sequence of coefficients. An expression built
from Σ_n f(n)·B^{n+a} has finitely many exceptional coefficients and one general coefficient,
an expression in a symbolic order k. Two series are equal when all of these agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import sympy as sp

from proofs.prover.sums import ProofCertificate

ORDER = sp.Symbol("k", integer=True, nonnegative=True)


@dataclass(frozen=True)
class _Coefficients:
    """`low` below the order `start`, then `general` as a function of ORDER."""

    low: tuple[sp.Expr, ...]
    general: sp.Expr

    def at(self, order: int) -> sp.Expr:
        return self.low[order] if order < len(self.low) else self.general.subs(ORDER, order)


def prove_series(name: str, lhs: sp.Expr, rhs: sp.Expr, variable: sp.Symbol) -> ProofCertificate:
    """A certificate of lhs = rhs coefficient by coefficient; the residual is the first non-zero."""
    left, right = _read(sp.expand(lhs), variable), _read(sp.expand(rhs), variable)
    exceptional = max(len(left.low), len(right.low))
    differences = [sp.expand(left.at(n) - right.at(n)) for n in range(exceptional)]
    differences.append(sp.combsimp(left.general - right.general))
    note = f"coefficients of {variable}^k for every k ≥ {exceptional}, and each one below"
    wrong = [difference for difference in differences if difference != 0]
    return ProofCertificate(
        name,
        wrong[0] if wrong else sp.Integer(0),
        notes=(note,),
        refusal=f"coefficients differ by {wrong[0]}" if wrong else "",
    )


def _read(expr: sp.Expr, variable: sp.Symbol) -> _Coefficients:
    total = _Coefficients((), sp.Integer(0))
    for term in sp.Add.make_args(expr):
        total = _plus(total, _term(term, variable))
    return total


def _plus(a: _Coefficients, b: _Coefficients) -> _Coefficients:
    size = max(len(a.low), len(b.low))
    return _Coefficients(tuple(a.at(n) + b.at(n) for n in range(size)), a.general + b.general)


def _term(term: sp.Expr, variable: sp.Symbol) -> _Coefficients:
    scale, shift, series = sp.Integer(1), 0, None
    for factor in sp.Mul.make_args(term):
        base, exponent = factor.as_base_exp()
        if isinstance(factor, sp.Sum) and series is None:
            series = factor
        elif base == variable and exponent.is_Integer and exponent.is_positive:
            shift += int(exponent)
        elif not factor.has(variable) and not isinstance(factor, sp.Sum):
            scale *= factor
        else:
            raise ValueError(f"not a power series in {variable}: {term}")
    if series is None:
        return _Coefficients((*[sp.Integer(0)] * shift, scale), sp.Integer(0))
    return _shifted(series, scale, shift, variable)


def _shifted(series: sp.Sum, scale: sp.Expr, shift: int, variable: sp.Symbol) -> _Coefficients:
    ((n, first, last),) = series.limits
    coefficient, power = sp.Integer(1), sp.Integer(0)
    for factor in sp.Mul.make_args(cast("sp.Expr", series.function)):
        base, exponent = factor.as_base_exp()
        if base == variable:
            power += exponent
        else:
            coefficient *= factor
    offset = sp.expand(power - n)
    if last != sp.oo or not offset.is_Integer or coefficient.has(variable):
        raise ValueError(f"a series must run over {variable}^(n+a) to infinity; got {series}")
    start = int(first + offset) + shift
    if start < 0:
        raise ValueError(f"{series} starts at a negative power")
    general = scale * coefficient.subs(n, ORDER - offset - shift)
    return _Coefficients((sp.Integer(0),) * start, general)
