"""Joint key and value edits: key response, value response and their interaction (§3.1, App. D)."""

from __future__ import annotations

import sympy as sp

from proofs.entry import Clause, Entry, Kind
from proofs.prover.links import Link
from proofs.prover.statements import EVERY_N, MATRICES, Matrices, Sampler, Statement
from proofs.prover.syntax import Hypothesis, Index, Letter, S
from proofs.prover.vocabulary import (
    BASELINE,
    EDITED,
    EXPONENTIAL,
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
    p,
    phi,
    t,
    v,
    y,
)
from proofs.topics.phi import divided, t as scalar
from proofs.topics.response import BALANCE, DIVIDED

key = S(change * (v - y))
value = S(p * eps)
interaction = S(change * eps)
linear = S(p * d * (v - y))

# Both endpoints from their own scores: e^s, e^{s'}, uniform means and the number of keys.
e0, e1 = Index("e0", positive=True), Index("e1", positive=True)
Z0, Z1, N = sp.symbols("Z0 Z1 N", positive=True)
mu0, mu1 = sp.symbols("mu0 mu1", real=True)
s0, s1, f0, f1 = (Index(name) for name in ("s0", "s1", "f0", "f1"))  # scores and φ₁ of them
COUNT: Hypothesis = (S(ONE), N)
NORMALISERS = ((S(e0), Z0), (S(e1), Z1), (e0, 1 + s0 * f0), (e1, 1 + s1 * f1))
MEANS = ((S(v), N * mu0), (S(eps), N * (mu1 - mu0)), COUNT)
ENDPOINT_LINKS = (
    divided(NORMALISERS[2], s0, f0, {e0: sp.exp(scalar)}, -ONE),
    divided(NORMALISERS[3], s1, f1, {e1: sp.exp(scalar)}, -ONE),
)


def divided_scores(exponential: Index, score: Index) -> Sampler:
    """A sampler: φ₁ of the scores, from their exponentials."""
    return lambda env, _: [(e - 1) / s for e, s in zip(env[exponential], env[score], strict=True)]


ENDPOINT_MODEL = (
    (N, S(ONE)),
    (Z0, S(e0)),
    (Z1, S(e1)),
    (mu0, S(v) / S(ONE)),
    (mu1, (S(v) + S(eps)) / S(ONE)),
    (f0, divided_scores(e0, s0)),
    (f1, divided_scores(e1, s1)),
)
moved = e1 / Z1 - e0 / Z0
increment = S(e1 * (v + eps)) / Z1 - S(e0 * v) / Z0

_g, _W = Letter("g", "m", "1"), Letter("W_o", "r", "m")
_v, _y, _x = Letter("v", "1", "r", indexed=True), Letter("y", "1", "r"), Index("x")

BALANCED: Hypothesis = (S(_x), ZERO)

