"""Key shifts of a rotary band: score increments, their tangent and two remainders (§2.2–2.3).

The index is the rotary plane: q and k have two coordinates there, c and s are the cosine and sine
of the plane's angle, and 1_b selects the planes of the band.
"""

from __future__ import annotations

import sympy as sp

from proofs.entry import Clause, Entry, Kind
from proofs.prover.links import Link
from proofs.prover.statements import EVERY_D, EVERY_N, Elementary, Statement
from proofs.prover.syntax import Hypothesis, Index, S
from proofs.prover.vocabulary import (
    EDITED,
    EXPONENTIAL,
    MODEL,
    ONE,
    SHIFT,
    ZERO,
    D,
    d,
    edited,
    p,
    phi,
    t,
    v,
    y,
)
from proofs.topics.joint import key
from proofs.topics.response import DIVIDED
from proofs.topics.rotary import EVEN, EVEN_PART, ODD, ODD_PART, theta

q1, q2, k1, k2, c, s, angle = (Index(n) for n in ("q1", "q2", "k1", "k2", "c", "s", "theta"))
in_band = Index("1_b", idempotent=True)
tau = sp.Symbol("tau", positive=True)
d_lin = Index("d_lin")
shift, omega, a, b, way = sp.symbols("delta omega a b x", real=True)


