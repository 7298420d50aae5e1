"""Proofs about power series in one square matrix B, for every order n at once.

All powers of one matrix commute, so a series is its sequence of coefficients. An expression built
from Σ_n f(n)·B^{n+a} has finitely many exceptional coefficients and one general coefficient,
an expression in a symbolic order k. Two series are equal when all of these agree.
"""

from __future__ import annotations

from typing import cast

import sympy as sp

from proofs.prover.certificates import Coefficients, ProofCertificate
from proofs.prover.grammar import bound, refuse_shared_names
from proofs.prover.syntax import RefusalError

# Not a symbol that a statement could use, so that no scale can be taken for the order.
ORDER = sp.Dummy("k", integer=True, nonnegative=True)


def prove_series(name: str, lhs: sp.Expr, rhs: sp.Expr, variable: sp.Symbol) -> ProofCertificate:
    """A certificate of lhs = rhs coefficient by coefficient; the residual is the first non-zero."""
    refuse_shared_names((lhs, rhs))
    running = bound(lhs) | bound(rhs)
    outside = (lhs.free_symbols | rhs.free_symbols) & running
    if outside:
        raise RefusalError(f"{outside.pop()} runs through a series and may not occur outside it")
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
        series=Coefficients(ORDER, tuple(left.at(n) for n in range(exceptional)), left.general),
    )


def _read(expr: sp.Expr, variable: sp.Symbol) -> Coefficients:
    total = Coefficients(ORDER, (), sp.Integer(0))
    for term in sp.Add.make_args(expr):
        total = _plus(total, _term(term, variable))
    return total


def _plus(a: Coefficients, b: Coefficients) -> Coefficients:
    size = max(len(a.low), len(b.low))
    return Coefficients(ORDER, tuple(a.at(n) + b.at(n) for n in range(size)), a.general + b.general)


def _term(term: sp.Expr, variable: sp.Symbol) -> Coefficients:
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
            raise RefusalError(f"not a power series in {variable}: {term}")
    if series is None:
        return Coefficients(ORDER, (*[sp.Integer(0)] * shift, scale), sp.Integer(0))
    return _shifted(series, scale, shift, variable)


def _shifted(series: sp.Sum, scale: sp.Expr, shift: int, variable: sp.Symbol) -> Coefficients:
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
        raise RefusalError(f"a series must run over {variable}^(n+a) to infinity; got {series}")
    start = int(first + offset) + shift
    if start < 0:
        raise RefusalError(f"{series} starts at a negative power")
    general = scale * coefficient.subs(n, ORDER - offset - shift)
    return Coefficients(ORDER, (sp.Integer(0),) * start, general)
