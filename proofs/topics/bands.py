"""Two disjoint rotary bands: additive scores, coupled responses (§2.3, Appendix D)."""

from __future__ import annotations

import random
from collections.abc import Callable

import sympy as sp

from proofs.entry import Clause, Entry, Kind
from proofs.prover.rational import Environment
from proofs.prover.statements import EVERY_D, EVERY_N, Elementary, Statement
from proofs.prover.syntax import Hypothesis, Index, S
from proofs.prover.vocabulary import (
    MASS,
    ONE,
    READOUT,
    ZERO,
    p,
    plane_generator,
    v,
    weights,
    y,
)
from proofs.topics.positional import c, displacement, in_band, k1, k2, q1, q2, s, tau
from proofs.topics.rotary import J

in_other, remaining = Index("1_c", idempotent=True), Index("1_r", idempotent=True)
# A band disjoint from b: any selection from the planes that b leaves out.
DISJOINT: Hypothesis = (in_other, (1 - in_band) * remaining)
BAND_MODEL = ((in_other, (1 - in_band) * remaining),)
turn = c - 1 + s * J  # R(θ) − I on a plane

# Directions a, b in score space, and the softmax readout along them.
a, b = Index("a"), Index("b")
u, w = sp.symbols("alpha beta", real=True)
along = sp.exp(u * a + w * b)
readout = S(p * along * v) / S(p * along)
G = sp.Function("G")
t, z = sp.symbols("t z", real=True)


def _polynomial(_: Environment, generator: random.Random) -> Callable[..., sp.Expr]:
    terms = [(generator.randint(-9, 9), i, j) for i in range(4) for j in range(4)]
    return lambda first, second: sum(
        (coef * first**i * second**j for coef, i, j in terms), start=sp.Integer(0)
    )


# Each edit normalised on its own: x = e^{t^b} − 1, r = e^{t^c} − 1 and their covariance.
x, r = Index("x"), Index("r")
kappa = sp.Symbol("kappa", real=True)
joint_weight = p * (1 + x) * (1 + r) / (1 + kappa)
PRODUCT = (MASS, (S(p * x), ZERO), (S(p * r), ZERO), (S(p * x * r), kappa))


def _normalised(name: str) -> sp.Expr:
    raw = Index(name, positive=True)
    return raw / S(p * raw) - 1


PRODUCT_MODEL = (
    (p, weights),
    (x, _normalised("E_b")),
    (r, _normalised("E_c")),
    (kappa, S(p * x * r)),
)

