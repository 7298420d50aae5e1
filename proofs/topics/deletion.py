"""Deleting a group of keys: exact response, Jacobian control, stable form (§4, Appendix G)."""

from __future__ import annotations

import random
from fractions import Fraction

import sympy as sp

from proofs.entry import Clause, Entry, Kind
from proofs.prover.rational import Environment
from proofs.prover.statements import EVERY_N, SCALAR, Elementary, Statement
from proofs.prover.syntax import Index, S
from proofs.prover.vocabulary import BASELINE, p, proper_subset, v, weights, y

group = Index("1_G", idempotent=True)
mass, value, strength = sp.symbols("alpha w_G eta", real=True)
GROUP = ((S(group * p), mass), (S(group * p * v), value))
MODEL = (
    (p, weights),
    (y, S(p * v)),
    (group, proper_subset),
    (mass, S(group * p)),
    (value, S(group * p * v)),
)


def _proper_part(env: Environment, generator: random.Random) -> list[Fraction]:
    """Neither empty nor everything."""
    size = generator.randint(1, env.size - 1)
    picked = set(generator.sample(range(env.size), size))
    return [Fraction(j in picked) for j in range(env.size)]


rest = S((1 - group) * p * v) / S((1 - group) * p)
inside = value / mass
fading = S(p * (1 - strength * group) * v) / S(p * (1 - strength * group))
group_lse, rest_lse = sp.symbols("lse_G lse_C", real=True)

ENTRIES = (
    Entry(
        label="eq:groupdeletion",
        title="exact response to deletion",
        text="Δy_{−G} = (α·y − w_G)/(1 − α), α = Σ_G p, w_G = Σ_G p·v",
        kind=Kind.EQUALITY,
        assumptions=("attended", "proper-subset", "fixed-query"),
        scope=EVERY_N + "; every proper G",
        functions=("deletion.deletion_response", "sparse.prepare"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:groupdeletion: renormalising over the complement",
                        lhs=S((1 - group) * p * v) / S((1 - group) * p) - y,
                        rhs=(mass * y - value) / (1 - mass),
                        hypotheses=(*BASELINE, *GROUP),
                        nonzero=(S((1 - group) * p), 1 - mass),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                ),
                coq=(
                    "Deletion.group_deletion",
                    "Deletion.masked_softmax",
                ),
            ),
        ),
    ),
    Entry(
        label="unlabelled:deletion-jacobian",
        row="U19",
        title="deletion budget and Jacobian control",
        text="‖Σ_h Δy_{−G,h}·W_h‖ ≤ ε as a budget; the Jacobian control is α·y − w_G",
        kind=Kind.DEFINITION,
        assumptions=("attended", "proper-subset"),
        scope=EVERY_N + "; the control is the derivative of fading G out, and (1 − α) times the "
        "exact response. The budget is a threshold and claims nothing.",
        functions=("deletion.deletion_jacobian", "deletion.select_evictions"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="U19 control: the derivative of the readout as G fades is α·y − w_G",
                        lhs=sp.Subs(sp.Derivative(fading, strength), strength, 0),
                        rhs=mass * y - value,
                        hypotheses=(*BASELINE, *GROUP),
                        nonzero=(S(p),),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                    Statement(
                        name="U19 relation: α·y − w_G = (1 − α)·Δy_{−G}",
                        lhs=mass * y - value,
                        rhs=(1 - mass) * (rest - y),
                        hypotheses=(*BASELINE, *GROUP),
                        nonzero=(S((1 - group) * p),),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                ),
            ),
        ),
    ),
    Entry(
        label="needed:deletion-sigmoid",
        row="X5",
        title="deletion without cancellation",
        text="Δy_{−G} = σ(lse_G − lse_C)·(y_C − y_G)",
        kind=Kind.EQUALITY,
        assumptions=("attended", "proper-subset"),
        scope="every N ≥ 2; G neither empty nor everything",
        functions=("deletion.deletion_response", "sparse.prepare"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="X5: y_C − y = α·(y_C − y_G)",
                        lhs=rest - y,
                        rhs=mass * (rest - inside),
                        hypotheses=(*BASELINE, *GROUP),
                        nonzero=(mass, S((1 - group) * p)),
                        model=(*MODEL, (group, _proper_part)),
                        smallest=2,
                        scope="every N ≥ 2",
                    ),
                    Statement(
                        name="X5 mass: e^{lse_G}/(e^{lse_G} + e^{lse_C}) = σ(lse_G − lse_C)",
                        lhs=sp.exp(group_lse) / (sp.exp(group_lse) + sp.exp(rest_lse)),
                        rhs=1 / (1 + sp.exp(-(group_lse - rest_lse))),
                        method=Elementary(),
                        nonzero=(sp.exp(group_lse) + sp.exp(rest_lse),),
                        scope=SCALAR,
                    ),
                ),
                coq=(
                    "Deletion.deletion_stable",
                    "Deletion.mass_sigmoid",
                ),
            ),
        ),
    ),
)
