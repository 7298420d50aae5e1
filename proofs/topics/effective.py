"""Effective weights: the softmax readout as an exact matrix step in input coordinates (App. B)."""

from __future__ import annotations

import random
from fractions import Fraction

import sympy as sp

from proofs.entry import Clause, Entry, Kind
from proofs.prover.links import Link
from proofs.prover.rational import Environment
from proofs.prover.statements import EVERY_N, MATRICES, Elementary, Matrices, Sampler, Statement
from proofs.prover.syntax import Hypothesis, Index, Letter, S
from proofs.prover.vocabulary import (
    ONE,
    ZERO,
    one_key,
    v,
)
from proofs.topics.joint import COUNT, N
from proofs.topics.phi import divided, t as scalar
from proofs.topics.rotary import PLANE_MODEL, QUARTER_TURN, RELATIVE, J, omega, start, stop, turn

# One query: scores s, e = e^s, f = φ₁(s), c = f/Z, uniform mean μ.
s, f = Index("s"), Index("f")
e = Index("e", positive=True)
Z, tau = sp.symbols("Z tau", positive=True)
mu = sp.Symbol("mu", real=True)
SCORES: Hypothesis = (e, 1 + s * f)
MEAN: Hypothesis = (S(v), N * mu)
TOTAL: Hypothesis = (S(e), Z)
SCORE_LINK = divided(SCORES, s, f, {e: sp.exp(scalar)}, -ONE)


def _divided(env: Environment, _: random.Random) -> list[Fraction]:
    return [(x - 1) / score for x, score in zip(env[e], env[s], strict=True)]


SCORE_MODEL = ((f, _divided), (Z, S(e)), (N, S(ONE)), (mu, S(v) / S(ONE)))

# The same with matrices: features a = L·k̃ᵀ, values and mean as rows.
u_row, x_row = Letter("u^T", "1", "m+1"), Letter("x^T", "1", "m")
a = Letter("a", "m+1", "1", indexed=True)
values, mean = Letter("v", "1", "r", indexed=True), Letter("mu", "1", "r")
K = Letter("K", "m+1", "1")
L, k = Letter("L", "m+1", "d"), Letter("k", "d", "1", indexed=True)
W, bias, W_hat = Letter("W_q", "m", "d"), Letter("b_q", "1", "d"), Letter("What_q", "m+1", "d")
R = Letter("R_i^T", "d", "d")
# u = (x, 1) and Ŵ = (W; b) coordinate by coordinate, the last coordinate by its indicator.
last, x, u = Index("1_last", idempotent=True), Index("x"), Index("u")
W_rows, W_hat_rows = (Letter(name, "1", "d", indexed=True) for name in ("W_i", "What_i"))
k_j = Letter("k_j", "d", "1")
PAIRING: Hypothesis = (u_row * a, s)


def first_entries(letters: sp.Expr) -> Sampler:
    """A sampler: the numbers in a list of 1×1 matrices."""
    return lambda env, _: [value.rows[0][0] for value in env.evaluate(letters)]


MATRIX_MODEL = (
    (s, first_entries(u_row * a)),
    (f, _divided),
    (Z, S(e)),
    (N, S(ONE)),
    (mean, S(values) / S(ONE)),
)

IDENTITY = Statement(
    name="eq:identity coordinate: y = μ + Σ c·s·(v − μ), c = φ₁(s)/Z",
    lhs=S(e * v) / Z,
    rhs=mu + S(f / Z * s * (v - mu)),
    hypotheses=(SCORES, MEAN, TOTAL, COUNT),
    links=(SCORE_LINK,),
    nonzero=(Z,),
    model=SCORE_MODEL,
    scope=EVERY_N,
)
STEP = Statement(
    name="eq:identity matrix: y = μ + uᵀ·Σ c·a·(v − μ)",
    lhs=S(e * values) / Z,
    rhs=mean + u_row * S(f / Z * a * (values - mean)),
    method=Matrices(),
    hypotheses=(PAIRING, SCORES, (S(values), N * mean), TOTAL, COUNT),
    links=(SCORE_LINK,),
    nonzero=(Z,),
    model=MATRIX_MODEL,
    scope=f"every N; {MATRICES}",
)

# One generic entry of B beside another: ½ Σ c·(a₁B₁ + a₂B₂ − (v − μ))².
c, a1, a2 = Index("c", positive=True), Index("a1"), Index("a2")
B1, B2 = sp.symbols("B1 B2", real=True)
energy = S(c * (a1 * B1 + a2 * B2 - (v - mu)) ** 2) / 2
GRADIENT = Statement(
    name="eq:gradient: −∂E/∂B₁ at B = 0 is Σ c·a₁·(v − μ)",
    lhs=-sp.Subs(sp.Derivative(energy, B1), (B1, B2), (0, 0)),
    rhs=S(c * a1 * (v - mu)),
    scope="every N, one generic entry of B with another beside it",
)

