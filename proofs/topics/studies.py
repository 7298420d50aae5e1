"""Definitions that belong to the experiments, and the figures the paper prints."""

from __future__ import annotations

import sympy as sp

from proofs.entry import Clause, Entry, Kind
from proofs.prover.statements import MATRICES, Matrices, Nonnegative, Statement
from proofs.prover.syntax import Index, Letter, S
from proofs.prover.vocabulary import ONE

joint, separate = Index("e_joint"), Index("e_separate")
N = sp.Symbol("N", positive=True)
m0, m_k, m_v, m_kv = sp.symbols("m0 mK mV mKV", real=True)
effect_k, effect_v, effect_kv = sp.symbols("Dm_K Dm_V Dm_KV", real=True)
EFFECTS = ((effect_kv, m_kv - m0), (effect_k, m_k - m0), (effect_v, m_v - m0))

# The four readouts of each head, and its output projection.
F11, F10, F01, F00 = (Letter(f"F{i}", "1", "r", indexed=True) for i in ("11", "10", "01", "00"))
W = Letter("W_o", "r", "m", indexed=True)
relative = Index("kappa", positive=True)
fixed, original, corrupt = Index("o_fixed"), Index("o"), Index("o_corrupt")
shift, frequency = sp.symbols("delta omega", positive=True)

ENTRIES = (
    Entry(
        label="eq:jointprimary",
        title="the paired contrast",
        text="Δ_MAE = mean over prompts of the mean over spans of e_joint − e_separate",
        kind=Kind.DEFINITION,
        scope="every number of rows; with equally many spans in each prompt the mean of means is "
        "one mean, so the contrast is the difference of the two MAEs",
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:jointprimary: the mean difference is the difference of means",
                        lhs=S(joint - separate) / N,
                        rhs=S(joint) / N - S(separate) / N,
                        nonzero=(N,),
                        model=((N, S(ONE)),),
                        scope="every number of rows",
                    ),
                ),
            ),
        ),
    ),
    Entry(
        label="eq:jointdownstreamfactorial",
        title="executed interaction",
        text="I_m = (m_KV − m₀) − (m_K − m₀) − (m_V − m₀) = m_KV − m_K − m_V + m₀; Î = G(C_KV)",
        kind=Kind.EQUALITY,
        scope="all real margins",
        functions=("joint.interaction", "margin.contract"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:jointdownstreamfactorial: the four-cell form",
                        lhs=effect_kv - effect_k - effect_v,
                        rhs=m_kv - m_k - m_v + m0,
                        hypotheses=EFFECTS,
                        model=EFFECTS,
                        scope="all real margins",
                    ),
                ),
                coq=("Joint.downstream_factorial",),
            ),
        ),
    ),
    Entry(
        label="eq:projectedinteraction",
        title="projected band interaction",
        text="H = Σ_h H_h·W_h, T = Σ_h [F_h(s+d^b+d^c) − F_h(s)]·W_h",
        kind=Kind.DEFINITION,
        assumptions=("disjoint-bands",),
        scope=f"every number of heads; {MATRICES}; the joint effect is the interaction plus the "
        "two single-band effects",
        functions=("bands.band_interaction", "margin.project"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:projectedinteraction: T = H + the two single-band writes",
                        lhs=S((F11 - F00) * W),
                        rhs=S((F11 - F10 - F01 + F00) * W)
                        + S((F10 - F00) * W)
                        + S((F01 - F00) * W),
                        method=Matrices(),
                        scope=f"every number of heads; {MATRICES}",
                    ),
                ),
                coq=("Joint.head_scores",),
            ),
        ),
    ),
    Entry(
        label="eq:interactionmetric",
        title="mean relative interaction",
        text="κ̄ = mean over prompts and variants of ‖H‖/‖T‖",
        kind=Kind.DEFINITION,
        assumptions=("nonzero-total",),
        scope="every number of rows: a mean of non-negative ratios is non-negative",
        functions=("bands.band_interaction",),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:interactionmetric: 0 ≤ κ̄",
                        lhs=sp.Integer(0),
                        rhs=S(relative) / N,
                        relation="≤",
                        method=Nonnegative(((1 / N, (relative,)),)),
                        nonzero=(N,),
                        model=((N, S(ONE)),),
                        scope="every number of rows",
                    ),
                ),
            ),
        ),
    ),
    Entry(
        label="eq:repairmetric",
        title="relative repair error",
        text="r = ‖ô − o‖/‖o_corrupt − o‖, which is 1 before repair and 0 after full repair",
        kind=Kind.DEFINITION,
        assumptions=("nonzero-total",),
        scope="every number of coordinates, for r²",
        functions=("restoration.restore_greedily",),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:repairmetric before: r² = 1 when nothing is repaired",
                        lhs=S((fixed - original) ** 2) / S((corrupt - original) ** 2),
                        rhs=ONE,
                        hypotheses=((fixed, corrupt),),
                        nonzero=(S((corrupt - original) ** 2),),
                        model=((fixed, corrupt),),
                        scope="every number of coordinates",
                    ),
                    Statement(
                        name="eq:repairmetric after: r² = 0 when everything is repaired",
                        lhs=S((fixed - original) ** 2) / S((corrupt - original) ** 2),
                        rhs=sp.Integer(0),
                        hypotheses=((fixed, original),),
                        nonzero=(S((corrupt - original) ** 2),),
                        model=((fixed, original),),
                        scope="every number of coordinates",
                    ),
                ),
                coq=("Reordering.repair_metric",),
            ),
        ),
    ),
    Entry(
        label="unlabelled:angle-table",
        row="U24",
        title="the angle table",
        text="θ = δ·ω_k with ω_k = base^{−2k/d}, base 10⁶ and d = 128, planes 0, 22 and 43",
        kind=Kind.ARITHMETIC,
        scope="the printed angles are enclosed by proofs.printed.arithmetic",
        functions=("rotary.frequency_bands", "rotary.Rotary"),
        clauses=(Clause("", computed="proofs.printed.arithmetic"),),
    ),
    Entry(
        label="unlabelled:printed-figures",
        row="U25",
        title="derived figures",
        text="every percentage, difference, ratio and count that follows from printed figures",
        kind=Kind.ARITHMETIC,
        scope="audited from the printed inputs by proofs.printed.arithmetic; nothing symbolic to prove",
        clauses=(Clause("", computed="proofs.printed.arithmetic"),),
    ),
)
