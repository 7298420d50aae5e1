"""The KL certificate of the local approximation, and the orderings it certifies (§3.2, App. D)."""

from __future__ import annotations

import sympy as sp

from proofs.entry import Entry, Kind
from proofs.prover.statements import EVERY_N, Nonnegative, Statement
from proofs.prover.syntax import Hypothesis, Index, S
from proofs.prover.vocabulary import (
    EXPONENTIAL,
    FINITE,
    MASS,
    MODEL,
    ONE,
    PARTITION,
    SHIFT,
    ZERO,
    D,
    E,
    change,
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

weight = p * (E / D - 1 - t)
divergence = -S(p * t)

# Contracted quantities: w the remainder weights, a = ⟨g,(v−y)W_o⟩, b = ⟨g,εW_o⟩, and the
# positive and negative parts of p' − p, each of mass TV.
w, up, down = (Index(name, nonnegative=True) for name in ("w", "u_plus", "u_minus"))
a, b, phi2 = Index("a"), Index("b"), Index("phi2", nonnegative=True)
KL, TV, top, high, low = sp.symbols("KL TV A M m", real=True)
TAYLOR: Hypothesis = (E, D * (1 + t + t**2 * phi2))
TAYLOR_MODEL = (
    (t, lambda env, _: [abs(q) for q in env[v]]),  # t > 0 keeps 1 + t + t²·φ₂ positive
    (E, D * (1 + t + t**2 * phi2)),
)
MASSES = ((S(w), KL), (S(up), TV), (S(down), TV))
PARTS_MODEL = (
    *MODEL,
    (KL, S(w)),
    (up, lambda env, _: [max(q, q * 0) for q in env.evaluate(change)]),
    (down, lambda env, _: [max(-q, q * 0) for q in env.evaluate(change)]),
    (TV, S(up) / 2 + S(down) / 2),
    (top, lambda env, _: max(abs(q) for q in env[a])),
    (high, lambda env, _: max(env[b])),
    (low, lambda env, _: min(env[b])),
)


def _bound(sign: int) -> Statement:
    over, under = (high - b, b - low) if sign > 0 else (b - low, high - b)
    return Statement(
        name=f"main:certificate: {'+-'[sign < 0]}(Σ w·a + Σ (p'−p)·b) ≤ KL·max|a| + TV·range(b)",
        lhs=sign * (S(w * a) + S((up - down) * b)),
        rhs=KL * top + TV * (high - low),
        relation="≤",
        method=Nonnegative(((ONE, (w, top - sign * a)), (ONE, (up, over)), (ONE, (down, under)))),
        hypotheses=MASSES,
        facts=(top - sign * a, high - b, b - low),
        model=PARTS_MODEL,
        scope="every N, every gradient and projection (a and b are contractions)",
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
            Statement(
                name="main:kl remainder: K_f − L_s = Σ w·(v − y)",
                lhs=key - linear,
                rhs=S(weight * (v - y)),
                hypotheses=FINITE,
                nonzero=(D,),
                model=MODEL,
                scope=EVERY_N,
            ),
            Statement(
                name="main:kl sign: 0 ≤ p·(e^t − 1 − t) for every key",
                lhs=ZERO,
                rhs=weight,
                relation="≤",
                method=Nonnegative(((ONE, (p, t**2, phi2)),), pointwise=True),
                hypotheses=(TAYLOR,),
                nonzero=(D,),
                facts=(phi2,),
                model=TAYLOR_MODEL,
                scope="every key; e^t = 1 + t + t²·φ₂(t) with φ₂ ≥ 0 (eq:rho)",
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
        statements=(
            Statement(
                name="eq:remainderweights: p·(e^t − 1 − t) = p·t·(φ₁(t) − 1) for every key",
                lhs=weight,
                rhs=p * t * (phi - 1),
                hypotheses=(EXPONENTIAL,),
                nonzero=(D,),
                model=MODEL,
                scope="every key",
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
        statements=(
            Statement(
                name="eq:klremainder: −Σ p·t = log D − Σ p·d",
                lhs=divergence,
                rhs=lam - S(p * d),
                hypotheses=(MASS, SHIFT),
                model=MODEL,
                scope=EVERY_N,
            ),
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
        statements=(
            Statement(
                name="main:certificate error: Δy − (L_s + V₀) = Σ w·(v−y) + Σ (p'−p)·ε",
                lhs=S(edited * (v + eps)) - y - (linear + value),
                rhs=S(weight * (v - y)) + interaction,
                hypotheses=FINITE,
                nonzero=(D,),
                model=MODEL,
                scope=EVERY_N,
            ),
            Statement(
                name="main:certificate parts: the positive part of p' − p has mass TV",
                lhs=S(up),
                rhs=(S(up) + S(down)) / 2,
                hypotheses=((S(up), S(down)),),
                model=PARTS_MODEL,
                scope="every N",
            ),
            _bound(1),
            _bound(-1),
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
    Entry(
        label="needed:kl-phi2",
        row="X6",
        title="the divergence without cancellation",
        text="KL = Σ p·t²·φ₂(t), φ₂(t) = (e^t − 1 − t)/t²",
        kind=Kind.EQUALITY,
        assumptions=("positive-weights",),
        scope=EVERY_N + "; with main:kl, which says Σ w = KL",
        functions=("certificate.divergence", "phi.phi2"),
        statements=(
            Statement(
                name="X6: Σ w = Σ p·t²·φ₂(t)",
                lhs=S(weight),
                rhs=S(p * t**2 * phi2),
                hypotheses=(TAYLOR,),
                nonzero=(D,),
                model=((p, weights), *TAYLOR_MODEL),
                scope=EVERY_N,
            ),
        ),
    ),
)
