"""The finite response of one readout: renormalised weights and the change they cause (§2.2)."""

from __future__ import annotations

import sympy as sp

from proofs.entry import Clause, Entry, Kind
from proofs.prover.statements import EVERY_N, SCALAR, Elementary, Statement
from proofs.prover.syntax import Index, S
from proofs.prover.vocabulary import (
    EXPONENTIAL,
    FINITE,
    MASS,
    MODEL,
    ONE,
    PARTITION,
    ZERO,
    D,
    E,
    change,
    edited,
    eps,
    p,
    phi,
    t,
    v,
    y,
)
from proofs.topics.phi import divided, t as scalar

raw = Index("e", positive=True)  # e^s, so that p = e/Σ e
centre = sp.Symbol("c", real=True)
factor = sp.Symbol("k", positive=True)  # e^c
weight = sp.Symbol("p_j", positive=True)
ratio, score = sp.symbols("t_j d_j", real=True)

# p·t·φ₁(t) comes from e^t = 1 + t·φ₁(t), which is a lemma and no assumption.
DIVIDED = divided(EXPONENTIAL, t, phi, {E: D * sp.exp(scalar)}, -D)
BALANCE = Statement(
    name="main:normalise balance: Σ (e^t − 1)·p = 0",
    lhs=S(p * (E / D - 1)),
    rhs=ZERO,
    hypotheses=(MASS, PARTITION),
    nonzero=(D,),
    model=MODEL,
    scope=EVERY_N,
)
RESPONSE = Statement(
    name="main:response: y' − y = Σ p·t·φ₁(t)·(v − y) + Σ p'·ε",
    lhs=S(edited * (v + eps)) - y,
    rhs=S(p * t * phi * (v - y)) + S(edited * eps),
    hypotheses=FINITE,
    links=(DIVIDED,),
    nonzero=(D,),
    model=MODEL,
    scope=EVERY_N,
)

ENTRIES = (
    Entry(
        label="main:normalise",
        aliases=("eq:incrementweights",),
        title="renormalised weights",
        text="D = Σ p·e^d, t = d − log D, p' = p·e^t; p' − p = p·t·φ₁(t), Σ p' = 1",
        kind=Kind.EQUALITY,
        assumptions=("attended", "finite-scores", "fixed-query"),
        scope="every N, t = 0 included",
        functions=("response.log_ratio", "response.probability_change"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="main:normalise change: p' − p = p·t·φ₁(t) for every key",
                        lhs=change,
                        rhs=p * t * phi,
                        hypotheses=(EXPONENTIAL,),
                        links=(DIVIDED,),
                        nonzero=(D,),
                        model=MODEL,
                        scope="every key",
                    ),
                    Statement(
                        name="main:normalise mass: Σ p' = 1",
                        lhs=S(p * E / S(p * E)),
                        rhs=ONE,
                        nonzero=(S(p * E),),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                    BALANCE,
                ),
                coq=(
                    "Phi.phi1E",
                    "Response.exp_tilt",
                    "Response.movedE",
                    "Response.moved_distribution",
                    "Response.normalise",
                    "Response.moved_softmax",
                ),
            ),
        ),
    ),
    Entry(
        label="main:response",
        aliases=("eq:finiteincrement", "main:finite"),
        title="exact local response to finite edits",
        text="y' − y = Σ p·t·φ₁(t)·(v − y) + Σ p'·ε for any finite d and ε",
        kind=Kind.EQUALITY,
        assumptions=("attended", "finite-scores", "fixed-query"),
        scope=EVERY_N,
        functions=("response.finite_response", "readout.freeze"),
        clauses=(
            Clause(
                "",
                statements=(RESPONSE,),
                coq=(
                    "Positional.positional_head",
                    "Response.response",
                    "Response.head_response",
                ),
            ),
        ),
    ),
    Entry(
        label="unlabelled:stable-change",
        row="U13",
        title="the two branches of p' − p",
        text="t = log p' − log p; −p'·expm1(−t) = p·expm1(t) = p' − p",
        kind=Kind.EQUALITY,
        assumptions=("positive-weights",),
        scope="every key",
        functions=("response.log_ratio", "response.probability_change"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="U13 ratio: log(p·e^t) − log p = t",
                        lhs=sp.log(weight * sp.exp(ratio)) - sp.log(weight),
                        rhs=ratio,
                        method=Elementary(),
                        scope=SCALAR,
                    ),
                    Statement(
                        name="U13 branches: −p'·(e^{−t} − 1) = p·(e^t − 1)",
                        lhs=-weight * sp.exp(ratio) * (sp.exp(-ratio) - 1),
                        rhs=weight * (sp.exp(ratio) - 1),
                        method=Elementary(),
                        scope=SCALAR,
                    ),
                ),
                coq=(
                    "Response.tilt_logratio",
                    "Response.change_branches",
                ),
            ),
        ),
    ),
    Entry(
        label="needed:any-centre",
        row="X2",
        title="any centre for the values",
        text="Σ (p' − p)·v = Σ (p' − p)·(v − c) for every c",
        kind=Kind.EQUALITY,
        assumptions=("attended", "fixed-query"),
        scope=EVERY_N,
        functions=("response.finite_response", "joint.key_response"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="X2: Σ (p' − p)·v = Σ (p' − p)·(v − c)",
                        lhs=S(change * v),
                        rhs=S(change * (v - centre)),
                        hypotheses=(MASS, PARTITION),
                        nonzero=(D,),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                ),
                coq=("Response.centre",),
            ),
        ),
    ),
    Entry(
        label="needed:common-shift",
        row="X3",
        title="a common score shift changes nothing",
        text="d ↦ d + c leaves t = d − log Σ p·e^d, and so p', unchanged",
        kind=Kind.EQUALITY,
        assumptions=("attended", "fixed-query"),
        scope=EVERY_N,
        functions=("response.log_ratio",),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="X3 weights: e^{d+c}/Σ p·e^{d+c} = e^d/Σ p·e^d for every key",
                        lhs=E * factor / S(p * E * factor),
                        rhs=E / S(p * E),
                        nonzero=(S(p * E), factor),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                    Statement(
                        name="X3 ratios: (d + c) − log(e^c·D) = d − log D",
                        lhs=(score + centre) - sp.log(sp.exp(centre) * D),
                        rhs=score - sp.log(D),
                        method=Elementary(),
                        scope=SCALAR,
                    ),
                ),
                coq=("Response.tilt_shift",),
            ),
        ),
    ),
    Entry(
        label="needed:log1p-form",
        row="X4",
        title="the normaliser from small increments",
        text="t = d − log1p(Σ p·expm1(d)), that is D = 1 + Σ p·(e^d − 1)",
        kind=Kind.EQUALITY,
        assumptions=("attended",),
        scope=EVERY_N,
        functions=("response.log_ratio",),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="X4: Σ p·e^d = 1 + Σ p·(e^d − 1)",
                        lhs=S(raw * E / S(raw)),
                        rhs=1 + S(raw * (E - 1) / S(raw)),
                        nonzero=(S(raw),),
                        scope=EVERY_N,
                    ),
                ),
                coq=("Response.tilt_log1p",),
            ),
        ),
    ),
)
