"""Restoring single cache entries: exact change, its expansions, and the benefit (App. D, G)."""

from __future__ import annotations

from fractions import Fraction

import sympy as sp

from proofs.entry import Clause, Entry, Kind
from proofs.prover.statements import EVERY_N, SCALAR, Elementary, Statement
from proofs.prover.syntax import Hypothesis, Index, S
from proofs.prover.vocabulary import (
    BASELINE,
    ONE,
    PARTITION,
    D,
    E,
    edited,
    eps,
    one_key,
    p,
    v,
    weights,
    y,
)
from proofs.topics.phi import divided, t as scalar

# One key j, by its indicator.
at_j = Index("1_j", idempotent=True)
p_other, v_other = Index("p_other"), Index("v_other")  # p and v at the other keys
p_j, v_j, d_j, f_j, e_j = sp.symbols("p_j v_j d_j f_j eps_j", real=True)
mass = sp.Symbol("q", positive=True)
rise = d_j * f_j  # e^{d_j} − 1
# e^d is e^{d_j} = 1 + d_j·φ₁(d_j) at the key and 1 elsewhere.
ON_J: Hypothesis = (E, 1 + at_j * rise)
DIVIDED_ON_J = divided(ON_J, d_j, f_j, {E: 1 + at_j * (sp.exp(scalar) - 1)}, -at_j)
SINGLE = (
    *BASELINE,
    PARTITION,
    ON_J,
    (eps, at_j * e_j),
    (p, at_j * p_j + (1 - at_j) * p_other),
    (v, at_j * v_j + (1 - at_j) * v_other),
    (S(at_j), ONE),
)
MODEL = (
    (p, weights),
    (y, S(p * v)),
    (at_j, one_key),
    (f_j, lambda env, generator: Fraction(generator.randint(1, 9), 10) / abs(env[d_j])),
    (E, 1 + at_j * rise),
    (eps, at_j * e_j),
    (D, S(p * E)),
    (p_j, S(at_j * p)),
    (v_j, S(at_j * v)),
    (p_other, p),
    (v_other, v),
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
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:singlerepair: the finite response for S = T = {j}",
                        lhs=S(edited * (v + eps)) - y,
                        rhs=p_j / (1 + p_j * rise) * (rise * (v_j - y) + (1 + rise) * e_j),
                        hypotheses=SINGLE,
                        links=(DIVIDED_ON_J,),
                        nonzero=(D, 1 + p_j * rise),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                ),
                coq=("Sparse.single_repair",),
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
        clauses=(
            Clause(
                "",
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
                        links=(DIVIDED_ON_J,),
                        nonzero=(D, 1 + p_j * rise, 1 - p_j),
                        model=MODEL,
                        smallest=2,
                        scope="every N ≥ 2",
                    ),
                ),
                coq=(
                    "Sparse.sigmoid_mass",
                    "Sparse.complement_repair",
                ),
            ),
        ),
    ),
    Entry(
        label="unlabelled:repair-expansion",
        row="U21",
        title="first- and second-order controls",
        text="Δ_j y(α) has the Taylor polynomial α·p[δ(v−y) + ε] + α²·pδ[(½ − p)δ(v−y) + (1 − p)ε]",
        kind=Kind.EXPANSION,
        assumptions=("attended", "fixed-query"),
        scope="Taylor coefficients 0, 1, 2 of eq:singlerepair along (α·δ, α·ε); the paper uses "
        "them without writing them out",
        functions=("restoration.restoration_scores",),
        clauses=(
            Clause(
                "",
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
                coq=(
                    "Expansions.repair_first_order",
                    "Expansions.repair_second_order",
                ),
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
        clauses=(
            Clause(
                "",
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
                coq=(
                    "Restoration.repair_benefit",
                    "Restoration.full_repair",
                ),
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
        clauses=(Clause("", statements=(BENEFIT,), coq=("Restoration.repair_benefit",)),),
    ),
)
