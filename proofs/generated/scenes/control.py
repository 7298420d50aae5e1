"""Query control, on two keys of a head, and the margin that a joint edit is predicted to change.

Topics: control and margin.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from proofs.generated.environment import Environment, Rng, Scene
from proofs.generated.evaluation import phi1
from proofs.generated.scenes.bank import rows
from proofs.generated.scenes.head import (
    HEAD,
    columns,
    draw,
    e,
    entries_of,
    mean,
    plain,
    row,
    s,
    scores_at,
    selection,
    values,
)
from proofs.numeric.cases import Case
from proofs.prover.exact import Matrix
from proofs.prover.matrices import Letter
from proofs.prover.sums import Index, S
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

_p0, _p1, _e1 = Index("p"), Index("p edited"), Index("e edited")
_a1 = Letter("a edited", "m", "1", indexed=True)
_v1 = Letter("v edited", "1", "r", indexed=True)
_margin_a = Letter("a", "m", "1", indexed=True)
_margin_u = Letter("u^T", "1", "m")
_mean1, _y0 = Letter("mu'", "1", "r"), Letter("y before", "1", "r")


def _edited(name: str) -> Any:
    return lambda env: [
        [x + y for x, y in zip(*pair, strict=True)]
        for pair in zip(env.case[name], env.case[f"{name}_delta"], strict=True)
    ]


def draw_joint(rng: Rng, calm: bool) -> Case:
    """A head and its edit: features and values move."""
    case = draw(rng, calm)
    moved = {}
    for name in ("features", "values"):
        shape = np.shape(case[name])
        moved[f"{name}_delta"] = (rng.normal(size=shape) * 10.0 ** rng.uniform(-8, 0)).tolist()
    return {**case, **moved}


def _score_exponentials(vectors: Any) -> Any:
    return lambda env: [env.num.exp(dot(env.num, env.case["query_input"], x)) for x in vectors(env)]


def _predicted(env: Environment) -> Any:
    """G applied to the response of the bank that has these scores and values."""
    inputs = env.case["query_input"]
    before, after = (
        [dot(env.num, inputs, x) for x in features]
        for features in (env.case["features"], _edited("features")(env))
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
        _margin_u: row("query_input"),
        _margin_a: lambda env: columns(env.case["features"]),
        _a1: lambda env: columns(_edited("features")(env)),
        values: rows("values"),
        _v1: lambda env: [Matrix([row]) for row in _edited("values")(env)],
        e: _score_exponentials(lambda env: env.case["features"]),
        _e1: _score_exponentials(_edited("features")),
        _p0: e / S(e),
        _p1: _e1 / S(_e1),
        mean: S(values) / S(sp.Integer(1)),
        _mean1: S(_v1) / S(sp.Integer(1)),
        Letter("DM", "m", "r"): S(phi1(sp.log(e)) / S(e) * _margin_a * (values - mean)),
        Letter("DM'", "m", "r"): S(phi1(sp.log(_e1)) / S(_e1) * _a1 * (_v1 - _mean1)),
        _y0: S(_p0 * values),
        Letter("K_f", "1", "r"): S((_p1 - _p0) * (values - _y0)),
        Letter("V_0", "1", "r"): S(_p0 * (_v1 - values)),
        Letter("C_KV", "1", "r"): S((_p1 - _p0) * (_v1 - values)),
    },
    {"eq:jointpredictor": _predicted},
    dimensions=lambda case: {
        "d": 2,
        "m": len(case["query_input"]),
        "m+1": len(case["query_input"]) + 1,
        "r": len(case["values"][0]),
    },
)
