"""From a local response to a predicted answer margin: linear readouts over heads (§4, App. D, F).

The index is the head; g is the baseline gradient of the margin at the combined write.
"""

from __future__ import annotations

from proofs.entry import Clause, Entry, Kind
from proofs.prover.statements import MATRICES, Matrices, Statement
from proofs.prover.syntax import Letter, S
from proofs.prover.vocabulary import ONE
from proofs.topics.effective import first_entries
from proofs.topics.joint import (
    COUNT,
    ENDPOINT_LINKS,
    NORMALISERS,
    Z0,
    Z1,
    N,
    divided_scores,
    e0,
    e1,
    f0,
    f1,
    s0,
    s1,
)

dy, W = Letter("Dy", "1", "r", indexed=True), Letter("W_o", "r", "m", indexed=True)
y = Letter("y", "1", "r", indexed=True)
g = Letter("g", "m", "1")
HEADS = f"every number of heads; {MATRICES}"

# Both endpoints with their features a, scores uᵀa, effective weights ΔM = Σ φ₁(s)/Z·a·(v − μ), and parts.
u_row = Letter("u^T", "1", "m+1")
a0, a1 = (Letter(name, "m+1", "1", indexed=True) for name in ("a0", "a1"))
v, eps = (Letter(name, "1", "r", indexed=True) for name in ("v", "eps"))
mu0, mu1 = (Letter(name, "1", "r") for name in ("mu", "mu'"))
DM0 = S(f0 / Z0 * a0 * (v - mu0))
DM1 = S(f1 / Z1 * a1 * (v + eps - mu1))
moved = e1 / Z1 - e0 / Z0
K = S(moved * v) - S(moved) * S(e0 * v) / Z0
V, C = S(e0 * eps) / Z0, S(moved * eps)
G = Letter("G", "r", "1")

ENTRIES = (
    Entry(
        label="main:scorecandidate",
        title="score of a candidate",
        text="Δm̂ = ⟨g, Σ_h Δy_h·W_h⟩; Δm = m_executed − m_baseline",
        kind=Kind.DEFINITION,
        assumptions=("linear-readout",),
        scope=HEADS + "; the score computed for the combined write equals the sum of head scores",
        functions=("margin.project", "margin.contract"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="main:scorecandidate: (Σ_h Δy_h·W_h)·g = Σ_h (Δy_h·W_h·g)",
                        lhs=S(dy * W) * g,
                        rhs=S(dy * W * g),
                        method=Matrices(),
                        scope=HEADS,
                    ),
                ),
                coq=("Joint.head_scores",),
            ),
        ),
    ),
    Entry(
        label="eq:marginprediction",
        title="predicted margin change",
        text="Δm̂ = ⟨g, Δo⟩ with o = Σ_h y_h·W_h",
        kind=Kind.DEFINITION,
        assumptions=("linear-readout",),
        scope=HEADS + "; the write changes by the sum of projected responses",
        functions=("margin.project", "margin.contract"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:marginprediction: (o' − o)·g = Σ_h Δy_h·W_h·g",
                        lhs=(S((y + dy) * W) - S(y * W)) * g,
                        rhs=S(dy * W * g),
                        method=Matrices(),
                        scope=HEADS,
                    ),
                ),
                coq=("Joint.head_scores",),
            ),
        ),
    ),
    Entry(
        label="eq:jointpredictor",
        title="joint predictor",
        text="G((μ' − μ) + uᵀ(ΔM' − ΔM)) = G(K_f + V₀ + C_KV) for linear G",
        kind=Kind.EQUALITY,
        assumptions=("linear-readout", "affine-scores", "same-count"),
        scope=MATRICES + "; from eq:identity at both ends and main:joint",
        functions=("joint.decompose", "margin.contract", "margin.project"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:jointpredictor: both coordinates give the same prediction",
                        lhs=((mu1 - mu0) + u_row * (DM1 - DM0)) * G,
                        rhs=(K + V + C) * G,
                        method=Matrices(),
                        hypotheses=(
                            (u_row * a0, s0),
                            (u_row * a1, s1),
                            *NORMALISERS,
                            (S(v), N * mu0),
                            (S(eps), N * (mu1 - mu0)),
                            COUNT,
                        ),
                        links=ENDPOINT_LINKS,
                        nonzero=(Z0, Z1),
                        model=(
                            (s0, first_entries(u_row * a0)),
                            (s1, first_entries(u_row * a1)),
                            (f0, divided_scores(e0, s0)),
                            (f1, divided_scores(e1, s1)),
                            (Z0, S(e0)),
                            (Z1, S(e1)),
                            (N, S(ONE)),
                            (mu0, S(v) / S(ONE)),
                            (mu1, (S(v) + S(eps)) / S(ONE)),
                        ),
                        scope=f"every N; {MATRICES}",
                    ),
                ),
                coq=("Reuse.joint_predictor",),
            ),
        ),
    ),
)