ENTRIES = (
    Entry(
        label="unlabelled:band-additivity",
        row="U2",
        title="disjoint bands have additive scores",
        text="d^{b∪c} = d^b + d^c; e^{δ(A_b+A_c)} − I = (e^{δA_b} − I) + (e^{δA_c} − I)",
        kind=Kind.EQUALITY,
        assumptions=("disjoint-bands", "fixed-content"),
        scope=EVERY_D + "; c is any set of planes outside b",
        functions=("positional.key_shift_scores", "rotary.frequency_bands"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="U2 operators: e^{δA_b}·e^{δA_c} − I = (e^{δA_b} − I) + (e^{δA_c} − I)",
                        lhs=(1 + in_band * turn) * (1 + in_other * turn) - 1,
                        rhs=in_band * turn + in_other * turn,
                        hypotheses=(DISJOINT,),
                        model=(*BAND_MODEL, (J, plane_generator)),
                        scope="every plane of every head",
                    ),
                    Statement(
                        name="U2 union: the band b ∪ c has the sum of the increments",
                        lhs=displacement(in_band + in_other - in_band * in_other),
                        rhs=S(in_band * ((c - 1) * (q1 * k1 + q2 * k2) + s * (q2 * k1 - q1 * k2)))
                        / tau
                        + S(in_other * ((c - 1) * (q1 * k1 + q2 * k2) + s * (q2 * k1 - q1 * k2)))
                        / tau,
                        hypotheses=(DISJOINT,),
                        nonzero=(tau,),
                        model=BAND_MODEL,
                        scope=EVERY_D,
                    ),
                ),
                coq=(
                    "Planes.band_generator",
                    "Planes.band_displacement",
                    "Positional.band_scores",
                ),
            ),
        ),
    ),
    Entry(
        label="eq:bandinteraction",
        title="the interaction of two bands",
        text="F(s+d^b+d^c) − F(s+d^b) − F(s+d^c) + F(s) = ∬ D²F[d^b, d^c]",
        kind=Kind.EQUALITY,
        assumptions=("attended", "fixed-query", "disjoint-bands"),
        scope="the double fundamental theorem for any smooth G(t, z) = F(s + t·d^b + z·d^c); "
        "F is smooth, a quotient of exponential sums with a positive denominator",
        functions=("bands.band_interaction",),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:bandinteraction: ∬ ∂²G/∂t∂z = G(1,1) − G(1,0) − G(0,1) + G(0,0)",
                        lhs=sp.Integral(sp.Derivative(G(t, z), t, z), (t, 0, 1), (z, 0, 1)),
                        rhs=G(1, 1) - G(1, 0) - G(0, 1) + G(0, 0),
                        method=Elementary(),
                        model=((G, _polynomial),),
                        scope="any twice differentiable G",
                    ),
                ),
                coq=("Bands.band_interaction",),
            ),
        ),
    ),
    Entry(
        label="eq:softmaxmixed",
        title="the mixed second derivative of softmax",
        text="D²F[a, b] = E[(a − E a)(b − E b)(v − F)]",
        kind=Kind.EQUALITY,
        assumptions=("attended", "finite-scores"),
        scope=EVERY_N + "; at any scores, since p is any positive distribution",
        functions=("bands.mixed_second_derivative",),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:softmaxmixed: ∂²/∂α∂β of the readout along αa + βb, at 0",
                        lhs=sp.Subs(sp.Derivative(readout, u, w), (u, w), (0, 0)),
                        rhs=S(p * (a - S(p * a)) * (b - S(p * b)) * (v - y)),
                        method=Elementary(),
                        hypotheses=(MASS, READOUT),
                        nonzero=(S(p),),
                        model=((p, weights), (y, S(p * v))),
                        scope=EVERY_N,
                    ),
                ),
                coq=(
                    "Bands.softmax_first",
                    "Bands.softmax_mixed",
                    "Bands.mixed_symmetric",
                ),
            ),
        ),
    ),
    Entry(
        label="needed:band-closed-form",
        row="X1",
        title="the band interaction without cancellation",
        text="H_bc = Σ p·[xr − (1+x)(1+r)·κ/(1+κ)]·(v − y), "
        "x = e^{t^b} − 1, r = e^{t^c} − 1, κ = Σ p·xr",
        kind=Kind.EQUALITY,
        assumptions=("attended", "fixed-query", "disjoint-bands"),
        scope=EVERY_N,
        functions=("bands.band_interaction",),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="X1 normaliser: Σ p·(1+x)(1+r) = 1 + κ",
                        lhs=S(p * (1 + x) * (1 + r)),
                        rhs=ONE + kappa,
                        hypotheses=PRODUCT,
                        model=PRODUCT_MODEL,
                        scope=EVERY_N,
                    ),
                    Statement(
                        name="X1: the four cells in product form",
                        lhs=S(joint_weight * v)
                        - S(p * (1 + x) * v)
                        - S(p * (1 + r) * v)
                        + S(p * v),
                        rhs=S(p * (x * r - (1 + x) * (1 + r) * kappa / (1 + kappa)) * (v - y)),
                        hypotheses=PRODUCT,
                        nonzero=(1 + kappa,),
                        model=PRODUCT_MODEL,
                        scope=EVERY_N,
                    ),
                ),
                coq=("Bands.interaction_closed",),
            ),
        ),
    ),
)