ENTRIES = (
    Entry(
        label="main:joint",
        aliases=("eq:jointattribution",),
        title="key, value and interaction parts",
        text="y' − y = K_f + V₀ + C_KV",
        kind=Kind.EQUALITY,
        assumptions=("attended", "finite-scores", "fixed-query"),
        scope=EVERY_N,
        functions=(
            "joint.decompose",
            "joint.key_response",
            "joint.value_response",
            "joint.interaction",
        ),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="main:joint: y' − y = Σ (p'−p)(v−y) + Σ p·ε + Σ (p'−p)·ε",
                        lhs=S(edited * (v + eps)) - y,
                        rhs=key + value + interaction,
                        hypotheses=EDITED,
                        nonzero=(D,),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                ),
                coq=(
                    "Joint.joint",
                    "Joint.separate_omits",
                ),
            ),
        ),
    ),
    Entry(
        label="eq:kvcomponents",
        title="the key response and the interaction",
        text="K_f = Σ (p' − p)(v − y), C_KV = Σ (p' − p)·ε",
        kind=Kind.DEFINITION,
        assumptions=("attended", "fixed-query"),
        scope=EVERY_N + "; each definition agrees with its difference of two readouts",
        functions=("joint.key_response", "joint.interaction"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:kvcomponents key: K_f = Σ p'·v − y",
                        lhs=key,
                        rhs=S(edited * v) - y,
                        hypotheses=EDITED,
                        nonzero=(D,),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                    Statement(
                        name="eq:kvcomponents interaction: C_KV = Σ p'·ε − V₀",
                        lhs=interaction,
                        rhs=S(edited * eps) - value,
                        nonzero=(D,),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                ),
            ),
        ),
    ),
    Entry(
        label="eq:atplinear",
        title="the linear response",
        text="L_s = Σ p·d·(v − y) = Σ p·t·(v − y), V₀ = Σ p·ε",
        kind=Kind.EQUALITY,
        assumptions=("attended", "fixed-query"),
        scope=EVERY_N,
        functions=("joint.linear_response", "joint.value_response"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:atplinear: Σ p·d·(v − y) = Σ p·t·(v − y)",
                        lhs=linear,
                        rhs=S(p * t * (v - y)),
                        hypotheses=(*BASELINE, SHIFT),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                ),
                coq=("Joint.linear_tilt",),
            ),
        ),
    ),
    Entry(
        label="eq:atpcentered",
        title="centring the contraction",
        text="Σ (p' − p)⟨g, v·W_o⟩ = Σ (p' − p)⟨g, (v − y)·W_o⟩",
        kind=Kind.EQUALITY,
        assumptions=("attended", "fixed-query"),
        scope=f"every N; {MATRICES}",
        functions=("margin.contract", "joint.key_response"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:atpcentered: Σ x·v·W_o·g = Σ x·(v − y)·W_o·g when Σ x = 0",
                        lhs=S(_x * _v * _W * _g),
                        rhs=S(_x * (_v - _y) * _W * _g),
                        method=Matrices(),
                        hypotheses=(BALANCED, MASS, PARTITION),
                        links=(Link(BALANCE, hypothesis=BALANCED, meaning={_x: p * (E / D - 1)}),),
                        nonzero=(D,),
                        model=(*MODEL, (_x, change)),
                        scope=f"every N; {MATRICES}; x = p' − p",
                    ),
                ),
                coq=(
                    "Joint.contraction_centred",
                    "Joint.contraction_centred_matrix",
                ),
            ),
        ),
    ),
    Entry(
        label="eq:kvfactorial",
        title="the interaction as a four-cell difference",
        text="C_KV = y(p', v+ε) − y(p', v) − y(p, v+ε) + y(p, v)",
        kind=Kind.EQUALITY,
        assumptions=("attended", "fixed-query"),
        scope=EVERY_N,
        functions=("joint.interaction",),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:kvfactorial: Σ (p'−p)·ε is the four-cell difference",
                        lhs=interaction,
                        rhs=S(edited * (v + eps)) - S(edited * v) - S(p * (v + eps)) + S(p * v),
                        nonzero=(D,),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                ),
                coq=("Joint.fourcell",),
            ),
        ),
    ),
    Entry(
        label="eq:jointmatrix",
        title="joint change in effective-weight coordinates",
        text="y' − y = (μ' − μ) + uᵀ(ΔM' − ΔM) = K_f + V₀ + C_KV",
        kind=Kind.EQUALITY,
        assumptions=("attended", "fixed-query", "same-count", "affine-scores"),
        scope=EVERY_N,
        functions=("joint.decompose", "effective.effective_weights"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:jointmatrix matrices: y' − y = (μ'−μ) + uᵀΔM' − uᵀΔM",
                        lhs=increment,
                        rhs=(mu1 - mu0)
                        + S(f1 / Z1 * s1 * (v + eps - mu1))
                        - S(f0 / Z0 * s0 * (v - mu0)),
                        hypotheses=(*NORMALISERS, *MEANS),
                        links=ENDPOINT_LINKS,
                        nonzero=(Z0, Z1),
                        model=ENDPOINT_MODEL,
                        scope=EVERY_N,
                    ),
                    Statement(
                        name="eq:jointmatrix parts: y' − y = K_f + V₀ + C_KV from both endpoints",
                        lhs=increment,
                        rhs=S(moved * (v - S(e0 * v) / Z0)) + S(e0 / Z0 * eps) + S(moved * eps),
                        hypotheses=NORMALISERS[:2],
                        nonzero=(Z0, Z1),
                        model=ENDPOINT_MODEL,
                        scope=EVERY_N,
                    ),
                ),
                coq=("Reuse.joint_matrix",),
            ),
        ),
    ),
    Entry(
        label="eq:matrixincrement",
        title="key-only change in effective-weight coordinates",
        text="Δy = uᵀ(ΔM' − ΔM) = Σ (p'−p)(v−μ) = Σ (p'−p)(v−y) = Σ p·t·φ₁(t)(v−y)",
        kind=Kind.EQUALITY,
        assumptions=("attended", "fixed-query", "key-only", "affine-scores"),
        scope=EVERY_N,
        functions=("response.finite_response", "effective.effective_weights"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:matrixincrement matrices: uᵀ(ΔM' − ΔM) = Σ (p' − p)(v − μ)",
                        lhs=S(f1 / Z1 * s1 * (v - mu0)) - S(f0 / Z0 * s0 * (v - mu0)),
                        rhs=S(moved * (v - mu0)),
                        hypotheses=(*NORMALISERS[2:], (S(v), N * mu0), COUNT),
                        links=ENDPOINT_LINKS,
                        nonzero=(Z0, Z1),
                        model=ENDPOINT_MODEL,
                        scope=EVERY_N,
                    ),
                    Statement(
                        name="eq:matrixincrement centre: Σ (p' − p)(v − μ) = Σ (p' − p)(v − y)",
                        lhs=S(change * (v - mu0)),
                        rhs=S(change * (v - y)),
                        hypotheses=(MASS, PARTITION),
                        nonzero=(D,),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                    Statement(
                        name="eq:matrixincrement divided: Σ (p' − p)(v − y) = Σ p·t·φ₁(t)(v − y)",
                        lhs=S(change * (v - y)),
                        rhs=S(p * t * phi * (v - y)),
                        hypotheses=(EXPONENTIAL,),
                        links=(DIVIDED,),
                        nonzero=(D,),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                ),
                coq=("Reuse.matrix_increment",),
            ),
        ),
    ),
    Entry(
        label="eq:rhoremainder",
        title="the remainder of score linearisation",
        text="R_s = K_f − L_s = Σ p·t·(φ₁(t) − 1)·(v − y)",
        kind=Kind.EQUALITY,
        assumptions=("attended", "fixed-query"),
        scope=EVERY_N,
        functions=("joint.softmax_remainder",),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:rhoremainder: K_f − L_s = Σ p·t·(φ₁(t) − 1)·(v − y)",
                        lhs=key - linear,
                        rhs=S(p * t * (phi - 1) * (v - y)),
                        hypotheses=(*BASELINE, EXPONENTIAL, SHIFT),
                        links=(DIVIDED,),
                        nonzero=(D,),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                ),
                coq=("Joint.rho_remainder",),
            ),
        ),
    ),
)
