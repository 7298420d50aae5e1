"""Query control, on two keys of a head, and the margin that a joint edit is predicted to change.

Topics: control and margin.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from proofs.generated.environment import Environment, Rng, Scene
from proofs.generated.evaluation import phi1
from proofs.generated.scenes.bank import e0, e1, rows, s0, s1
from proofs.generated.scenes.head import (
    HEAD,
    N,
    columns,
    dimensions,
    draw,
    entries_of,
    mean,
    plain,
    row,
    s,
    scores_at,
    selection,
    u_row,
    values,
)
from proofs.numeric.cases import Case
from proofs.prover.syntax import Index, Letter, S
from proofs.references import bank as of_bank, effective as of_affine
from proofs.references.vectors import add, dot, sub


def _of_pair(place: int, quantity: Any) -> Any:
    return lambda env: quantity(env)[env.floats["pairs"][0][place]]


def _edited_log_ratio(env: Environment) -> Any:
    edit = [*entries_of(env, Letter("h^T", "1", "m")), env.num.real(0.0)]
    moved = add(env.case["query_input"], edit)
    return of_affine.log_ratios(env.num, **{**env.case, "query_input": moved})


CONTROL = HEAD.with_symbols(
    {
        sp.Symbol("s_j"): _of_pair(0, scores_at("query_input")),
        sp.Symbol("s_k"): _of_pair(1, scores_at("query_input")),
        Letter("a_j", "m+1", "1"): _of_pair(0, lambda env: columns(env.case["features"])),
        Letter("a_k", "m+1", "1"): _of_pair(1, lambda env: columns(env.case["features"])),
        Letter("P^T", "m", "m+1"): lambda env: selection(env).transpose,
        Index("p"): sp.exp(s) / S(sp.exp(s)),
    }
).with_definitions(
    {
        "eq:querylogodds normaliser": plain(of_affine.log_ratios),
        "eq:querylogodds affine": _edited_log_ratio,
    }
)

# --- margin: both ends of a joint edit, in effective weights and in parts ---

_a0, _a1 = (Letter(name, "m+1", "1", indexed=True) for name in ("a0", "a1"))
_moves = Letter("eps", "1", "r", indexed=True)


def _edited_features(env: Environment) -> list[Any]:
    return list(map(add, env.case["features"], env.case["features_delta"]))


def draw_joint(rng: Rng, calm: bool) -> Case:
    """A head and its edit: features and values move."""
    case = draw(rng, calm)
    moved = {}
    for name in ("features", "values"):
        shape = np.shape(case[name])
        moved[f"{name}_delta"] = (rng.normal(size=shape) * 10.0 ** rng.uniform(-8, 0)).tolist()
    return {**case, **moved}


def _scores(features: Letter) -> Any:
    return lambda env: [score.rows[0][0] for score in env.evaluate(u_row * features)]


def _predicted(env: Environment) -> Any:
    """G applied to the response of the bank that has these scores and values."""
    inputs = env.case["query_input"]
    before, after = (
        [dot(env.num, inputs, x) for x in features]
        for features in (env.case["features"], _edited_features(env))
    )
    response = of_bank.finite_response(
        env.num,
        mask=env.floats["mask"],
        scores=before,
        values=env.case["values"],
        score_delta=sub(after, before),
        value_delta=env.case["values_delta"],
    )
    return dot(env.num, response, entries_of(env, Letter("G", "r", "1")))


MARGIN = Scene(
    draw_joint,
    {
        u_row: row("query_input"),
        _a0: lambda env: columns(env.case["features"]),
        _a1: lambda env: columns(_edited_features(env)),
        s0: _scores(_a0),
        s1: _scores(_a1),
        e0: sp.exp(s0),
        e1: sp.exp(s1),
        Index("f0"): phi1(s0),
        Index("f1"): phi1(s1),
        sp.Symbol("Z0"): S(e0),
        sp.Symbol("Z1"): S(e1),
        N: S(sp.Integer(1)),
        values: rows("values"),
        _moves: rows("values_delta"),
        mean: S(values) / N,
        Letter("mu'", "1", "r"): S(values + _moves) / N,
    },
    {"eq:jointpredictor": _predicted},
    dimensions=dimensions,
)
