"""Edits of a few keys: response, divergence and total variation from the edited entries (App. D).

Support is a definition for every key: e^d = 1 + 1_S·d·φ₁(d) and ε = 1_T·z.
"""

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
    MASS,
    ONE,
    PARTITION,
    ZERO,
    D,
    E,
    d,
    edited,
    eps,
    p,
    v,
    weights,
    y,
)
from proofs.topics.phi import divided, t as scalar

on_s, on_t = Index("1_S", idempotent=True), Index("1_T", idempotent=True)
f, z = Index("f"), Index("z")  # φ₁(d), and the value edit on T
r = p * d * f
ON_S: Hypothesis = (E, 1 + on_s * d * f)
ON_T: Hypothesis = (eps, on_t * z)
DIVIDED_ON_S = divided(ON_S, d, f, {E: 1 + on_s * (sp.exp(scalar) - 1)}, -on_s)


def positive_exponential(env: Environment, generator: random.Random) -> list[Fraction]:
    """φ₁(d) such that 1 + d·φ₁(d), which stands for e^d, is positive."""
    return [Fraction(generator.randint(1, 9), 10) / abs(increment) for increment in env[d]]


SPARSE_MODEL = (
    (p, weights),
    (y, S(p * v)),
    (f, positive_exponential),
    (E, 1 + on_s * d * f),
    (eps, on_t * z),
    (D, 1 + S(on_s * p * d * f)),
)


# Off S the increment is 0.
sparse_weights = p * sp.exp(on_s * d) / D

ENTRIES = (
    Entry(
        label="main:sparse",
        aliases=("eq:sparsejoint",),
        title="sparse joint response",
        text="Δy = [Σ_S r·(v−y) + Σ_T p·ε + Σ_{S∩T} r·ε] / (1 + Σ_S r), r = p·d·φ₁(d)",
        kind=Kind.EQUALITY,
        assumptions=("attended", "fixed-query", "support"),
        scope=EVERY_N + "; every S and T",
        functions=("sparse.prepare", "spans.prepare_spans", "response.finite_response"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="main:sparse normaliser: Σ p·e^d = 1 + Σ_S r",
                        lhs=S(p * E),
                        rhs=1 + S(on_s * r),
                        hypotheses=(MASS, ON_S),
                        links=(DIVIDED_ON_S,),
                        model=SPARSE_MODEL,
                        scope=EVERY_N,
                    ),
                    Statement(
                        name="main:sparse: the joint response from the edited entries",
                        lhs=S(edited * (v + eps)) - y,
                        rhs=(S(on_s * r * (v - y)) + S(on_t * p * eps) + S(on_s * on_t * r * eps))
                        / (1 + S(on_s * r)),
                        hypotheses=(*BASELINE, PARTITION, ON_S, ON_T),
                        links=(DIVIDED_ON_S,),
                        nonzero=(D, 1 + S(on_s * r)),
                        model=SPARSE_MODEL,
                        scope=EVERY_N + "; every S and T",
                    ),
                ),
                coq=(
                    "Sparse.D_sparse",
                    "Sparse.sparse",
                ),
            ),
        ),
    ),
    Entry(
        label="eq:sparsetv",
        title="sparse total variation",
        text="2·TV = Σ_S p·|e^d/D − 1| + (1 − Σ_S p)·|1/D − 1|",
        kind=Kind.EQUALITY,
        assumptions=("attended", "support"),
        scope="every N, every S; off S the factor |e^d/D − 1| is |1/D − 1|",
        functions=("certificate.total_variation", "sparse.prepare"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:sparsetv: Σ p·|p'/p − 1| split over S and its complement",
                        lhs=S(p * sp.Abs(E / D - 1)),
                        rhs=S(on_s * p * sp.Abs(E / D - 1)) + (1 - S(on_s * p)) * sp.Abs(1 / D - 1),
                        hypotheses=(MASS, ON_S),
                        links=(DIVIDED_ON_S,),
                        nonzero=(D,),
                        model=SPARSE_MODEL,
                        scope="every N, every S",
                    ),
                ),
                coq=("Sparse.sparse_tv",),
            ),
        ),
    ),
    Entry(
        label="unlabelled:sparse-kl",
        row="U14",
        title="sparse divergence",
        text="KL(p‖p') = log D − Σ_S p·d",
        kind=Kind.EQUALITY,
        assumptions=("attended", "support"),
        scope=EVERY_N + "; every S",
        functions=("certificate.divergence", "sparse.prepare"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="U14: Σ p·log(p/p') = log D − Σ_S p·d with p' = p·e^{1_S·d}/D",
                        lhs=S(p * sp.log(p / sparse_weights)),
                        rhs=sp.log(D) - S(on_s * p * d),
                        method=Elementary(),
                        hypotheses=(MASS,),
                        model=((p, weights),),
                        scope=EVERY_N,
                    ),
                ),
                coq=("Sparse.sparse_kl",),
            ),
        ),
    ),
    Entry(
        label="unlabelled:positive-normaliser",
        row="U15",
        title="the normaliser as a positive sum",
        text="D = Σ_{∉S} p + Σ_S p·e^d > 0",
        kind=Kind.EQUALITY,
        assumptions=("attended", "support", "finite-scores"),
        scope=EVERY_N + "; strict positivity is Coq's",
        functions=("sparse.prepare",),
        clauses=(
            Clause(
                "D = Σ_{∉S} p + Σ_S p·e^d ≥ 0",
                statements=(
                    Statement(
                        name="U15: Σ p·e^d = Σ (1 − 1_S)·p + Σ_S p·e^d",
                        lhs=S(p * E),
                        rhs=S((1 - on_s) * p) + S(on_s * p * E),
                        hypotheses=(ON_S,),
                        links=(DIVIDED_ON_S,),
                        model=SPARSE_MODEL,
                        scope=EVERY_N,
                    ),
                    Statement(
                        name="U15 sign: 0 ≤ Σ (1 − 1_S)·p + Σ_S p·e^d",
                        lhs=ZERO,
                        rhs=S((1 - on_s) * p) + S(on_s * p * E),
                        relation="≤",
                        method=Nonnegative(((ONE, (1 - on_s, p)), (ONE, (on_s, p, E)))),
                        facts=(on_s, 1 - on_s),
                        model=SPARSE_MODEL,
                        scope=EVERY_N,
                    ),
                ),
                coq=("Sparse.D_split",),
            ),
            Clause("D > 0", coq=("Response.D_gt0",)),
        ),
    ),
)
