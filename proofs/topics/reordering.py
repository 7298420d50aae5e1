"""Reordered prompts: position, context and their interaction in four readouts (Appendix G)."""

from __future__ import annotations

from proofs.entry import Clause, Entry, Kind
from proofs.prover.statements import Statement
from proofs.prover.syntax import Index, S
from proofs.prover.vocabulary import ONE

o00, o01, o10, o11 = (Index(name) for name in ("o00", "o01", "o10", "o11"))
Phi, C, J = Index("Phi"), Index("C"), Index("J")
PARTS = ((Phi, o10 - o00), (C, o01 - o00), (J, o11 - o10 - o01 + o00))
total = Phi + C + J
norm = S(total**2)

ENTRIES = (
    Entry(
        label="eq:phasecontent",
        title="phase, context and interaction",
        text="Φ = o¹⁰−o⁰⁰, C = o⁰¹−o⁰⁰, J = o¹¹−o¹⁰−o⁰¹+o⁰⁰; T = o¹¹−o⁰⁰ = Φ + C + J",
        kind=Kind.EQUALITY,
        scope="every coordinate of every readout",
        functions=("reordering.phase_context",),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:phasecontent: o¹¹ − o⁰⁰ = Φ + C + J",
                        lhs=o11 - o00,
                        rhs=Phi + C + J,
                        hypotheses=PARTS,
                        model=PARTS,
                        scope="every coordinate",
                    ),
                ),
                coq=("Reordering.phase_content",),
            ),
        ),
    ),
    Entry(
        label="unlabelled:signed-projections",
        row="U18",
        title="signed projections sum to one",
        text="γ_X = Σ⟨X, T⟩/Σ‖T‖²: γ_Φ + γ_C + γ_J = 1",
        kind=Kind.EQUALITY,
        assumptions=("nonzero-total",),
        scope="every number of readouts and coordinates (the index runs over both)",
        functions=("reordering.signed_projections",),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="U18: γ_Φ + γ_C + γ_J = 1",
                        lhs=S(Phi * total) / norm + S(C * total) / norm + S(J * total) / norm,
                        rhs=ONE,
                        nonzero=(norm,),
                        scope="every number of readouts and coordinates",
                    ),
                ),
                coq=("Reordering.projections_sum",),
            ),
        ),
    ),
)
