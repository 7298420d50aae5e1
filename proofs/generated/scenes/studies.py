"""Four readouts of a reordering, the regression learner, the quantiser and the studies' definitions.

Topics: reordering, regression, quantise and studies; and `FREE`, in which nothing but the model of a
statement says what its symbols are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from proofs.generated.environment import Environment, Rng, Scene
from proofs.generated.scenes.bank import column, number
from proofs.numeric import head_cases
from proofs.numeric.cases import Batch, Case
from proofs.prover.syntax import Index, S
from proofs.references import effective as of_affine
from proofs.references.vectors import dot, total

_SIZES = (1, 2, 3, 5, 8)


def draw_free(rng: Rng, calm: bool) -> Case:
    """A number of keys, rows or coordinates; everything else is drawn by its sort."""
    return {"size": int(rng.choice(_SIZES)), "seed": int(rng.integers(2**31))}


FREE = Scene(draw_free, dimensions=lambda case: {"d": 2, "m": 4, "m+1": 5, "r": 3})


def _from_batch(batch: Batch, size: int, rng: Rng) -> Case:
    lists = {name: array.tolist() for name, array in batch.case(0).items()}
    return {**lists, "size": size, "seed": int(rng.integers(2**31))}


# --- reordering: the index runs over coordinates ---

_CELLS = {"o00": "original", "o10": "moved", "o01": "rewritten", "o11": "reordered"}
_o00, _o10, _o01, _o11 = (Index(name) for name in ("o00", "o10", "o01", "o11"))


def draw_cells(rng: Rng, calm: bool) -> Case:
    """Four readouts."""
    batch = head_cases.cells(rng, np.float64, 1)
    return _from_batch(batch, batch.each["original"].shape[1], rng)


REORDERING = Scene(
    draw_cells,
    {
        **{Index(symbol): number(name) for symbol, name in _CELLS.items()},
        Index("Phi"): _o10 - _o00,
        Index("C"): _o01 - _o00,
        Index("J"): _o11 - _o10 - _o01 + _o00,
    },
    {
        "eq:phasecontent": lambda env: of_affine.phase_context(env.num, **env.case)[3],
        "U18": lambda env: total(env.num, of_affine.signed_projections(env.num, **env.case)),
    },
)

# --- regression: the index runs over examples ---

_rate, _q1, _q2 = sp.symbols("eta q1 q2")


def draw_episode(rng: Rng, calm: bool) -> Case:
    """Examples with two input coordinates or more."""
    batch = head_cases.episode(rng, np.float64, 1)
    while batch.each["inputs"].shape[2] < 2:
        batch = head_cases.episode(rng, np.float64, 1)
    return _from_batch(batch, batch.each["inputs"].shape[1], rng)


def _step(env: Environment) -> Any:
    """η·g₁."""
    return env[_rate] * of_affine.regression_step(env.num, **env.case)[0]


def _prediction(env: Environment) -> Any:
    """η·xᵀg at the query (q₁, q₂, 0, …)."""
    step = of_affine.regression_step(env.num, **env.case)[:2]
    return env[_rate] * dot(env.num, step, [env[_q1], env[_q2]])


_x1, _x2, _target = Index("x1"), Index("x2"), Index("tau")
REGRESSION = Scene(
    draw_episode,
    {
        _x1: column("inputs", 0),
        _x2: column("inputs", 1),
        _target: number("targets"),
        sp.Symbol("g1"): S(_x1 * _target) / S(sp.Integer(1)),
        sp.Symbol("g2"): S(_x2 * _target) / S(sp.Integer(1)),
    },
    {
        "eq:independentgd": _step,
        "U23 Jacobian: ": _step,
        "U23 control": _prediction,
    },
)


# --- studies: margins of four executions ---


def _four_cells(env: Environment) -> Any:
    """The third part of eq:phasecontent, with margins for readouts."""
    names = {"original": "m0", "moved": "mK", "rewritten": "mV", "reordered": "mKV"}
    cells = {cell: [env[sp.Symbol(name)]] for cell, name in names.items()}
    return of_affine.phase_context(env.num, **cells)[2]


STUDIES = FREE.with_definitions({"eq:jointdownstreamfactorial": _four_cells})
