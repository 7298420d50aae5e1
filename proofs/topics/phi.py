"""The exponential divided difference φ₁ of Appendix B, and the second one, φ₂."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import sympy as sp

from proofs.entry import Clause, Entry, Kind
from proofs.prover.links import Link
from proofs.prover.statements import (
    SCALAR,
    Antiderivative,
    Elementary,
    PositiveIntegrand,
    Series,
    Statement,
)
from proofs.prover.syntax import Hypothesis
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
INTEGRAL = Statement(
    name="eq:rho integral: t·φ₁(t) = e^t − 1",
    lhs=t * phi1,
    rhs=sp.exp(t) - 1,
    method=Antiderivative(sp.exp(u * t)),
    scope=SCALAR,
)
SECOND = Statement(
    name="eq:rho second difference: t²·φ₂(t) = e^t − 1 − t",
    lhs=t**2 * phi2,
    rhs=sp.exp(t) - 1 - t,
    method=Antiderivative((t * (1 - u) + 1) * sp.exp(u * t)),
    scope=SCALAR,
)
SECOND_SIGN = Statement(
    name="eq:rho second sign: 0 ≤ φ₂(t)",
    lhs=ZERO,
    rhs=phi2,
    relation="≤",
    method=PositiveIntegrand(),
    scope=SCALAR,
)


def divided(
    hypothesis: Hypothesis,
    argument: sp.Expr,
    difference: sp.Expr,
    exponential: Mapping[sp.Expr, sp.Expr],
    factor: sp.Expr,
) -> Link:
    """The link of a hypothesis about φ₁ of an argument to t·φ₁(t) = e^t − 1.

    `exponential` says what the symbol of the exponential means in terms of e^t.
    """
    meaning = {argument: t, difference: phi1, **exponential}
    return Link(INTEGRAL, hypothesis=hypothesis, meaning=meaning, factor=factor)


def twice_divided(
    hypothesis: Hypothesis,
    argument: sp.Expr,
    difference: sp.Expr,
    exponential: Mapping[sp.Expr, sp.Expr],
    factor: sp.Expr,
) -> tuple[Link, Link]:
    """The links of a hypothesis about φ₂ to t²·φ₂(t) = e^t − 1 − t, and of its sign."""
    meaning = {argument: t, difference: phi2, **exponential}
    return (
        Link(SECOND, hypothesis=hypothesis, meaning=meaning, factor=factor),
        Link(SECOND_SIGN, fact=difference, meaning=meaning),
    )


ENTRIES = (
    Entry(
        label="eq:rho",
        title="the exponential divided difference",
        text="φ₁(s) = ∫₀¹ e^{us} du = Σ sⁿ/(n+1)!, with s·φ₁(s) = e^s − 1, φ₁(0) = 1, φ₁ > 0",
        kind=Kind.EQUALITY,
        scope="every real s, coincident arguments included",
        functions=("phi.phi1", "phi.phi2"),
        clauses=(
            Clause(
                "s·∫₀¹ e^{us} du = e^s − 1, and the integral is (e^s − 1)/s for s ≠ 0",
                statements=(
                    INTEGRAL,
                    Statement(
                        name="eq:rho divided difference: φ₁(t) = (e^t − 1)/t",
                        lhs=phi1,
                        rhs=(sp.exp(t) - 1) / t,
                        method=Antiderivative((sp.exp(u * t) - 1) / t),
                        nonzero=(t,),
                        scope="every real t ≠ 0",
                    ),
                ),
                coq=("Phi.phi1E", "Phi.phi1_divided", "Phi.phi1_integral", "Analysis.rho_integral"),
            ),
            Clause(
                "φ₁(0) = 1",
                statements=(
                    Statement(
                        name="eq:rho coincident arguments: φ₁(0) = 1",
                        lhs=sp.Integral(sp.exp(u * 0), (u, 0, 1)),
                        rhs=ONE,
                        method=Antiderivative(u),
                        scope="the point t = 0",
                    ),
                ),
                coq=("Phi.phi1_0",),
            ),
            Clause(
                "φ₁ is continuous at 0",
                coq=("Phi.phi1_limit", "Analysis.rho_limit"),
            ),
            Clause(
                "the series Σ Bⁿ/(n+1)! satisfies B·φ₁(B) = e^B − I for every square matrix",
                statements=(SERIES,),
            ),
            Clause("φ₁(s) = Σ sⁿ/(n+1)!", coq=("Phi.phi1_series", "Analysis.rho_series")),
            Clause(
                "φ₁ ≥ 0",
                statements=(
                    Statement(
                        name="eq:rho sign: 0 ≤ φ₁(t)",
                        lhs=ZERO,
                        rhs=phi1,
                        relation="≤",
                        method=PositiveIntegrand(),
                        scope=SCALAR,
                    ),
                ),
            ),
            Clause("φ₁ > 0", coq=("Phi.phi1_gt0",)),
            Clause(
                "t²·φ₂(t) = e^t − 1 − t with φ₂(t) = ∫₀¹ (1 − u)·e^{ut} du ≥ 0",
                statements=(SECOND, SECOND_SIGN),
                coq=("Phi.phi2E", "Phi.phi2_ge0"),
            ),
            Clause(
                "e^t − 1 − t has the Taylor coefficients 0 and ½ at the orders 1 and 2",
                statements=(
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
        ),
    ),
)
