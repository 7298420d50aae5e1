"""The exponential divided difference φ₁ of Appendix B, and the second one, φ₂."""

from __future__ import annotations

from typing import cast

import sympy as sp

from proofs.entry import Entry, Kind
from proofs.prover.statements import SCALAR, Antiderivative, Elementary, Series, Statement
from proofs.prover.vocabulary import HALF, ONE, ZERO, nilpotent

t, u = sp.symbols("t u", real=True)
n = sp.Symbol("n", integer=True, nonnegative=True)
B = sp.Symbol("B")


def series(term: sp.Expr, *, first: int = 0) -> sp.Expr:
    """Σ over n from `first` to infinity."""
    return cast("sp.Expr", sp.Sum(term, (n, first, sp.oo)))


# φ₁ and φ₂ from their definitions as integrals.
phi1 = sp.Integral(sp.exp(u * t), (u, 0, 1))
phi2 = sp.Integral((1 - u) * sp.exp(u * t), (u, 0, 1))
# The series of φ₁ and of the exponential, at any square matrix B.
phi1_series = series(B**n / sp.factorial(n + 1))
exp_series = series(B**n / sp.factorial(n))

SERIES = Statement(
    name="eq:rho series: B·φ₁(B) = e^B − I",
    lhs=B * phi1_series,
    rhs=exp_series - 1,
    method=Series(B),
    model=((B, nilpotent),),
    scope="every square matrix B, every order of the series",
)

ENTRIES = (
    Entry(
        label="eq:rho",
        title="the exponential divided difference",
        text="φ₁(s) = ∫₀¹ e^{us} du = Σ sⁿ/(n+1)!, with s·φ₁(s) = e^s − 1, φ₁(0) = 1, φ₁ > 0",
        kind=Kind.EQUALITY,
        scope="every real s, coincident arguments included; positivity from the positive integrand "
        "(the step from the integrand to the integral is Coq's)",
        functions=("phi.phi1", "phi.phi2"),
        statements=(
            Statement(
                name="eq:rho integral: t·φ₁(t) = e^t − 1",
                lhs=t * phi1,
                rhs=sp.exp(t) - 1,
                method=Antiderivative(sp.exp(u * t)),
                scope=SCALAR,
            ),
            Statement(
                name="eq:rho divided difference: φ₁(t) = (e^t − 1)/t",
                lhs=phi1,
                rhs=(sp.exp(t) - 1) / t,
                method=Antiderivative((sp.exp(u * t) - 1) / t),
                nonzero=(t,),
                scope="every real t ≠ 0",
            ),
            Statement(
                name="eq:rho coincident arguments: φ₁(0) = 1",
                lhs=sp.Integral(sp.exp(u * 0), (u, 0, 1)),
                rhs=ONE,
                method=Antiderivative(u),
                scope="the point t = 0",
            ),
            SERIES,
            Statement(
                name="eq:rho second difference: t²·φ₂(t) = e^t − 1 − t",
                lhs=t**2 * phi2,
                rhs=sp.exp(t) - 1 - t,
                method=Antiderivative((t * (1 - u) + 1) * sp.exp(u * t)),
                scope=SCALAR,
            ),
            Statement(
                name="eq:rho second difference: e^t − 1 − t = t²/2 + O(t³)",
                lhs=sp.Subs(sp.Derivative(sp.exp(t) - 1 - t, (t, 2)), t, 0),
                rhs=2 * HALF,
                method=Elementary(),
                scope="the second Taylor coefficient, times 2!",
            ),
            Statement(
                name="eq:rho second difference: the linear term vanishes",
                lhs=sp.Subs(sp.Derivative(sp.exp(t) - 1 - t, t), t, 0),
                rhs=ZERO,
                method=Elementary(),
                scope="the first Taylor coefficient",
            ),
        ),
    ),
)
