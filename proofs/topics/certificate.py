"""The KL certificate of the local approximation, and the orderings it certifies (§3.2, App. D)."""

from __future__ import annotations

import random
from fractions import Fraction

import sympy as sp

from proofs.entry import Clause, Entry, Kind
from proofs.prover.rational import Environment
from proofs.prover.statements import EVERY_N, Elementary, Nonnegative, Statement
from proofs.prover.syntax import Hypothesis, Index, S
from proofs.prover.vocabulary import (
    BASELINE,
    EXPONENTIAL,
    HALF,
    MASS,
    MODEL,
    ONE,
    PARTITION,
    SHIFT,
    ZERO,
    D,
    E,
    d,
    edited,
    eps,
    lam,
    p,
    phi,
    t,
    v,
    weights,
    y,
)
from proofs.topics.joint import interaction, key, linear, value
from proofs.topics.phi import t as scalar, twice_divided
from proofs.topics.response import DIVIDED

weight = p * (E / D - 1 - t)
divergence = -S(p * t)

# In one generic coordinate, which may be the contraction ⟨g, · W_o⟩: top bounds |v − y|, and ε lies
# between low and high. e^t = 1 + t + t²·φ₂(t) makes the remainder weights p·t²·φ₂(t).
phi2 = Index("phi2")
top, high, low = sp.symbols("A M m", real=True)
TAYLOR: Hypothesis = (E, D * (1 + t + t**2 * phi2))
TAYLOR_LINKS = twice_divided(TAYLOR, t, phi2, {E: D * sp.exp(scalar)}, -D)
shift_of_weights = sp.Abs(E / D - 1)  # |p' − p| = p·|e^t − 1|
variation = S(p * shift_of_weights) / 2


def _second_difference(env: Environment, _: random.Random) -> list[Fraction]:
    # φ₂ = (e^t − 1 − t)/t², and φ₂(0) = ½.
    return [
        (e / env[D] - 1 - ratio) / ratio**2 if ratio else Fraction(1, 2)
        for e, ratio in zip(env[E], env[t], strict=True)
    ]


def _small_ratios(env: Environment, _: random.Random) -> list[Fraction]:
    # Rational stand-ins for log(e^d/D), chosen so that e^d/D − 1 − t ≥ 0 as for the logarithm.
    return [(e / env[D] - 1) / 2 if e >= env[D] else (e / env[D] - 1) * 2 for e in env[E]]


CERTIFICATE_MODEL = (
    (p, weights),
    (D, S(p * E)),
    (y, S(p * v)),
    (t, _small_ratios),
    (phi2, _second_difference),
    (d, t + lam),
    (top, lambda env, _: max(abs(q - env[y]) for q in env[v])),
    (high, lambda env, _: max(env[eps])),
    (low, lambda env, _: min(env[eps])),
)


# KL(p‖p') from its definition Σ p·log(p/p'), with p' = p·e^d/D.
new = p * sp.exp(d) / D
KL_DIVERGENCE = Statement(
    name="eq:klremainder: Σ p·log(p/p') = log D − Σ p·d with p' = p·e^d/D",
    lhs=S(p * sp.log(p / new)),
    rhs=sp.log(D) - S(p * d),
    method=Elementary(),
    hypotheses=(MASS,),
    model=((p, weights),),
    scope=EVERY_N,
)


TILT = Statement(
    name="eq:klremainder tilt: log D − Σ p·d = −Σ p·t",
    lhs=lam - S(p * d),
    rhs=divergence,
    hypotheses=(MASS, SHIFT),
    model=MODEL,
    scope=EVERY_N,
)


def _bound(sign: int) -> Statement:
    over, under = (high - eps, eps - low) if sign > 0 else (eps - low, high - eps)
    rise, fall = shift_of_weights + (E / D - 1), shift_of_weights - (E / D - 1)
    return Statement(
        name=f"main:certificate: {'+-'[sign < 0]}(Δy − (L_s + V₀)) ≤ KL·max|v − y| + TV·range(ε)",
        lhs=sign * (S(edited * (v + eps)) - y - (linear + value)),
        rhs=divergence * top + variation * (high - low),
        relation="≤",
        method=Nonnegative(
            (
                (ONE, (p, t**2, phi2, top - sign * (v - y))),
                (HALF, (p, rise, over)),
                (HALF, (p, fall, under)),
            )
        ),
        hypotheses=(*BASELINE, PARTITION, TAYLOR, SHIFT),
        nonzero=(D,),
        facts=(phi2, top - sign * (v - y), high - eps, eps - low),
        links=TAYLOR_LINKS,
        model=CERTIFICATE_MODEL,
        scope="every N, every gradient and projection: v and ε in the contracted coordinate",
    )


