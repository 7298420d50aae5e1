"""Score increments of a shifted key, on all planes of a band and on one, and two bands together.

Topics: positional, and the additivity of bands. The index runs over planes, that of the two remainders
over keys.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from proofs.generated.environment import Environment, Scene
from proofs.generated.scenes.bank import BANK, number, value
from proofs.generated.scenes.rotary import ROTARY, J, draw, omega, rotation, sinc, versinc
from proofs.prover.exact import Matrix
from proofs.prover.syntax import Index
from proofs.references import bank as of_bank, rotary as of_rotary
from proofs.references.series import variables


def _scores(reference: Any) -> Any:
    """A definition: the score increment of the one key."""
    return lambda env: reference(env.num, **env.case)[0]


def _one_plane(reference: Any, order: int) -> Any:
    """τ times the derivative in the shift of an increment on the first plane alone, at no shift."""

    def define(env: Environment) -> Any:
        (shift,) = variables([env.num.real(0.0)], [order])
        vectors = [[env.case[name][0] for name in names] for names in (("q1", "q2"), ("k1", "k2"))]
        plane = {"frequencies": [env.case["frequencies"][0]], "layout": "half", "band": [True]}
        case = {"query": vectors[0], "keys": [vectors[1]], "scaling": env.num.real(1.0)}
        (increment,) = reference(env.num, shift=shift, **case, **plane)
        return increment.derivative(order)

    return define


_q1, _q2, _k1, _k2 = (Index(name) for name in ("q1", "q2", "k1", "k2"))
_angles = Index("theta")
PLANES = Scene(
    draw,
    {
        _q1: number("q1"),
        _q2: number("q2"),
        _k1: number("k1"),
        _k2: number("k2"),
        Index("1_b"): number("in_band"),
        _angles: lambda env: [env.case["shift"] * w for w in env.case["frequencies"]],
        Index("c"): sp.cos(_angles),
        Index("s"): sp.sin(_angles),
        Index("S1"): lambda env: [sinc(env, angle) for angle in env[_angles]],
        Index("C1"): lambda env: [versinc(env, angle) for angle in env[_angles]],
        J: ROTARY.symbols[J],
        sp.Symbol("tau"): lambda env: (
            1 / of_rotary.score_scale(env.num, env.case["query"], env.case["scaling"])
        ),
        sp.Symbol("delta"): number("shift"),
        omega: ROTARY.symbols[omega],
        sp.Symbol("a"): lambda env: env[_q1][0] * env[_k1][0] + env[_q2][0] * env[_k2][0],
        sp.Symbol("b"): lambda env: env[_q2][0] * env[_k1][0] - env[_q1][0] * env[_k2][0],
    },
    {
        "main:score": _scores(of_rotary.key_shift_scores),
        "eq:phasejacobian generator": _scores(of_rotary.key_shift_scores_linear),
        "eq:phasejacobian tangent": lambda env: (
            env.case["shift"] * _one_plane(of_rotary.key_shift_scores, 1)(env)
        ),
        "eq:phasejacobian start": _one_plane(of_rotary.key_shift_scores, 0),
        "U3 first order": _one_plane(of_rotary.key_shift_scores_remainder, 1),
        "U3 second order": _one_plane(of_rotary.key_shift_scores_remainder, 2),
    },
)


def _error_of_the_jacobian(env: Environment) -> Any:
    response = of_bank.key_response(env.num, **env.case)[0]
    return response - of_bank.positional_jacobian(env.num, **env.case)[0]


POSITIONAL = BANK.with_symbols({Index("d_lin"): number("linear_delta")}).with_definitions(
    {
        "main:tworemainders: ": _error_of_the_jacobian,
        "main:tworemainders key": value(of_bank.key_response),
    }
)

# --- two disjoint bands: a plane is turned by the one, the other or neither ---


def _in_either(env: Environment) -> list[bool]:
    return [bool(x != 0) for x in map(sum, zip(env[Index("1_b")], env[Index("1_c")], strict=True))]


def _band_operators(env: Environment) -> list[Matrix]:
    """R(θ) − I on the planes of either band, zero elsewhere."""
    pairs = zip(env[_angles], _in_either(env), strict=True)
    return [
        rotation(env, angle if inside else angle * 0, of_rotary.displacement)
        for angle, inside in pairs
    ]


def _band_scores(env: Environment) -> Any:
    case = {**env.case, "band": _in_either(env)}
    return of_rotary.key_shift_scores(env.num, **case)[0]


BAND_PLANES = PLANES.with_definitions({"U2 operators": _band_operators, "U2 union": _band_scores})
