"""Rotary positions: the generator, its exponential and the finite displacement (§2.1, Appendix A).

A rotary plane is the algebra of a + b·J with J² = −1, J the quarter turn; the model puts the
2×2 matrix in its place. A head is a block diagonal of planes, so every d follows by blocks.
"""

from __future__ import annotations

import sympy as sp

from proofs.entry import Clause, Entry, Kind
from proofs.prover.links import Link
from proofs.prover.statements import (
    PLANE,
    Antiderivative,
    Elementary,
    Nonnegative,
    Series,
    Statement,
    Sums,
)
from proofs.prover.syntax import Hypothesis
from proofs.prover.vocabulary import HALF, ONE, ZERO, nilpotent, plane_generator
from proofs.topics.phi import SERIES, B, exp_series, n, series

J = sp.Symbol("J")
QUARTER_TURN: Hypothesis = (J**2, -ONE)
omega, shift, position, theta, half, u = sp.symbols("omega delta p theta h u", real=True)
start, stop = sp.symbols("p_i p_j", real=True)
power = sp.Symbol("A_n")  # Aⁿ, any constant of the plane
sine, versine = sp.symbols("S1 C1", real=True)  # sin θ/θ and (1 − cos θ)/θ, also at θ = 0
c, s, x1, x2 = sp.symbols("c s x1 x2", real=True)
CIRCLE: Hypothesis = (s**2, 1 - c**2)
PLANE_MODEL = ((J, plane_generator),)


def turn(angle: sp.Expr) -> sp.Expr:
    """R(θ) = cos θ + sin θ·J."""
    return sp.cos(angle) + sp.sin(angle) * J


# A rational point of the unit circle, from a rational half-angle tangent.
CIRCLE_MODEL = ((c, (1 - half**2) / (1 + half**2)), (s, 2 * half / (1 + half**2)))
# The coefficients of I and of J in φ₁(θJ).
EVEN_PART = sp.Integral(sp.cos(u * theta), (u, 0, 1))
ODD_PART = sp.Integral(sp.sin(u * theta), (u, 0, 1))
EVEN = Statement(
    name="main:integrate even part: θ·∫₀¹ cos(uθ) du = sin θ",
    lhs=theta * EVEN_PART,
    rhs=sp.sin(theta),
    method=Antiderivative(sp.sin(u * theta)),
    scope="every real θ; the coefficient of I in φ₁(θJ)",
)
ODD = Statement(
    name="main:integrate odd part: θ·∫₀¹ sin(uθ) du = 1 − cos θ",
    lhs=theta * ODD_PART,
    rhs=1 - sp.cos(theta),
    method=Antiderivative(-sp.cos(u * theta)),
    scope="every real θ; the coefficient of J in φ₁(θJ)",
)
TURN: tuple[Hypothesis, ...] = ((s, theta * sine), (c, 1 - theta * versine))
DISPLACEMENT = Statement(
    name="main:central on a plane: θJ·φ₁(θJ) = R(θ) − I, zero frequency included",
    lhs=theta * J * (sine + versine * J),
    rhs=c + s * J - 1,
    method=Elementary(),
    hypotheses=(QUARTER_TURN, *TURN),
    links=(
        Link(EVEN, hypothesis=TURN[0], meaning={s: sp.sin(theta), sine: EVEN_PART}, factor=-ONE),
        Link(ODD, hypothesis=TURN[1], meaning={c: sp.cos(theta), versine: ODD_PART}),
    ),
    model=(*PLANE_MODEL, *TURN),
    scope=PLANE + "; no division by θ",
)
GENERATOR = Statement(
    name="main:rotation generator: ∂_p R(p) = A·R(p)",
    lhs=sp.Derivative(turn(omega * position), position),
    rhs=omega * J * turn(omega * position),
    method=Elementary(),
    hypotheses=(QUARTER_TURN,),
    model=PLANE_MODEL,
    scope=PLANE,
)
RELATIVE = Statement(
    name="eq:rotation: R(p_i)ᵀ·R(p_j) = R(p_j − p_i)",
    lhs=(sp.cos(omega * start) - sp.sin(omega * start) * J) * turn(omega * stop),
    rhs=turn(omega * (stop - start)),
    method=Elementary(),
    hypotheses=(QUARTER_TURN,),
    model=PLANE_MODEL,
    scope=PLANE,
)
START = Statement(
    name="main:rotation start: R(0) = I",
    lhs=sp.Subs(turn(omega * position), position, 0),
    rhs=ONE,
    method=Elementary(),
    scope=PLANE,
)