def rotated(band: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """k' = e^{δA_b}·k on each plane: rotated where the band is, unchanged elsewhere."""
    return (
        k1 + band * ((c - 1) * k1 - s * k2),
        k2 + band * (s * k1 + (c - 1) * k2),
    )


def score(first: sp.Expr, second: sp.Expr) -> sp.Expr:
    """q·kᵀ/τ summed over planes."""
    return S(q1 * first + q2 * second) / tau


def displacement(band: sp.Expr) -> sp.Expr:
    """The score increment of a band, from its definition s' − s."""
    return score(*rotated(band)) - score(k1, k2)


# φ₁(θJ) = S₁·I + C₁·J with S₁ = ∫ cos(uθ) du and C₁ = ∫ sin(uθ) du, also at θ = 0.
even, odd = Index("S1"), Index("C1")
TURN: tuple[Hypothesis, ...] = ((s, angle * even), (c, 1 - angle * odd))
TURN_LINKS = (
    Link(
        EVEN,
        hypothesis=TURN[0],
        meaning={s: sp.sin(theta), angle: theta, even: EVEN_PART},
        factor=-ONE,
    ),
    Link(ODD, hypothesis=TURN[1], meaning={c: sp.cos(theta), angle: theta, odd: ODD_PART}),
)


def divided_turn(first: sp.Expr, second: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """φ₁(θJ) applied to a vector of the plane."""
    return even * first - odd * second, odd * first + even * second


def generated(first: sp.Expr, second: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """δA_b = θJ on the band and 0 elsewhere, applied to a vector of the plane."""
    return -in_band * angle * second, in_band * angle * first


# One plane as a function of the shift: a = q·k and b = q×k.
plane = (sp.cos(shift * omega) - 1) * a + sp.sin(shift * omega) * b
tangent = shift * omega * b

ENTRIES = (
    Entry(
        label="main:score",
        aliases=("eq:phasescore",),
        title="score increment of a shifted key",
        text="d = q̃·δA_b·φ₁(δA_b)·k̃ᵀ/τ",
        kind=Kind.EQUALITY,
        assumptions=("fixed-content", "even-width", "fixed-query"),
        scope=EVERY_D + "; δA·φ₁(δA) = (cos θ − 1)·I + sin θ·J by main:central",
        functions=("positional.key_shift_scores",),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="main:score: s' − s = Σ_b q·[θJ·φ₁(θJ)]·kᵀ/τ, φ₁(θJ) = S₁·I + C₁·J",
                        lhs=displacement(in_band),
                        rhs=score(*generated(*divided_turn(k1, k2))),
                        hypotheses=TURN,
                        links=TURN_LINKS,
                        nonzero=(tau,),
                        model=TURN,
                        scope=EVERY_D,
                    ),
                ),
                coq=(
                    "Positional.phase_score",
                    "Positional.phase_score_planes",
                ),
            ),
        ),
    ),
    Entry(
        label="eq:phasejacobian",
        title="positional Jacobian",
        text="Δy_Jac = Σ p·d_lin·(v − y), d_lin = q̃·δA_b·k̃ᵀ/τ, the tangent of d at δ = 0",
        kind=Kind.DEFINITION,
        assumptions=("fixed-content", "key-only"),
        scope=EVERY_D + "; the tangent on a generic plane",
        functions=("positional.positional_jacobian", "positional.key_shift_scores_linear"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:phasejacobian generator: q·(θJ)·kᵀ = θ(q₂k₁ − q₁k₂), over the band",
                        lhs=score(*generated(k1, k2)),
                        rhs=S(in_band * angle * (q2 * k1 - q1 * k2)) / tau,
                        nonzero=(tau,),
                        scope=EVERY_D,
                    ),
                    Statement(
                        name="eq:phasejacobian tangent: d_lin is δ times the derivative of d at 0",
                        lhs=shift * sp.Subs(sp.Derivative(plane.subs(shift, way), way), way, 0),
                        rhs=tangent,
                        method=Elementary(),
                        scope="one generic plane",
                    ),
                    Statement(
                        name="eq:phasejacobian start: d vanishes at δ = 0",
                        lhs=sp.Subs(plane, shift, 0),
                        rhs=ZERO,
                        method=Elementary(),
                        scope="one generic plane",
                    ),
                ),
                coq=("Positional.phase_jacobian",),
            ),
        ),
    ),
    Entry(
        label="main:tworemainders",
        title="the two errors of the positional Jacobian",
        text="Δy − Δy_Jac = Σ p·t·(φ₁(t) − 1)(v − y) + Σ p·(d − d_lin)(v − y)",
        kind=Kind.EQUALITY,
        assumptions=("attended", "fixed-query", "key-only"),
        scope=EVERY_N + "; key-only edits, which the paper leaves to the context",
        functions=(
            "joint.softmax_remainder",
            "positional.rotary_remainder",
            "positional.positional_jacobian",
        ),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="main:tworemainders: Δy − Δy_Jac is the sum of the two remainders",
                        lhs=S(edited * v) - y - S(p * d_lin * (v - y)),
                        rhs=S(p * t * (phi - 1) * (v - y)) + S(p * (d - d_lin) * (v - y)),
                        hypotheses=(*EDITED, EXPONENTIAL, SHIFT),
                        links=(DIVIDED,),
                        nonzero=(D,),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                    Statement(
                        name="main:tworemainders key: the key-only response is K_f",
                        lhs=S(edited * v) - y,
                        rhs=key,
                        hypotheses=EDITED,
                        nonzero=(D,),
                        model=MODEL,
                        scope=EVERY_N,
                    ),
                ),
                coq=("Joint.two_remainders",),
            ),
        ),
    ),
    Entry(
        label="unlabelled:small-displacement",
        row="U3",
        title="both remainders vanish to second order",
        text="d − d_lin = −δ²ω²·(q·k)/2 + O(δ³) on a plane; w = p·t²/2 + O(t³)",
        kind=Kind.EXPANSION,
        assumptions=("fixed-content",),
        scope="Taylor coefficients 0, 1, 2 on one generic plane; the weights under eq:rho",
        functions=("positional.rotary_remainder", "joint.softmax_remainder"),
        clauses=(
            Clause(
                "d − d_lin has the Taylor coefficients 0 and −ω²·(q·k)/2 at the orders 1 and 2 on a plane",
                statements=(
                    Statement(
                        name="U3 first order: the derivative of d − d_lin at 0 vanishes",
                        lhs=sp.Subs(sp.Derivative(plane - tangent, shift), shift, 0),
                        rhs=ZERO,
                        method=Elementary(),
                        scope="one generic plane",
                    ),
                    Statement(
                        name="U3 second order: the second derivative at 0 is −ω²·(q·k)",
                        lhs=sp.Subs(sp.Derivative(plane - tangent, (shift, 2)), shift, 0),
                        rhs=-(omega**2) * a,
                        method=Elementary(),
                        scope="one generic plane",
                    ),
                ),
            ),
            Clause(
                "d − d_lin is of second order in the angles",
                coq=("Analysis.rotary_second", "Positional.rotary_remainder"),
            ),
            Clause("w = p·t²/2 + O(t³)", coq=("Analysis.exp_third", "Expansions.weight_expansion")),
        ),
    ),
)