# Original weights, without bias.
WkT, Wv = Letter("W_k^T", "d", "m"), Letter("W_v", "m", "r")
Rj, Rji = Letter("R_j", "d", "d", indexed=True), Letter("R_j-i", "d", "d", indexed=True)
xj, xj_row = Letter("x_j", "m", "1", indexed=True), Letter("x_j^T", "1", "m", indexed=True)
ROTATED: Hypothesis = (R * Rj, Rji)
small = sp.Symbol("h", real=True)
limit = S(sp.exp(small * s) * v) / S(sp.exp(small * s))

ENTRIES = (
    Entry(
        label="eq:features",
        title="affine score features",
        text="s = q̃·k̃ᵀ/τ = uᵀa, a = Ŵ_q·R(p_i)ᵀ·k̃ᵀ/τ, u = (x, 1)",
        kind=Kind.EQUALITY,
        assumptions=("affine-scores",),
        scope=MATRICES,
        functions=("effective.affine_features",),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:features: (Σ_i x_i·W_i + b_q)·R_iᵀ·k/τ = Σ_i u_i·(Ŵ_i·R_iᵀ·k/τ)",
                        lhs=(S((1 - last) * x * W_rows) + bias) * R * k_j / tau,
                        rhs=S(u * W_hat_rows * R * k_j) / tau,
                        method=Matrices(),
                        hypotheses=(
                            (u, (1 - last) * x + last),
                            (W_hat_rows, (1 - last) * W_rows + last * bias),
                            (S(last), ONE),
                        ),
                        nonzero=(tau,),
                        model=(
                            (last, one_key),
                            (u, (1 - last) * x + last),
                            (W_hat_rows, (1 - last) * W_rows + last * bias),
                        ),
                        scope="every input width (the index is the augmented coordinate, the last one "
                        f"being 1); {MATRICES}",
                    ),
                ),
                coq=("Effective.features",),
            ),
        ),
    ),
    Entry(
        label="eq:identity",
        aliases=("thm:effectiveappendix",),
        title="exact effective weights",
        text="y = μ + uᵀΔM, ΔM = Σ c·a·(v − μ), c = φ₁(s)/Z",
        kind=Kind.EQUALITY,
        assumptions=("attended", "finite-scores", "affine-scores"),
        scope=f"{EVERY_N}; {MATRICES}",
        functions=("effective.effective_weights",),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:identity normaliser: Σ e^s = N + Σ s·φ₁(s)",
                        lhs=S(e),
                        rhs=N + S(s * f),
                        hypotheses=(SCORES, COUNT),
                        links=(SCORE_LINK,),
                        model=SCORE_MODEL,
                        scope=EVERY_N,
                    ),
                    IDENTITY,
                    STEP,
                ),
                coq=(
                    "Effective.mean_centred",
                    "Effective.identity",
                ),
            ),
        ),
    ),
    Entry(
        label="main:effective",
        title="an exact gradient step",
        text="c = φ₁(s)/Z > 0, y = μ + uᵀΔM, ΔM = −∇E(0)",
        kind=Kind.EQUALITY,
        assumptions=("attended", "affine-scores", "frozen-coefficients"),
        scope=f"{EVERY_N}; c > 0 from the positive integrand of φ₁ (Coq)",
        functions=("effective.effective_weights", "effective.unit_gradient_step"),
        clauses=(
            Clause(
                "y = μ + uᵀΔM",
                statements=(
                    IDENTITY,
                    STEP,
                ),
                coq=(
                    "Effective.effective",
                    "Effective.identity",
                ),
            ),
            Clause(
                "ΔM = −∇E(0)",
                statements=(GRADIENT,),
                coq=(
                    "Effective.gradient_step",
                    "Effective.effective_gradient",
                ),
            ),
            Clause(
                "c = φ₁(s)/Z > 0",
                coq=(
                    "Effective.coef_gt0",
                    "Phi.phi1_gt0",
                ),
            ),
            Clause("rank ΔM ≤ d", coq=("Effective.rank_bound",)),
        ),
    ),
    Entry(
        label="eq:original",
        title="effective weights in the original projections",
        text="ΔM = Σ φ₁(s)·[W_q·R(p_j−p_i)·W_kᵀ·x_j]·[x_jᵀW_v − μ]/(τZ)",
        kind=Kind.EQUALITY,
        assumptions=("affine-scores", "bias-free"),
        scope=f"every N; {MATRICES}",
        functions=("effective.effective_weights", "effective.affine_features"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:original: R_iᵀ·R_j = R(p_j − p_i) inside the sum",
                        lhs=S(f / Z * W * R * Rj * WkT * xj / tau * (xj_row * Wv - mean)),
                        rhs=S(f * W * Rji * WkT * xj * (xj_row * Wv - mean)) / (tau * Z),
                        method=Matrices(),
                        hypotheses=(ROTATED, QUARTER_TURN),
                        links=(
                            Link(
                                RELATIVE,
                                hypothesis=ROTATED,
                                meaning={
                                    R: sp.cos(omega * start) - sp.sin(omega * start) * J,
                                    Rj: turn(omega * stop),
                                    Rji: turn(omega * (stop - start)),
                                },
                            ),
                        ),
                        nonzero=(tau, Z),
                        model=((Rji, R * Rj), *PLANE_MODEL),
                        scope=f"every N; {MATRICES}; the rotations are block diagonals of planes",
                    ),
                ),
                coq=(
                    "Reuse.original",
                    "Reuse.original_rope",
                ),
            ),
        ),
    ),
    Entry(
        label="eq:gradient",
        title="the matrix is a unit gradient step",
        text="−∇_B E(0) = ΔM for E(B) = ½ Σ c·‖aᵀB − (v − μ)‖²",
        kind=Kind.EQUALITY,
        assumptions=("frozen-coefficients",),
        scope="every N, every entry of B",
        functions=("effective.unit_gradient_step",),
        clauses=(
            Clause(
                "",
                statements=(GRADIENT,),
                coq=(
                    "Analysis.quadratic_derive",
                    "Effective.energy_expansion",
                    "Effective.gradient_step",
                    "Effective.effective_gradient",
                ),
            ),
        ),
    ),
    Entry(
        label="unlabelled:rank-factor",
        row="U5",
        title="rank of the effective matrix",
        text="ΔM = L·T with T = Σ c·k̃ᵀ(v − μ), so rank ΔM ≤ d; it is a sum of N − 1 outer "
        "products of size (m+1)×r, so also rank ΔM ≤ min(N − 1, r, m + 1)",
        kind=Kind.BOUND,
        assumptions=("fixed-bank", "affine-scores"),
        scope=f"the two factorisations: every N; {MATRICES}. The bounds on the rank are Coq's.",
        functions=("effective.effective_weights", "effective.numerical_rank"),
        clauses=(
            Clause(
                "ΔM = L·T with T = Σ c·k̃ᵀ(v − μ)",
                statements=(
                    Statement(
                        name="U5: Σ c·a·(v − μ) = L·Σ c·k·(v − μ) with a = L·k",
                        lhs=S(c * a * (values - mean)),
                        rhs=L * S(c * k * (values - mean)),
                        method=Matrices(),
                        hypotheses=((a, L * k),),
                        model=((a, L * k),),
                        scope=f"every N; {MATRICES}",
                    ),
                ),
                coq=("Effective.factorisation",),
            ),
            Clause(
                "ΔM = Σ (c·a − K)·(v − μ) for every K, so that one of the N terms can be removed",
                statements=(
                    Statement(
                        name="U5 keys: Σ c·a·(v − μ) = Σ (c·a − K)·(v − μ) for every fixed K",
                        lhs=S(c * a * (values - mean)),
                        rhs=S((c * a - K) * (values - mean)),
                        method=Matrices(),
                        hypotheses=((S(values), N * mean), COUNT),
                        model=((mean, S(values) / S(ONE)), (N, S(ONE))),
                        scope=f"every N; {MATRICES}; K = c₀·a₀ removes one of the N terms",
                    ),
                ),
            ),
            Clause("rank ΔM ≤ d", coq=("Effective.rank_bound",)),
            Clause("rank ΔM ≤ min(d, N − 1, r, m + 1)", coq=("Effective.rank_sharp",)),
        ),
    ),
    Entry(
        label="unlabelled:linear-attention-limit",
        row="U6",
        title="small scores",
        text="c → 1/N, and y = μ + Σ s·(v − μ)/N to first order, as the scores vanish",
        kind=Kind.EXPANSION,
        assumptions=("attended",),
        scope=EVERY_N + "; the value and the first derivative along scores h·s at h = 0",
        functions=("effective.effective_weights",),
        clauses=(
            Clause(
                "at vanishing scores 1/Z = 1/N and y = μ, and the derivative along h·s is Σ s·(v − μ)/N",
                statements=(
                    Statement(
                        name="U6 coefficient: 1/Σ e^{hs} at h = 0 is 1/N (and φ₁(0) = 1, eq:rho)",
                        lhs=sp.Subs(1 / S(sp.exp(small * s)), small, 0),
                        rhs=1 / N,
                        method=Elementary(),
                        hypotheses=(COUNT,),
                        nonzero=(N, S(ONE)),
                        model=SCORE_MODEL,
                        scope=EVERY_N,
                    ),
                    Statement(
                        name="U6 readout: the derivative at h = 0 is Σ s·(v − μ)/N",
                        lhs=sp.Subs(sp.Derivative(limit, small), small, 0),
                        rhs=S(s * (v - mu)) / N,
                        method=Elementary(),
                        hypotheses=(MEAN, COUNT),
                        nonzero=(N, S(ONE)),
                        model=SCORE_MODEL,
                        scope=EVERY_N,
                    ),
                    Statement(
                        name="U6 start: the readout at h = 0 is μ",
                        lhs=sp.Subs(limit, small, 0) - mu,
                        rhs=ZERO,
                        method=Elementary(),
                        hypotheses=(MEAN, COUNT),
                        nonzero=(S(ONE),),
                        model=SCORE_MODEL,
                        scope=EVERY_N,
                    ),
                ),
                coq=("Expansions.first_order_readout",),
            ),
            Clause("c → 1/N as the scores vanish", coq=("Expansions.coefficient_limit",)),
        ),
    ),
)
