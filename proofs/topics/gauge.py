"""Effective weights under a score shift, in the residual stream and reused from an anchor (App. C)."""

from __future__ import annotations

import random
from fractions import Fraction

import sympy as sp

from proofs.entry import Clause, Entry, Kind
from proofs.prover.rational import Environment
from proofs.prover.statements import EVERY_N, MATRICES, Matrices, Nonnegative, Statement
from proofs.prover.syntax import Hypothesis, Index, Letter, S
from proofs.prover.vocabulary import MASS, ONE, p, v, weights
from proofs.topics.effective import (
    COUNT,
    MEAN,
    SCORE_LINK,
    SCORES,
    TOTAL,
    N,
    Z,
    a,
    e,
    f,
    first_entries,
    mean,
    mu,
    u_row,
    values,
    x_row,
)
from proofs.topics.joint import divided_scores
from proofs.topics.phi import divided, t as scalar

# h = s − σ are the shifted scores and kappa = e^σ, so that e^s = e^σ·(1 + h·φ₁(h)).
h = Index("h")
kappa = sp.Symbol("kappa", positive=True)
sigma = sp.Symbol("sigma", real=True)
SHIFTED: Hypothesis = (e, kappa * (1 + h * f))
SHIFTED_LINK = divided(SHIFTED, h, f, {e: kappa * sp.exp(scalar)}, -kappa)


def _divided(env: Environment, _: random.Random) -> list[Fraction]:
    pairs = zip(env[e], env[h], strict=True)
    return [(x / env[kappa] - 1) / shifted for x, shifted in pairs]


GAUGE_MODEL = ((f, _divided), (Z, S(e)), (N, S(ONE)), (mu, S(v) / S(ONE)))
GAUGE = Statement(
    name="eq:gauge coordinate: y = μ + Σ e^σ·φ₁(s−σ)/Z·(s−σ)·(v − μ)",
    lhs=S(e * v) / Z,
    rhs=mu + S(kappa * f / Z * h * (v - mu)),
    hypotheses=(SHIFTED, MEAN, TOTAL, COUNT),
    links=(SHIFTED_LINK,),
    nonzero=(Z,),
    model=GAUGE_MODEL,
    scope=EVERY_N,
)

g = Letter("g", "m+1", "1")
ci, ca, score = Index("c_i"), Index("c_a"), Index("s")
narrow, Wo = Letter("a_x", "m", "1", indexed=True), Letter("W_o", "r", "m")
step, dstep = Letter("DM_u", "m+1", "r"), Letter("dDM", "m+1", "r")
du_row = Letter("du^T", "1", "m+1")
L, key, offset = (
    Letter("L", "m+1", "d"),
    Letter("k", "d", "1", indexed=True),
    Letter("b", "d", "1"),
)
small = sp.Symbol("h_", real=True)

top = sp.Symbol("A", real=True)
u, x = Index("u"), Index("x")


def _enclosed(sign: int) -> Statement:
    return Statement(
        name=f"prop:bounded readout: {'+-'[sign < 0]}Σ p·v ≤ max|v|",
        lhs=sign * S(p * v),
        rhs=top,
        relation="≤",
        method=Nonnegative(((ONE, (p, top - sign * v)),)),
        hypotheses=(MASS,),
        facts=(top - sign * v,),
        model=((p, weights), (top, lambda env, _: max(abs(q) for q in env[v]))),
        scope=EVERY_N,
    )


