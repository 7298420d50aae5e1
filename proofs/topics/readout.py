"""The readout of one head: projections, the attended bank, and the query's own key (App. B, E)."""

from __future__ import annotations

import sympy as sp

from proofs.entry import Clause, Entry, Kind
from proofs.prover.statements import EVERY_N, MATRICES, Matrices, Statement
from proofs.prover.syntax import Index, Letter, S
from proofs.prover.vocabulary import ONE, v

e = Index("e", positive=True)  # e^s
Z, N, own = sp.symbols("Z N E_s", positive=True)
self_value = sp.Symbol("v_s", real=True)
mu = sp.Symbol("mu", real=True)
prefix = S(e * v) / Z
mass = own / (Z + own)

x_row, W, bias = Letter("x^T", "1", "m"), Letter("W_q", "m", "d"), Letter("b_q", "1", "d")
h_row = Letter("h^T", "1", "m")

ENTRIES = (
    Entry(
        label="eq:projections",
        title="affine projections",
        text="q = xᵀW_q + b_q, and likewise k and v",
        kind=Kind.DEFINITION,
        scope=MATRICES + "; that the map is affine",
        functions=("effective.affine_features",),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:projections: (x + h)ᵀW + b − (xᵀW + b) = hᵀW",
                        lhs=(x_row + h_row) * W + bias - (x_row * W + bias),
                        rhs=h_row * W,
                        method=Matrices(),
                        scope=MATRICES,
                    ),
                ),
            ),
        ),
    ),
    Entry(
        label="eq:attention",
        title="the softmax readout",
        text="Z = Σ e^s, μ = Σ v/N, y = Σ e^s·v/Z",
        kind=Kind.DEFINITION,
        assumptions=("attended", "finite-scores"),
        scope=EVERY_N + "; the weights sum to one and centred values sum to zero",
        functions=("readout.Readout", "readout.freeze"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:attention mass: Σ e^s/Z = 1",
                        lhs=S(e / S(e)),
                        rhs=ONE,
                        nonzero=(S(e),),
                        scope=EVERY_N,
                    ),
                    Statement(
                        name="eq:attention mean: Σ (v − μ) = 0",
                        lhs=S(v - mu),
                        rhs=sp.Integer(0),
                        hypotheses=((S(v), N * mu), (S(ONE), N)),
                        model=((N, S(ONE)), (mu, S(v) / S(ONE))),
                        scope=EVERY_N,
                    ),
                ),
                coq=("Prelude.softmax_distribution",),
            ),
        ),
    ),
    Entry(
        label="unlabelled:self-mass",
        row="U17",
        title="adding the query's own key",
        text="y_full = (1 − π)·y_prefix + π·v_self, π the mass of the own key",
        kind=Kind.EQUALITY,
        assumptions=("attended", "finite-scores"),
        scope=EVERY_N,
        functions=("readout.Readout", "readout.freeze"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="U17: (Σ e^s·v + E_s·v_s)/(Z + E_s) = (1 − π)·y_prefix + π·v_s",
                        lhs=(S(e * v) + own * self_value) / (Z + own),
                        rhs=(1 - mass) * prefix + mass * self_value,
                        nonzero=(Z, Z + own),
                        model=((Z, S(e)),),
                        scope=EVERY_N,
                    ),
                ),
                coq=(
                    "Deletion.split_readout",
                    "Deletion.prefix_self",
                ),
            ),
        ),
    ),
)
