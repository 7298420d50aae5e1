"""From a local response to a predicted answer margin: linear readouts over heads (§4, App. D, F).

The index is the head; g is the baseline gradient of the margin at the combined write.
"""

from __future__ import annotations

from proofs.entry import Entry, Kind
from proofs.prover.statements import MATRICES, Matrices, Statement
from proofs.prover.syntax import Letter, S

dy, W = Letter("Dy", "1", "r", indexed=True), Letter("W_o", "r", "m", indexed=True)
y = Letter("y", "1", "r", indexed=True)
g = Letter("g", "m", "1")
HEADS = f"every number of heads; {MATRICES}"

u_row, DM1, DM0 = Letter("u^T", "1", "m"), Letter("DM'", "m", "r"), Letter("DM", "m", "r")
mu1, mu0, y1, y0 = (Letter(name, "1", "r") for name in ("mu'", "mu", "y'", "y0"))
K, V, C = (Letter(name, "1", "r") for name in ("K_f", "V_0", "C_KV"))
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
        statements=(
            Statement(
                name="main:scorecandidate: (Σ_h Δy_h·W_h)·g = Σ_h (Δy_h·W_h·g)",
                lhs=S(dy * W) * g,
                rhs=S(dy * W * g),
                method=Matrices(),
                scope=HEADS,
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
        statements=(
            Statement(
                name="eq:marginprediction: (o' − o)·g = Σ_h Δy_h·W_h·g",
                lhs=(S((y + dy) * W) - S(y * W)) * g,
                rhs=S(dy * W * g),
                method=Matrices(),
                scope=HEADS,
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
        statements=(
            Statement(
                name="eq:jointpredictor: both coordinates give the same prediction",
                lhs=((mu1 - mu0) + u_row * (DM1 - DM0)) * G,
                rhs=(K + V + C) * G,
                method=Matrices(),
                hypotheses=((u_row * DM1, y1 - mu1), (u_row * DM0, y0 - mu0), (K, y1 - y0 - V - C)),
                model=((y1, mu1 + u_row * DM1), (y0, mu0 + u_row * DM0), (K, y1 - y0 - V - C)),
                scope=MATRICES,
            ),
        ),
    ),
)