ENTRIES = (
    Entry(
        label="eq:residual",
        title="the residual write",
        text="xᵀ + y·W_o = xᵀ(I + ΔM·W_o) + μ·W_o",
        kind=Kind.EQUALITY,
        assumptions=("bias-free", "same-residual", "affine-scores"),
        scope=MATRICES,
        functions=("effective.residual_write",),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:residual: xᵀ + y·W_o = xᵀ(I + ΔM·W_o) + μ·W_o",
                        lhs=x_row + S(e * values) / Z * Wo,
                        rhs=x_row * (1 + S(f / Z * narrow * (values - mean)) * Wo) + mean * Wo,
                        method=Matrices(),
                        hypotheses=(
                            (x_row * narrow, score),
                            SCORES,
                            (S(values), N * mean),
                            TOTAL,
                            COUNT,
                        ),
                        links=(SCORE_LINK,),
                        nonzero=(Z,),
                        model=(
                            (score, first_entries(x_row * narrow)),
                            (f, divided_scores(e, score)),
                            (Z, S(e)),
                            (N, S(ONE)),
                            (mean, S(values) / S(ONE)),
                        ),
                        scope=f"every N; {MATRICES}; without biases the features have the width of x",
                    ),
                ),
                coq=("Reuse.residual",),
            ),
        ),
    ),
    Entry(
        label="eq:gauge",
        title="the score-shift family",
        text="a^g = a − g, c^g = e^σ·φ₁(s−σ)/Z: y = μ + uᵀΔM^g for every g, σ = uᵀg",
        kind=Kind.EQUALITY,
        assumptions=("attended", "affine-scores"),
        scope=f"{EVERY_N}; {MATRICES}",
        functions=(
            "effective.effective_weights",
            "effective.reference_key_gauge",
            "effective.mean_key_gauge",
        ),
        clauses=(
            Clause(
                "",
                statements=(
                    GAUGE,
                    Statement(
                        name="eq:gauge matrix: y = μ + uᵀ·Σ c^g·(a − g)·(v − μ)",
                        lhs=S(e * values) / Z,
                        rhs=mean + u_row * S(kappa * f / Z * (a - g) * (values - mean)),
                        method=Matrices(),
                        hypotheses=(
                            (u_row * a, h + sigma),
                            (u_row * g, sigma),
                            SHIFTED,
                            (S(values), N * mean),
                            TOTAL,
                            COUNT,
                        ),
                        links=(SHIFTED_LINK,),
                        nonzero=(Z,),
                        model=(
                            (f, _divided),
                            (Z, S(e)),
                            (N, S(ONE)),
                            (mean, S(values) / S(ONE)),
                            (sigma, lambda env, _: env.evaluate(u_row * g).rows[0][0]),
                            (h, first_entries(u_row * a - u_row * g)),
                        ),
                        scope=f"every N; {MATRICES}",
                    ),
                ),
                coq=(
                    "Effective.effective_shift",
                    "Effective.gauge",
                ),
            ),
        ),
    ),
    Entry(
        label="prop:bounded",
        title="global affine readouts are constant",
        text="F(x) = b + xᵀM for every x ⇔ F is constant; then M = 0 and b = F(0)",
        kind=Kind.EQUIVALENCE,
        assumptions=("attended", "fixed-bank", "all-inputs"),
        scope="the readout is bounded by the largest value (every N); that a non-zero slope passes any "
        "bound, and the equivalence that follows, are Coq's",
        functions=("effective.anchor_residual",),
        clauses=(
            Clause(
                "|Σ p·v| ≤ max|v| in each coordinate",
                statements=(
                    _enclosed(1),
                    _enclosed(-1),
                ),
                coq=(
                    "Bounded.convex_norm",
                    "Bounded.output_bounded",
                ),
            ),
            Clause(
                "F(x) = b + xᵀM for every x exactly when F is constant; then M = 0 and b = F(0)",
                coq=(
                    "Bounded.bounded_affine",
                    "Bounded.affine_trivial",
                    "Bounded.bounded",
                ),
            ),
        ),
    ),
    Entry(
        label="eq:tokenerror",
        title="the error of a reused matrix",
        text="y_i − y_fr = uᵀ(ΔM_i − ΔM_a) = Σ (c_i − c_a)(uᵀa)(v − μ)",
        kind=Kind.EQUALITY,
        assumptions=("fixed-bank", "affine-scores"),
        scope=f"every N; {MATRICES}",
        functions=("effective.anchor_residual",),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:tokenerror: the difference of two effective readouts, token by token",
                        lhs=(mean + u_row * S(ci * a * (values - mean)))
                        - (mean + u_row * S(ca * a * (values - mean))),
                        rhs=S((ci - ca) * score * (values - mean)),
                        method=Matrices(),
                        hypotheses=((u_row * a, score),),
                        model=((score, first_entries(u_row * a)),),
                        scope=f"every N; {MATRICES}",
                    ),
                    Statement(
                        name="eq:tokenerror matrix: y_i − y_fr = uᵀ(ΔM_i − ΔM_a)",
                        lhs=(mean + u_row * step) - (mean + u_row * dstep),
                        rhs=u_row * (step - dstep),
                        method=Matrices(),
                        scope=MATRICES,
                    ),
                ),
                coq=(
                    "Reuse.token_error",
                    "Reuse.token_error_sum",
                ),
            ),
        ),
    ),
    Entry(
        label="eq:bound",
        title="norm bound on the reuse error",
        text="‖e‖ ≤ ‖u‖·‖ΔM_i − ΔM_a‖_op",
        kind=Kind.BOUND,
        assumptions=("fixed-bank", "affine-scores"),
        scope="Cauchy–Schwarz for vectors of every length (multiplied by Σ x² ≥ 0); the operator "
        "norm and the division are Coq's",
        functions=("effective.anchor_bound", "effective.anchor_residual"),
        clauses=(
            Clause(
                "(Σu·x)² ≤ Σu²·Σx², multiplied by Σx² ≥ 0",
                statements=(
                    Statement(
                        name="eq:bound Cauchy–Schwarz: Σx²·(Σu·x)² ≤ Σx²·Σu²·Σx²",
                        lhs=S(x**2) * S(u * x) ** 2,
                        rhs=S(x**2) * S(u**2) * S(x**2),
                        relation="≤",
                        method=Nonnegative(((ONE, ((S(x**2) * u - S(u * x) * x) ** 2,)),)),
                        scope="vectors of every length",
                    ),
                ),
            ),
            Clause(
                "‖e‖ ≤ ‖u‖·‖ΔM_i − ΔM_a‖_op, and the operator norm exists",
                coq=(
                    "Reuse.frobenius_bound",
                    "Reuse.opnorm_exists",
                    "Reuse.opnorm_bound",
                    "Reuse.reuse_bound",
                ),
            ),
        ),
    ),
    Entry(
        label="unlabelled:differential",
        row="U7",
        title="the differential of the readout",
        text="dy = duᵀ·ΔM + uᵀ·dΔM",
        kind=Kind.EXPANSION,
        assumptions=("fixed-bank",),
        scope=MATRICES + "; the exact finite change, whose part of first order it is",
        functions=("effective.effective_weights",),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="U7: (u + h·du)ᵀ(ΔM + h·dΔM) − uᵀΔM to all orders in h",
                        lhs=(u_row + small * du_row) * (step + small * dstep) - u_row * step,
                        rhs=small * (du_row * step + u_row * dstep) + small**2 * du_row * dstep,
                        method=Matrices(),
                        scope=MATRICES,
                    ),
                ),
                coq=("Calculus.product_rule",),
            ),
        ),
    ),
    Entry(
        label="unlabelled:key-shift-gauge",
        row="U8",
        title="key shifts are gauges",
        text="k ↦ k − b gives g = L·b, a family of dimension at most d; softmax is unchanged",
        kind=Kind.EQUALITY,
        assumptions=("fixed-bank", "affine-scores"),
        scope=f"every N; {MATRICES}; the dimension of the family is Coq's (rank)",
        functions=("effective.key_shift_gauge", "effective.mean_key_gauge"),
        clauses=(
            Clause(
                "k ↦ k − b changes the features by L·b and leaves softmax unchanged",
                statements=(
                    Statement(
                        name="U8 features: L·(k − b) = a − L·b for every key",
                        lhs=L * (key - offset),
                        rhs=L * key - L * offset,
                        method=Matrices(),
                        scope=MATRICES,
                    ),
                    Statement(
                        name="U8 softmax: e^{s−σ}/Σ e^{s−σ} = e^s/Σ e^s for every key",
                        lhs=e / kappa / S(e / kappa),
                        rhs=e / S(e),
                        nonzero=(kappa, S(e)),
                        scope="every N",
                    ),
                ),
                coq=("Control.key_shift",),
            ),
            Clause("the family g = L·b has dimension at most d", coq=("Control.key_shift",)),
        ),
    ),
)
