"""Rotary planes: rotations, their displacements and derivatives, and φ₁ itself.

Topics: phi and rotary. The index runs over planes; the first stands for any plane.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from proofs.generated.environment import Environment, Rng, Scene
from proofs.generated.scenes.bank import number
from proofs.numeric import head_cases
from proofs.numeric.cases import Case
from proofs.prover.exact import Matrix
from proofs.references import bank as of_bank, effective as of_affine, rotary as of_rotary
from proofs.references.series import variables

# Angles over which an integral is affordable.
_CALM_ANGLE = 40.0
# The order of the generator's power in eq:derivatives.
_POWER = 3


def draw(rng: Rng, calm: bool) -> Case:
    """Planes of a head with a feature, a query and one key; the first plane stands for any plane."""
    drawn = head_cases.rotary(rng, np.float64, 1)
    case, shared = drawn.case(0), drawn.shared
    shift = float(case["shift"])
    if calm:
        shift = float(np.clip(shift, -_CALM_ANGLE, _CALM_ANGLE))
    argument = float(rng.choice(head_cases.arguments(rng, np.float64, 1).each["x"][0]))
    planes = of_rotary.pairs(len(shared["frequencies"]), shared["layout"])
    query, key = case["query"], case["keys"][0]
    coordinates = {
        name: [float(vector[pair[place]]) for pair in planes]
        for name, vector, place in (
            ("q1", query, 0),
            ("q2", query, 1),
            ("k1", key, 0),
            ("k2", key, 1),
        )
    }
    return {
        **coordinates,
        "query": query.tolist(),
        "keys": [key.tolist()],
        "vector": case["vector"].tolist(),
        "frequencies": shared["frequencies"].tolist(),
        "layout": shared["layout"],
        "band": shared["band"].tolist(),
        "in_band": shared["band"].astype(float).tolist(),
        "scaling": shared["scaling"],
        "shift": shift,
        "positions": [float(x) for x in rng.integers(0, 100_000, 2)],
        "argument": float(np.clip(argument, -_CALM_ANGLE, _CALM_ANGLE)) if calm else argument,
        "matrix": rng.uniform(-4, 4, 2).tolist(),
        "size": len(planes),
        "seed": int(rng.integers(2**31)),
    }


def _plane_matrix(env: Environment, turn: Any) -> Matrix:
    """A map of one plane as a matrix, from what it does to the two unit vectors."""
    zero, one = env.num.real(0.0), env.num.real(1.0)
    columns = [turn([one, zero]), turn([zero, one])]
    return Matrix([[column[i] for column in columns] for i in range(2)])


def rotation(env: Environment, angle: Any, reference: Any = of_rotary.rotate) -> Matrix:
    """What a rotary reference does to a plane of frequency one."""
    plane = {"frequencies": [env.num.real(1.0)], "layout": "half", "band": [True]}
    return _plane_matrix(
        env, lambda vector: reference(env.num, vector=vector, shift=angle, **plane)
    )


def _angle(env: Environment) -> Any:
    return env.case["shift"] * env.case["frequencies"][0]


def sinc(env: Environment, angle: Any) -> Any:
    """sin θ/θ, and 1 at zero."""
    return env.num.sin(angle) / angle if angle != 0 else env.num.real(1.0)


def versinc(env: Environment, angle: Any) -> Any:
    """(1 − cos θ)/θ, and 0 at zero."""
    return (1 - env.num.cos(angle)) / angle if angle != 0 else env.num.real(0.0)


def _at(place: int) -> Any:
    return lambda env: env.case["positions"][place]


def _exponential(env: Environment) -> Matrix:
    """e^{λ + θJ} = e^λ·R(θ)."""
    growth, angle = env.case["matrix"]
    return rotation(env, angle) * env.num.exp(growth)


def _square(env: Environment) -> Matrix:
    """λ + θJ."""
    growth, angle = env.case["matrix"]
    return Matrix([[growth, -angle], [angle, growth]])


def _generated(env: Environment) -> Matrix:
    """θJ from the reference of the tangent."""
    return rotation(env, _angle(env), of_rotary.tangent)


def _derivative(order: int) -> Any:
    """∂ⁿ/∂pⁿ of R(ωp), a coefficient of its power series."""

    def define(env: Environment) -> Matrix:
        (position,) = variables([env.case["positions"][0]], [order])
        turned = rotation(env, position * env.case["frequencies"][0])
        return Matrix([[entry.derivative(order) for entry in row] for row in turned.rows])

    return define


def _displaced(env: Environment) -> Matrix:
    return rotation(env, _angle(env), of_rotary.displacement)


def _moved(env: Environment) -> Matrix:
    """R(ω(p + δ)) − R(ωp)."""
    frequency, position = env.case["frequencies"][0], env.case["positions"][0]
    after = rotation(env, frequency * (position + env.case["shift"]))
    return after + rotation(env, frequency * position) * -1


def _squared_norm(reference: Any) -> Any:
    """The squared norm on the first plane; its vector is that of the symbols x₁, x₂."""

    def define(env: Environment) -> Any:
        vector = [env[sp.Symbol("x1")], env[sp.Symbol("x2")]]
        frequencies = [env.num.real(1.0)]
        (norm,) = reference(
            env.num, frequencies=frequencies, layout="half", vector=vector, shift=_angle(env)
        )
        return norm * norm

    return define


def _two_keys(order: int | None) -> Any:
    """σ(sin θ) − ½ as the response of two keys; with an order, its derivative at θ = 0."""

    def define(env: Environment) -> Any:
        zero, one = env.num.real(0.0), env.num.real(1.0)
        angle = env[sp.Symbol("theta")] if order is None else variables([zero], [order])[0]
        bank = {"mask": [True, True], "scores": [zero, zero], "values": [[one], [zero]]}
        edit = {"score_delta": [env.num.sin(angle), zero], "value_delta": [[zero], [zero]]}
        (response,) = of_bank.finite_response(env.num, **bank, **edit)
        return response if order is None else response.derivative(order)

    return define


def _remainder_derivative(order: int) -> Any:
    """A derivative of e^t − 1 − t at 0."""

    def define(env: Environment) -> Any:
        (t,) = variables([env.num.real(0.0)], [order])
        return (env.num.exp(t) - 1 - t).derivative(order)

    return define


J = sp.Symbol("J")
theta, omega = sp.Symbol("theta"), sp.Symbol("omega")
PHI = Scene(
    draw,
    {sp.Symbol("t"): number("argument"), sp.Symbol("B"): _square},
    {
        "eq:rho integral": lambda env: env.num.exp(env.case["argument"]) - 1,
        "eq:rho divided difference": lambda env: of_affine.phi1(env.num, [env.case["argument"]]),
        "eq:rho coincident": lambda env: of_affine.phi1(env.num, [env.num.real(0.0)]),
        "eq:rho series": lambda env: _exponential(env) + env.num.real(-1),
        "eq:rho second difference: e^t": _remainder_derivative(2),
        "eq:rho second difference: the linear": _remainder_derivative(1),
        "eq:rho second difference: t²": lambda env: (
            env.num.exp(env.case["argument"]) - 1 - env.case["argument"]
        ),
    },
)
ROTARY = Scene(
    draw,
    {
        **PHI.symbols,
        omega: lambda env: env.case["frequencies"][0],
        sp.Symbol("delta"): number("shift"),
        theta: _angle,
        sp.Symbol("h"): theta / 2,
        sp.Symbol("c"): sp.cos(theta),
        sp.Symbol("s"): sp.sin(theta),
        sp.Symbol("S1"): lambda env: sinc(env, env[theta]),
        sp.Symbol("C1"): lambda env: versinc(env, env[theta]),
        sp.Symbol("p"): _at(0),
        sp.Symbol("p_i"): _at(0),
        sp.Symbol("p_j"): _at(1),
        sp.Symbol("A_n"): (omega * J) ** _POWER,
        J: lambda env: Matrix([[0, -1], [1, 0]]),
    },
    {
        "eq:rho series": PHI.definitions["eq:rho series"],
        "main:central on a plane": _displaced,
        "main:central shift": _moved,
        "main:rotation generator": _derivative(1),
        "main:rotation start": lambda env: rotation(env, env.num.real(0.0)),
        "main:integrate on a plane": _displaced,
        "main:integrate even part": lambda env: rotation(env, _angle(env)).rows[1][0],
        "main:integrate odd part": lambda env: -_displaced(env).rows[0][0],
        "eq:derivatives step": _derivative(_POWER + 1),
        "eq:derivatives series": lambda env: _square(env) * _exponential(env),
        "eq:rotation": lambda env: rotation(
            env,
            env.case["frequencies"][0] * (env.case["positions"][1] - env.case["positions"][0]),
        ),
        "U1 chord": _squared_norm(of_rotary.chord_norm),
        "U1 tangent": _squared_norm(of_rotary.tangent_norm),
        "U1 bound": _squared_norm(of_rotary.chord_norm),
        "U22 response": _two_keys(None),
        "U22 tangent": _two_keys(1),
        "U22 start": _two_keys(0),
        "X7": _displaced,
    },
)
