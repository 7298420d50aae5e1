"""Restoring single cache entries: exact change, its expansions, and the benefit (App. D, G)."""

from __future__ import annotations

import sympy as sp

from proofs.entry import Entry, Kind
from proofs.prover.statements import EVERY_N, SCALAR, Elementary, Statement
from proofs.prover.syntax import Index, S
from proofs.prover.vocabulary import BASELINE, D, E, d, edited, eps, one_key, p, v, weights, y
from proofs.topics.sparse import positive_exponential

# One key j, by its indicator; f = φ₁(d) and z are the edit there.
at_j = Index("1_j", idempotent=True)
f, z = Index("f"), Index("z")
p_j, v_j, d_j, f_j, e_j = sp.symbols("p_j v_j d_j f_j eps_j", real=True)
mass = sp.Symbol("q", positive=True)
rise = d_j * f_j  # e^{d_j} − 1
SINGLE = (
    *BASELINE,
    (E, 1 + at_j * d * f),
    (eps, at_j * z),
    (S(at_j * p), p_j),
    (S(at_j * p * v), p_j * v_j),
    (S(at_j * p * z), p_j * e_j),
    (S(at_j * p * d * f), p_j * rise),
    (S(at_j * p * d * f * v), p_j * rise * v_j),
    (S(at_j * p * d * f * z), p_j * rise * e_j),
    (D, 1 + p_j * rise),
)
MODEL = (
    (p, weights),
    (y, S(p * v)),
    (at_j, one_key),
    (f, positive_exponential),
    (E, 1 + at_j * d * f),
    (eps, at_j * z),
    (D, S(p * E)),
    (p_j, S(at_j * p)),
    (v_j, S(at_j * v)),
    (d_j, S(at_j * d)),
    (f_j, S(at_j * f)),
    (e_j, S(at_j * z)),
)
new_mass = p_j * (1 + rise) / (1 + p_j * rise)
complement = S((1 - at_j) * p * v) / (1 - p_j)

# The path (α·δ, α·ε) of one restoration, with gap = v_j − y.
alpha, delta, change, gap = sp.symbols("alpha delta eps gap", real=True)
growth = sp.exp(alpha * delta)
path = mass / (1 + mass * (growth - 1)) * ((growth - 1) * gap + growth * alpha * change)
error, step = Index("e"), Index("Delta")
BENEFIT = Statement(
    name="X8: ‖e‖² − ‖e + Δ‖² = −⟨Δ, 2e + Δ⟩",
    lhs=S(error**2) - S((error + step) ** 2),
    rhs=-S(step * (2 * error + step)),
    scope="every number of coordinates",
)

ENTRIES = (
    Entry(
        label="eq:singlerepair",
        title="restoring one entry",
        text="Δ_j y = p_j/(1 + p_j·δφ₁(δ))·[δφ₁(δ)·(v_j − y) + e^δ·ε]",
        kind=Kind.EQUALITY,
        assumptions=("attended", "fixed-query"),
        scope=EVERY_N + "; every key",
        functions=("restoration.restoration_response",),
        statements=(
            Statement(
                name="eq:singlerepair: the finite response for S = T = {j}",
                lhs=S(edited * (v + eps)) - y,
                rhs=p_j / (1 + p_j * rise) * (rise * (v_j - y) + (1 + rise) * e_j),
                hypotheses=SINGLE,
                nonzero=(D, 1 + p_j * rise),
                model=MODEL,
                scope=EVERY_N,
            ),
        ),
    ),
    Entry(
        label="unlabelled:repair-sigmoid",
        row="U16",
        title="restoration by the new mass",
        text="p'_j = σ(logit p_j + δ), Δ_j y = (p'_j − p_j)(v_j − y_{−j}) + p'_j·ε",
        kind=Kind.EQUALITY,
        assumptions=("attended", "fixed-query", "proper-subset"),
        scope="every N ≥ 2, where the complement mean exists",
        functions=("restoration.restoration_response",),
        statements=(
            Statement(
                name="U16 mass: σ(log p − log(1−p) + δ) = p·e^δ/(1 − p + p·e^δ)",
                lhs=1 / (1 + sp.exp(-(sp.log(mass) - sp.log(1 - mass) + delta))),
                rhs=mass * sp.exp(delta) / (1 - mass + mass * sp.exp(delta)),
                method=Elementary(),
                nonzero=(mass, 1 - mass + mass * sp.exp(delta)),
                model=((mass, sp.Rational(2, 7)),),
                scope="every mass in (0, 1)",
            ),
            Statement(
                name="U16 response: (p'_j − p_j)(v_j − y_{−j}) + p'_j·ε",
                lhs=S(edited * (v + eps)) - y,
                rhs=(new_mass - p_j) * (v_j - complement) + new_mass * e_j,
                hypotheses=SINGLE,
                nonzero=(D, 1 + p_j * rise, 1 - p_j),
                model=MODEL,
                smallest=2,
                scope="every N ≥ 2",
            ),
        ),
    ),
    Entry(
        label="unlabelled:repair-expansion",
        row="U21",
        title="first- and second-order controls",
        text="Δ_j y(α) = α·p[δ(v−y) + ε] + α²·pδ[(½ − p)δ(v−y) + (1 − p)ε] + O(α³)",
        kind=Kind.EXPANSION,
        assumptions=("attended", "fixed-query"),
        scope="Taylor coefficients 0, 1, 2 of eq:singlerepair along (α·δ, α·ε); the paper uses "
        "them without writing them out",
        functions=("restoration.restoration_scores",),
        statements=(
            Statement(
                name="U21 start: no change at α = 0",
                lhs=sp.Subs(path, alpha, 0),
                rhs=sp.Integer(0),
                method=Elementary(),
                scope=SCALAR,
            ),
            Statement(
                name="U21 first order: p·[δ(v−y) + ε]",
                lhs=sp.Subs(sp.Derivative(path, alpha), alpha, 0),
                rhs=mass * (delta * gap + change),
                method=Elementary(),
                scope=SCALAR,
            ),
            Statement(
                name="U21 second order: 2·pδ[(½ − p)δ(v−y) + (1 − p)ε]",
                lhs=sp.Subs(sp.Derivative(path, (alpha, 2)), alpha, 0),
                rhs=2
                * mass
                * delta
                * ((sp.Rational(1, 2) - mass) * delta * gap + (1 - mass) * change),
                method=Elementary(),
                scope=SCALAR,
            ),
        ),
    ),
    Entry(
        label="eq:repairbenefit",
        title="benefit of a restoration",
        text="B = ‖e‖² − ‖e + Δ‖², restore the arg max",
        kind=Kind.DEFINITION,
        scope="every number of coordinates; an exact restoration has the whole ‖e‖² as benefit",
        functions=("restoration.restoration_benefit", "restoration.restore_greedily"),
        statements=(
            Statement(
                name="eq:repairbenefit full: Δ = −e gives B = ‖e‖²",
                lhs=S(error**2) - S((error + step) ** 2),
                rhs=S(error**2),
                hypotheses=((step, -error),),
                model=((step, -error),),
                scope="every number of coordinates",
            ),
        ),
    ),
    Entry(
        label="needed:stable-benefit",
        row="X8",
        title="benefit without cancellation",
        text="B = −⟨Δ, 2e + Δ⟩",
        kind=Kind.EQUALITY,
        scope="every number of coordinates",
        functions=("restoration.restoration_benefit",),
        statements=(BENEFIT,),
    ),
)
