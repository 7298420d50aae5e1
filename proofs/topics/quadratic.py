"""The interaction at small strength: its leading term, and a bound on the rest (§3.1, App. F)."""

from __future__ import annotations

import sympy as sp

from proofs.entry import Clause, Entry, Kind
from proofs.prover.statements import EVERY_N, Elementary, Nonnegative, Statement
from proofs.prover.syntax import Index, S
from proofs.prover.vocabulary import MASS, MODEL, ONE, ZERO, d, eps, p, weights

# The joint path of strength α: scores α·d, values α·ε.
alpha = sp.Symbol("alpha", real=True)
tilted = S(p * sp.exp(alpha * d) * eps) / S(p * sp.exp(alpha * d))
path = alpha * (tilted - S(p * eps))
mean, spread = S(p * d), S(p * eps)
# Covariance of X in [0, A] with Y in [m, M], the bound behind the cubic remainder.
X, Y = Index("X", nonnegative=True), Index("Y")
A, low, high, x = sp.symbols("A m M x", real=True)
GRUSS = (MASS, (S(p * X), x))
RANGE = (A - X, Y - low, high - Y, x, A - x, high - low)


GRUSS_MODEL = (
    (p, weights),
    (A, lambda env, _: max(env[X])),
    (x, S(p * X)),
    (high, lambda env, _: max(env[Y])),
    (low, lambda env, _: min(env[Y])),
)


def _gruss(sign: int) -> Statement:
    above = (A - X, Y - low) if sign > 0 else (A - X, high - Y)
    below = (X, high - Y) if sign > 0 else (X, Y - low)
    return Statement(
        name=f"eq:quadraticinteraction bound: {'+-'[sign < 0]}A·Cov(X, Y) ≤ A²·(M − m)/4",
        lhs=sign * A * (S(p * X * Y) - x * S(p * Y)),
        rhs=A**2 * (high - low) / 4,
        relation="≤",
        method=Nonnegative(
            (
                (A - x, (p, *below)),
                (x, (p, *above)),
                (high - low, ((A / 2 - x) ** 2,)),
            )
        ),
        hypotheses=GRUSS,
        facts=RANGE,
        model=GRUSS_MODEL,
        scope=EVERY_N + "; with X = (d − E d)² ≤ A = range(d)²",
    )


ENTRIES = (
    Entry(
        label="eq:quadraticinteraction",
        aliases=("unlabelled:interaction-leading-term",),
        row="U4",
        title="the leading term of the interaction",
        text="C_KV(α) = α²·C₂ + O(α³), C₂ = Σ p·(d − E d)·ε; "
        "|C_KV(α) − α²·C₂| ≤ |α|³·range(d)²·range(ε)",
        kind=Kind.EXPANSION,
        assumptions=("attended", "fixed-query"),
        scope=EVERY_N + "; the Taylor coefficients, and the covariance bound on the second "
        "derivative at any point of the path (p there is again a distribution). Taylor's theorem "
        "would turn that into the constant 1/8; Coq proves 1, and 1 is what is claimed.",
        functions=("joint.quadratic_interaction", "joint.interaction"),
        clauses=(
            Clause(
                "C_KV(α) has the Taylor coefficients 0 and C₂ at the orders 1 and 2",
                statements=(
                    Statement(
                        name="eq:quadraticinteraction second order: C''(0) = 2·C₂",
                        lhs=sp.Subs(sp.Derivative(path, (alpha, 2)), alpha, 0),
                        rhs=2 * S(p * (d - mean) * eps),
                        method=Elementary(),
                        hypotheses=(MASS,),
                        nonzero=(S(p),),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                    Statement(
                        name="eq:quadraticinteraction first order: C'(0) = 0",
                        lhs=sp.Subs(sp.Derivative(path, alpha), alpha, 0),
                        rhs=ZERO,
                        method=Elementary(),
                        hypotheses=(MASS,),
                        nonzero=(S(p),),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                ),
                coq=("Expansions.interaction_derivative",),
            ),
            Clause(
                "d²/dα² E_α ε = E (d − E d)²(ε − E ε) at any point of the path",
                statements=(
                    Statement(
                        name="eq:quadraticinteraction curvature: d²/dα² E_α ε = E (d − E d)²(ε − E ε)",
                        lhs=sp.Subs(sp.Derivative(tilted, (alpha, 2)), alpha, 0),
                        rhs=S(p * (d - mean) ** 2 * (eps - spread)),
                        method=Elementary(),
                        hypotheses=(MASS,),
                        nonzero=(S(p),),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                ),
            ),
            Clause(
                "|E (d − E d)²(ε − E ε)| ≤ range(d)²·range(ε)/4: covariance of (d − E d)² ≤ range(d)² with ε",
                statements=(
                    _gruss(1),
                    _gruss(-1),
                    Statement(
                        name="eq:quadraticinteraction range: (d − E d)² ≤ (max d − min d)² for every key",
                        lhs=(d - x) ** 2,
                        rhs=(high - low) ** 2,
                        relation="≤",
                        method=Nonnegative(
                            (
                                (ONE, (high - d, d - low)),
                                (ONE, (high - d, high - x)),
                                (ONE, (x - low, d - low)),
                                (ONE, (x - low, high - x)),
                            ),
                            pointwise=True,
                        ),
                        facts=(high - d, d - low, high - x, x - low),
                        model=(
                            (p, weights),
                            (x, mean),
                            (high, lambda env, _: max(env[d])),
                            (low, lambda env, _: min(env[d])),
                        ),
                        scope="every key; x = E d lies in the range of d",
                    ),
                ),
            ),
            Clause(
                "|C_KV(α) − α²·C₂| ≤ |α|³·range(d)²·range(ε)",
                coq=("Expansions.quadratic_interaction",),
            ),
        ),
    ),
)