ENTRIES = (
    Entry(
        label="main:central",
        aliases=("eq:matrixrho",),
        title="finite rotary displacement",
        text="∂z = Az ⇒ z(p+δ) − z(p) = δA·φ₁(δA)·z(p); e^{δA} − I = δA·φ₁(δA)",
        kind=Kind.EQUALITY,
        assumptions=("fixed-content", "even-width"),
        scope="any square matrix as a power series, and each plane in closed form; every d by "
        "blocks; zero frequencies included",
        functions=("rotary.displacement", "rotary.phi1_rotary", "rotary.Rotary", "rotary.rotate"),
        clauses=(
            Clause(
                "",
                statements=(
                    SERIES,
                    DISPLACEMENT,
                    Statement(
                        name="main:central shift: R(p+δ) − R(p) = (R(δ) − I)·R(p)",
                        lhs=turn(omega * (position + shift)) - turn(omega * position),
                        rhs=(turn(omega * shift) - 1) * turn(omega * position),
                        method=Elementary(),
                        hypotheses=(QUARTER_TURN,),
                        model=PLANE_MODEL,
                        scope=PLANE,
                    ),
                ),
                coq=(
                    "Planes.central",
                    "Planes.rotation_derivative",
                    "Rotary.rotary_block",
                    "Rotary.generator",
                    "Planes.matrix_rho",
                    "Planes.power_series",
                    "Series.phi_series",
                ),
            ),
        ),
    ),
    Entry(
        label="main:rotation",
        title="rotary features",
        text="R(p) = e^{pA}, A = diag(ω_r·J): the solution of R' = AR with R(0) = I",
        kind=Kind.DEFINITION,
        assumptions=("fixed-content", "even-width"),
        scope="each plane; every d by blocks. That a linear initial-value problem has one solution "
        "is standard and not proved here.",
        functions=("rotary.Rotary", "rotary.rotate", "rotary.generator", "rotary.frequency_bands"),
        clauses=(
            Clause(
                "R' = AR and R(0) = I on each plane",
                statements=(
                    GENERATOR,
                    START,
                ),
                coq=("Planes.rotation_zero",),
            ),
            Clause(
                "R(p) = e^{pA} is the only solution, and the sum of the exponential series",
                coq=(
                    "Rotary.flow_unique",
                    "Series.exponential_series",
                ),
            ),
        ),
    ),
    Entry(
        label="main:integrate",
        title="integrating the generator",
        text="z(p+δ) − z(p) = δ∫₀¹ A·e^{tδA}·z(p) dt, φ₁(B) = Σ Bⁿ/(n+1)!",
        kind=Kind.EQUALITY,
        assumptions=("fixed-content",),
        scope="each plane with its antiderivative, the series at any square matrix",
        functions=("rotary.displacement", "rotary.phi1_rotary"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="main:integrate on a plane: θJ·∫₀¹ R(uθ) du = R(θ) − I",
                        lhs=theta * J * sp.Integral(turn(u * theta), (u, 0, 1)),
                        rhs=turn(theta) - 1,
                        method=Antiderivative(turn(u * theta)),
                        hypotheses=(QUARTER_TURN,),
                        model=PLANE_MODEL,
                        scope=PLANE + "; no division by θ",
                    ),
                    EVEN,
                    ODD,
                    SERIES,
                ),
                coq=(
                    "Planes.central",
                    "Planes.phi_integral",
                    "Rotary.integrate",
                    "Rotary.phi_integral",
                    "Series.phi_series",
                ),
            ),
        ),
    ),
    Entry(
        label="eq:derivatives",
        title="derivatives of every order",
        text="∂_pⁿ z(p) = Aⁿ·z(p) for every n ≥ 1",
        kind=Kind.EQUALITY,
        assumptions=("fixed-content",),
        scope="by induction on n, from the step for any constant Aⁿ of the plane; the first "
        "derivative also for any square A as a power series",
        functions=("rotary.tangent", "rotary.generator"),
        clauses=(
            Clause(
                "∂(Aⁿ·R(p)) = A·Aⁿ·R(p) on a plane, the step of the induction",
                statements=(
                    Statement(
                        name="eq:derivatives step: ∂(Aⁿ·R(p)) = A·Aⁿ·R(p)",
                        lhs=sp.Derivative(power * turn(omega * position), position),
                        rhs=omega * J * power * turn(omega * position),
                        method=Elementary(),
                        hypotheses=(QUARTER_TURN,),
                        model=PLANE_MODEL,
                        scope=PLANE + "; every n",
                    ),
                ),
                coq=("Planes.rotation_derivative",),
            ),
            Clause(
                "p·∂_p e^{pA} = pA·e^{pA} as a power series of any square A, term by term",
                statements=(
                    Statement(
                        name="eq:derivatives series: the derivative of Σ Bⁿ/n! is B·Σ Bⁿ/n!, term by term",
                        lhs=series(n * B**n / sp.factorial(n), first=1),
                        rhs=B * exp_series,
                        method=Series(B),
                        model=((B, nilpotent),),
                        scope="p·∂_p of e^{pA} with B = pA, every square A, every order",
                    ),
                ),
            ),
            Clause(
                "∂_pⁿ z(p) = Aⁿ·z(p) for every n",
                coq=(
                    "Planes.rotation_derivatives",
                    "Rotary.derivatives",
                ),
            ),
        ),
    ),
    Entry(
        label="eq:rotation",
        title="relative rotation",
        text="R(p_i)ᵀ·R(p_j) = R(p_j − p_i)",
        kind=Kind.EQUALITY,
        assumptions=("fixed-content", "even-width"),
        scope="each plane, where Jᵀ = −J; every d by blocks",
        functions=("rotary.rotate", "rotary.Rotary"),
        clauses=(
            Clause(
                "",
                statements=(RELATIVE,),
                coq=(
                    "Planes.rotation_group",
                    "Planes.rotation_transpose",
                    "Planes.rotation_relative",
                    "Rotary.group_law",
                    "Rotary.relative_position",
                ),
            ),
        ),
    ),
    Entry(
        label="unlabelled:chord-norm",
        row="U1",
        title="chord and tangent norms",
        text="‖z(p+δ) − z(p)‖ = 2|sin(θ/2)|·‖z‖ ≤ 2‖z‖ on each plane; the tangent has norm |θ|·‖z‖",
        kind=Kind.BOUND,
        assumptions=("fixed-content",),
        scope="each plane, squared norms",
        functions=("rotary.chord_norm", "rotary.tangent_norm"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="U1 chord: ‖(R(θ) − I)x‖² = 4 sin²(θ/2)·‖x‖²",
                        lhs=((sp.cos(2 * half) - 1) * x1 - sp.sin(2 * half) * x2) ** 2
                        + (sp.sin(2 * half) * x1 + (sp.cos(2 * half) - 1) * x2) ** 2,
                        rhs=4 * sp.sin(half) ** 2 * (x1**2 + x2**2),
                        method=Elementary(),
                        scope=PLANE + "; h = θ/2",
                    ),
                    Statement(
                        name="U1 tangent: ‖θJx‖² = θ²·‖x‖²",
                        lhs=(-theta * x2) ** 2 + (theta * x1) ** 2,
                        rhs=theta**2 * (x1**2 + x2**2),
                        method=Sums(),
                        scope=PLANE,
                    ),
                    Statement(
                        name="U1 bound: ‖(R(θ) − I)x‖² ≤ 4‖x‖²",
                        lhs=((c - 1) * x1 - s * x2) ** 2 + (s * x1 + (c - 1) * x2) ** 2,
                        rhs=4 * (x1**2 + x2**2),
                        relation="≤",
                        method=Nonnegative(
                            (
                                (ONE, ((c + 1) ** 2, x1**2)),
                                (ONE, ((c + 1) ** 2, x2**2)),
                                (ONE, (s**2, x1**2)),
                                (ONE, (s**2, x2**2)),
                            )
                        ),
                        hypotheses=(CIRCLE,),
                        model=CIRCLE_MODEL,
                        scope=PLANE + "; the gap is ‖(R(θ) + I)x‖²",
                    ),
                ),
                coq=(
                    "Planes.chord_planes",
                    "Rotary.chord",
                ),
            ),
        ),
    ),
    Entry(
        label="unlabelled:two-key-readout",
        row="U22",
        title="the two-key illustration",
        text="scores (sin θ, 0), values (1, 0): Δy = σ(sin θ) − ½, its tangent is θ/4",
        kind=Kind.EXPANSION,
        scope="the value and the first derivative at θ = 0",
        functions=("response.finite_response", "joint.linear_response"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="U22 response: σ(sin θ) − ½ from the two-key softmax",
                        lhs=sp.exp(sp.sin(theta)) / (sp.exp(sp.sin(theta)) + 1) - HALF,
                        rhs=1 / (1 + sp.exp(-sp.sin(theta))) - HALF,
                        method=Elementary(),
                        nonzero=(sp.exp(sp.sin(theta)) + 1,),
                        scope="every real θ",
                    ),
                    Statement(
                        name="U22 tangent: the derivative of σ(sin θ) − ½ at 0 is ¼",
                        lhs=sp.Subs(
                            sp.Derivative(1 / (1 + sp.exp(-sp.sin(theta))), theta), theta, 0
                        ),
                        rhs=HALF**2,
                        method=Elementary(),
                        scope="the point θ = 0",
                    ),
                    Statement(
                        name="U22 start: σ(sin 0) − ½ = 0",
                        lhs=sp.Subs(1 / (1 + sp.exp(-sp.sin(theta))), theta, 0) - HALF,
                        rhs=ZERO,
                        method=Elementary(),
                        scope="the point θ = 0",
                    ),
                ),
                coq=("Rotary.figure_tangent",),
            ),
        ),
    ),
    Entry(
        label="needed:half-angle",
        row="X7",
        title="stable displacement of a plane",
        text="R(θ) − I = 2 sin(θ/2)·[−sin(θ/2)·I + cos(θ/2)·J]",
        kind=Kind.EQUALITY,
        scope=PLANE,
        functions=("rotary.displacement",),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="X7: R(2h) − I = 2 sin h·(−sin h + cos h·J)",
                        lhs=turn(2 * half) - 1,
                        rhs=2 * sp.sin(half) * (-sp.sin(half) + sp.cos(half) * J),
                        method=Elementary(),
                        model=PLANE_MODEL,
                        scope=PLANE + "; h = θ/2",
                    ),
                ),
                coq=("Rotary.half_angle",),
            ),
        ),
    ),
)