first, second, first_hat, second_hat, first_bound, second_bound = sp.symbols(
    "S_a S_b Shat_a Shat_b B_a B_b", real=True
)
_slack = sp.symbols("slack_1 slack_2 slack_3", positive=True)
RANKING_MODEL = (
    (first_hat, second_hat + first_bound + second_bound + _slack[0]),
    (first, first_hat - first_bound + _slack[1]),
    (second, second_hat + second_bound - _slack[2]),
)

ENTRIES = (
    Entry(
        label="main:kl",
        title="KL mass of the remainder",
        text="w = p·(e^t − 1 − t) ≥ 0, Σ w = −Σ p·t = KL(p‖p'), K_f − L_s = Σ w·(v − y)",
        kind=Kind.EQUALITY,
        assumptions=("attended", "fixed-query", "positive-weights"),
        scope=EVERY_N + "; w ≥ 0 from φ₂ ≥ 0, the integral of a non-negative function",
        functions=("certificate.divergence", "joint.softmax_remainder"),
        clauses=(
            Clause(
                "Σ w = −Σ p·t = Σ p·log(p/p') = KL(p‖p')",
                statements=(
                    Statement(
                        name="main:kl mass: Σ w = −Σ p·t",
                        lhs=S(weight),
                        rhs=divergence,
                        hypotheses=(MASS, PARTITION),
                        nonzero=(D,),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                    TILT,
                    KL_DIVERGENCE,
                ),
                coq=(
                    "Certificate.kl_tilt",
                    "Certificate.kl_mass",
                ),
            ),
            Clause(
                "K_f − L_s = Σ w·(v − y)",
                statements=(
                    Statement(
                        name="main:kl remainder: K_f − L_s = Σ w·(v − y)",
                        lhs=key - linear,
                        rhs=S(weight * (v - y)),
                        hypotheses=(*BASELINE, SHIFT),
                        nonzero=(D,),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                ),
                coq=("Joint.remainder",),
            ),
            Clause(
                "w = p·(e^t − 1 − t) ≥ 0",
                statements=(
                    Statement(
                        name="main:kl sign: 0 ≤ p·(e^t − 1 − t) for every key",
                        lhs=ZERO,
                        rhs=weight,
                        relation="≤",
                        method=Nonnegative(((ONE, (p, t**2, phi2)),), pointwise=True),
                        hypotheses=(TAYLOR,),
                        nonzero=(D,),
                        facts=(phi2,),
                        links=TAYLOR_LINKS,
                        model=CERTIFICATE_MODEL,
                        scope="every key; e^t = 1 + t + t²·φ₂(t) with φ₂ ≥ 0 (eq:rho)",
                    ),
                ),
                coq=(
                    "Certificate.weight_ge0",
                    "Phi.convex_gap",
                    "Prelude.exp_ge1D",
                ),
            ),
        ),
    ),
    Entry(
        label="eq:remainderweights",
        title="the weights of the remainder",
        text="w = p·(e^t − 1 − t) = p·t·(φ₁(t) − 1)",
        kind=Kind.EQUALITY,
        assumptions=("positive-weights",),
        scope="every key",
        functions=("joint.softmax_remainder", "certificate.divergence"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:remainderweights: p·(e^t − 1 − t) = p·t·(φ₁(t) − 1) for every key",
                        lhs=weight,
                        rhs=p * t * (phi - 1),
                        hypotheses=(EXPONENTIAL,),
                        links=(DIVIDED,),
                        nonzero=(D,),
                        model=MODEL,
                        scope="every key",
                    ),
                ),
                coq=(
                    "Joint.weightE",
                    "Phi.phi1_remainder",
                ),
            ),
        ),
    ),
    Entry(
        label="eq:klremainder",
        title="the divergence from the normaliser",
        text="Σ w = KL(p‖p') = log D − Σ p·d",
        kind=Kind.EQUALITY,
        assumptions=("positive-weights", "fixed-query"),
        scope=EVERY_N,
        functions=("certificate.divergence",),
        clauses=(
            Clause(
                "",
                statements=(
                    KL_DIVERGENCE,
                    TILT,
                    Statement(
                        name="eq:klremainder mass: Σ w = log D − Σ p·d",
                        lhs=S(weight),
                        rhs=lam - S(p * d),
                        hypotheses=(MASS, PARTITION, SHIFT),
                        nonzero=(D,),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                ),
                coq=(
                    "Certificate.kl_mass",
                    "Certificate.kl_logD",
                    "Certificate.kl_ge0",
                    "Joint.remainder",
                ),
            ),
        ),
    ),
    Entry(
        label="main:certificate",
        aliases=("eq:localcertificate",),
        title="certificate of the local error",
        text="|⟨g, [Δy − (L_s + V₀)]·W_o⟩| ≤ KL(p‖p')·max|a| + TV(p,p')·(max b − min b)",
        kind=Kind.BOUND,
        assumptions=("attended", "fixed-query", "positive-weights"),
        scope="every N, every gradient and output projection; both signs",
        functions=("certificate.certify", "certificate.divergence", "certificate.total_variation"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="main:certificate error: Δy − (L_s + V₀) = Σ w·(v−y) + Σ (p'−p)·ε",
                        lhs=S(edited * (v + eps)) - y - (linear + value),
                        rhs=S(weight * (v - y)) + interaction,
                        hypotheses=(*BASELINE, PARTITION, SHIFT),
                        nonzero=(D,),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                    _bound(1),
                    _bound(-1),
                ),
                coq=(
                    "Certificate.certificate",
                    "Certificate.certificate_rotary",
                    "Certificate.certificate_matrix",
                    "Certificate.certificate_heads",
                    "Certificate.certificate_bound",
                    "Joint.linear_error",
                ),
            ),
        ),
    ),
    Entry(
        label="eq:certifiedlocalranking",
        title="certified order and sign",
        text="Ŝ_a − Ŝ_b > B_a + B_b ⇒ S_a > S_b; |Ŝ| > B fixes the sign of S",
        kind=Kind.BOUND,
        assumptions=("bound-holds",),
        scope="all real scores and bounds; the slack of the premise makes it strict",
        functions=("certificate.certified_order", "certificate.certified_signs"),
        clauses=(
            Clause(
                "Ŝ_a − Ŝ_b ≥ B_a + B_b ⇒ S_a ≥ S_b; Ŝ ≥ B ⇒ S ≥ 0",
                statements=(
                    Statement(
                        name="eq:certifiedlocalranking order: S_b ≤ S_a",
                        lhs=second,
                        rhs=first,
                        relation="≤",
                        method=Nonnegative(
                            (
                                (ONE, (first - first_hat + first_bound,)),
                                (ONE, (second_hat + second_bound - second,)),
                                (ONE, (first_hat - second_hat - first_bound - second_bound,)),
                            )
                        ),
                        facts=(
                            first - first_hat + first_bound,
                            second_hat + second_bound - second,
                            first_hat - second_hat - first_bound - second_bound,
                        ),
                        model=RANKING_MODEL,
                        scope="all real scores and bounds",
                    ),
                    Statement(
                        name="eq:certifiedlocalranking sign: Ŝ ≥ B ⇒ S ≥ 0",
                        lhs=ZERO,
                        rhs=first,
                        relation="≤",
                        method=Nonnegative(
                            (
                                (ONE, (first - first_hat + first_bound,)),
                                (ONE, (first_hat - first_bound,)),
                            )
                        ),
                        facts=(first - first_hat + first_bound, first_hat - first_bound),
                        model=(
                            (first, first_hat - first_bound + _slack[1]),
                            (first_hat, first_bound + _slack[0]),
                        ),
                        scope="all real scores and bounds; the negative sign by symmetry",
                    ),
                ),
            ),
            Clause("Ŝ_a − Ŝ_b > B_a + B_b ⇒ S_a > S_b", coq=("Certificate.certified_ranking",)),
            Clause("|Ŝ| > B fixes the sign of S", coq=("Certificate.certified_sign",)),
        ),
    ),
    Entry(
        label="needed:kl-phi2",
        row="X6",
        title="the divergence without cancellation",
        text="KL = Σ p·t²·φ₂(t), φ₂(t) = (e^t − 1 − t)/t²",
        kind=Kind.EQUALITY,
        assumptions=("positive-weights",),
        scope=EVERY_N + "; with main:kl, which says Σ w = KL",
        functions=("certificate.divergence", "phi.phi2"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="X6: Σ w = Σ p·t²·φ₂(t)",
                        lhs=S(weight),
                        rhs=S(p * t**2 * phi2),
                        hypotheses=(TAYLOR,),
                        links=TAYLOR_LINKS[:1],
                        nonzero=(D,),
                        model=CERTIFICATE_MODEL,
                        scope=EVERY_N,
                    ),
                ),
                coq=(
                    "Certificate.kl_phi2",
                    "Phi.phi2E",
                    "Phi.phi2_ge0",
                ),
            ),
        ),
    ),
)
