"""Positive curvature and the query directions that preserve attention (§3.3, Appendix C)."""

from __future__ import annotations

import sympy as sp

from proofs.entry import Clause, Entry, Kind
from proofs.prover.links import Transposed
from proofs.prover.statements import EVERY_N, MATRICES, Matrices, Nonnegative, Statement
from proofs.prover.syntax import Index, Letter, S
from proofs.prover.vocabulary import ONE, ZERO, one_key, transposed
from proofs.topics.effective import B1, B2, a1, a2, c, energy, first_entries
from proofs.topics.gauge import GAUGE

# Γ = Pᵀ·Σ c·ã·ãᵀ·P; x = ãᵀ·P·h is the change of a relative score.
a, a_row = Letter("a", "m+1", "1", indexed=True), Letter("a^T", "1", "m+1", indexed=True)
P, PT = Letter("P", "m+1", "m"), Letter("P^T", "m", "m+1")
h, h_row = Letter("h", "m", "1"), Letter("h^T", "1", "m")
x = Index("x")
RELATIVE, RELATIVE_ROW = (a_row * P * h, x), (h_row * PT * a, x)
CURVATURE_MODEL = (
    (a_row, transposed(a)),
    (PT, transposed(P)),
    (h_row, transposed(h)),
    (x, first_entries(a_row * P * h)),
)

# The score of the reference key, picked out by its indicator.
before, chosen = Index("s"), Index("1_0", idempotent=True)
reference, elsewhere = sp.Symbol("s_0", real=True), Index("s_other")

ENTRIES = (
    Entry(
        label="main:curvature",
        aliases=("eq:curvaturekernel", "cor:curvaturecontrol"),
        title="curvature characterises attention-preserving edits",
        text="ker Γ = ker H_all = {h : p(x+h) = p(x)}",
        kind=Kind.EQUIVALENCE,
        assumptions=("attended", "fixed-bank", "affine-scores"),
        scope="hᵀΓh = Σ c·(ãᵀPh)² ≥ 0 for every N and size; that its kernel is the set of "
        "attention-preserving edits, independently of x and of the reference, is Coq's",
        functions=(
            "control.curvature",
            "control.preserving_directions",
            "control.relative_features",
        ),
        clauses=(
            Clause(
                "hᵀΓh = Σ c·(ãᵀPh)² ≥ 0",
                statements=(
                    Statement(
                        name="main:curvature form: hᵀPᵀ(Σ c·ã·ãᵀ)Ph = Σ c·(ãᵀPh)²",
                        lhs=h_row * PT * S(c * a * a_row) * P * h,
                        rhs=S(c * x**2),
                        method=Matrices(),
                        hypotheses=(RELATIVE, RELATIVE_ROW),
                        links=(
                            Transposed(RELATIVE_ROW, RELATIVE, ((a, a_row), (P, PT), (h, h_row))),
                        ),
                        model=CURVATURE_MODEL,
                        scope=f"every N; {MATRICES}",
                    ),
                    Statement(
                        name="main:curvature sign: 0 ≤ Σ c·x²",
                        lhs=ZERO,
                        rhs=S(c * x**2),
                        relation="≤",
                        method=Nonnegative(((ONE, (c, x**2)),)),
                        scope="every N",
                    ),
                ),
                coq=("Control.Gamma_form",),
            ),
            Clause(
                "ker Γ = ker H_all",
                coq=(
                    "Control.positive_form",
                    "Control.curvature_kernel",
                ),
            ),
            Clause(
                "ker H_all = {h : p(x+h) = p(x)} for finite h",
                coq=(
                    "Control.softmax_eq",
                    "Control.preserving_kernel",
                ),
            ),
            Clause(
                "the kernel depends neither on x nor on the reference key",
                coq=("Control.kernel_independent",),
            ),
        ),
    ),
    Entry(
        label="eq:curvaturegauge",
        title="the quadratic in a reference gauge",
        text="ã = a − a_{j₀}, s̃ = uᵀã, c̃ = φ₁(s̃)/Σ e^{s̃} > 0, G = Σ c̃·ã·ãᵀ",
        kind=Kind.DEFINITION,
        assumptions=("attended", "fixed-bank", "affine-scores"),
        scope=EVERY_N + "; the representation of eq:gauge applies, and the reference score is zero",
        functions=(
            "control.relative_features",
            "effective.reference_key_gauge",
            "control.curvature",
        ),
        clauses=(
            Clause(
                "the representation of eq:gauge applies",
                statements=(GAUGE,),
                coq=("Control.gauge_readout",),
            ),
            Clause(
                "the relative score of the reference key is 0",
                statements=(
                    Statement(
                        name="eq:curvaturegauge reference: the relative score of the reference key is 0",
                        lhs=S(chosen * (before - reference)),
                        rhs=ZERO,
                        hypotheses=((before, (1 - chosen) * elsewhere + chosen * reference),),
                        model=(
                            (chosen, one_key),
                            (before, (1 - chosen) * elsewhere + chosen * reference),
                        ),
                        scope="every N",
                    ),
                ),
            ),
            Clause("c̃ > 0", coq=("Control.ctilde_gt0",)),
        ),
    ),
    Entry(
        label="unlabelled:hessian",
        row="U9",
        title="the Hessian of the quadratic",
        text="the second derivative acts as X ↦ G·X, G = Σ c·a·aᵀ",
        kind=Kind.EQUALITY,
        assumptions=("frozen-coefficients",),
        scope="every N, two generic entries of one column of B",
        functions=("control.curvature",),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="U9 diagonal: ∂²E/∂B₁² = Σ c·a₁²",
                        lhs=sp.Derivative(energy, (B1, 2)),
                        rhs=S(c * a1**2),
                        scope="every N",
                    ),
                    Statement(
                        name="U9 off the diagonal: ∂²E/∂B₁∂B₂ = Σ c·a₁·a₂",
                        lhs=sp.Derivative(energy, B1, B2),
                        rhs=S(c * a1 * a2),
                        scope="every N",
                    ),
                ),
                coq=(
                    "Control.Gamma_form",
                    "Effective.energy_expansion",
                    "Effective.curvature_form",
                ),
            ),
        ),
    ),
)
