"""Affine scores of one head, its effective weights and its residual write.

Topic: effective; the scenes of gauge, curvature and control build on `HEAD`. Features are a_j = L·k_j,
with the keys k_j unit vectors, so that the columns of L are the features as they were drawn; the query
input is u = (x, 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from proofs.generated.environment import Environment, Rng, Scene
from proofs.generated.evaluation import phi1
from proofs.generated.scenes.bank import column, number, rows
from proofs.numeric import head_cases
from proofs.numeric.cases import Case
from proofs.prover.exact import Matrix
from proofs.prover.syntax import Index, Letter, S
from proofs.references import effective as of_affine, rotary as of_rotary
from proofs.references.series import variables
from proofs.references.vectors import add, dot, softmax, sub, total, weigh

s, e, f, c, v = (Index(name) for name in ("s", "e", "f", "c", "v"))
Z, N, mu = sp.symbols("Z N mu")
u_row, a = Letter("u^T", "1", "m+1"), Letter("a", "m+1", "1", indexed=True)
values, mean = Letter("v", "1", "r", indexed=True), Letter("mu", "1", "r")
L, k = Letter("L", "m+1", "d"), Letter("k", "d", "1", indexed=True)


def draw(rng: Rng, calm: bool, *, bias: bool = True) -> Case:
    """Attended keys of an affine head, all of them with inputs of three coordinates or more."""
    case = _drawn(rng)
    while len(case["query_input"]) < 3:
        case = _drawn(rng)
    mask = case["mask"]
    case["query_input"][-1] = case["anchor_input"][-1] = 1.0
    features, size = case["features"][mask], int(mask.sum())
    if not bias:
        features[:, -1] = 0.0
    planes = (size + 1) // 2
    head = {
        name: case[name].tolist()
        for name in ("query_input", "anchor_input", "gauge", "head_projection")
    }
    return {
        **head,
        "features": features.tolist(),
        "values": case["values"][mask].tolist(),
        "mask": [True] * size,
        "frequencies": (10.0 ** rng.uniform(-4, 0, planes)).tolist(),
        "positions": rng.integers(0, 10_000, size + 1).astype(float).tolist(),
        "pairs": rng.integers(0, size, (1, 2)).tolist(),
        "reference": int(rng.integers(size)),
        "size": size,
        "key": int(rng.integers(size)),
        "seed": int(rng.integers(2**31)),
    }


def _drawn(rng: Rng) -> Case:
    return head_cases.affine(rng, np.float64, 1).case(0)


def dimensions(case: Case) -> dict[str, int]:
    inputs, size = len(case["query_input"]), case["size"]
    return {"d": size + size % 2, "m": inputs - 1, "m+1": inputs, "r": len(case["values"][0])}


def row(name: str, stop: int | None = None) -> Any:
    return lambda env: Matrix([env.case[name][:stop]])


def columns(vectors: list[list[Any]]) -> list[Matrix]:
    return [Matrix([[x] for x in vector]) for vector in vectors]


def _feature_columns(env: Environment) -> Matrix:
    width = env.dimension("d")
    blank = [[env.num.real(0.0)] * len(env.case["query_input"])] * (width - env.size)
    return Matrix([*env.case["features"], *blank]).transpose


def _unit_keys(env: Environment) -> list[Matrix]:
    width = env.dimension("d")
    return columns([[float(i == j) for i in range(width)] for j in range(env.size)])


def _turn(env: Environment, position: Any) -> Matrix:
    """R(p) on all planes, from the reference of a rotation of unit vectors."""
    width = env.dimension("d")
    plane = {"frequencies": env.case["frequencies"], "layout": "half"}
    plane["band"] = [True] * len(env.case["frequencies"])
    units = [[env.num.real(float(i == j)) for i in range(width)] for j in range(width)]
    images = [of_rotary.rotate(env.num, vector=unit, shift=position, **plane) for unit in units]
    return Matrix(images).transpose


def _turns(relative: bool) -> Any:
    def bind(env: Environment) -> list[Matrix]:
        own, *others = env.case["positions"]
        return [_turn(env, place - own if relative else place) for place in others]

    return bind


def entries_of(env: Environment, symbol: Any) -> list[Any]:
    return env[symbol].entries()


HEAD = Scene(
    draw,
    {
        u_row: row("query_input"),
        Letter("x^T", "1", "m"): row("query_input", -1),
        L: _feature_columns,
        k: _unit_keys,
        a: L * k,
        values: rows("values"),
        v: column("values"),
        s: lambda env: [m.rows[0][0] for m in env.evaluate(u_row * a)],
        e: sp.exp(s),
        f: phi1(s),
        Z: S(e),
        N: S(sp.Integer(1)),
        mu: S(v) / N,
        mean: S(values) / N,
        c: f / Z,
        Index("a1"): column("features", 0),
        Index("a2"): column("features", 1),
        Letter("R_i^T", "d", "d"): lambda env: _turn(env, -env.case["positions"][0]),
        Letter("R_j", "d", "d", indexed=True): _turns(False),
        Letter("R_j-i", "d", "d", indexed=True): _turns(True),
        Letter("g", "m+1", "1"): lambda env: columns([env.case["gauge"]])[0],
    },
    dimensions=dimensions,
)


def scores_at(name: str) -> Any:
    return lambda env: [dot(env.num, env.case[name], x) for x in env.case["features"]]


def selection(env: Environment) -> Matrix:
    """P, which puts a query edit into the augmented input."""
    rows_, columns_ = env.dimension("m+1"), env.dimension("m")
    return Matrix([[int(i == j) for j in range(columns_)] for i in range(rows_)])


# --- effective ---


def plain(reference: Any, *, gauge: bool = False) -> Any:
    """A definition in the original-score gauge, or in that of the case."""

    def define(env: Environment) -> Any:
        zero = [env.num.real(0.0)] * len(env.case["query_input"])
        return reference(env.num, **{**env.case, "gauge": env.case["gauge"] if gauge else zero})

    return define


def first_entry(reference: Any) -> Any:
    def define(env: Environment) -> Any:
        result = plain(reference)(env)[0]
        return result[0] if isinstance(result, list) else result

    return define


def _original(env: Environment) -> list[Any]:
    """Σ c·[W_q R(p_j − p_i) k_j]·(v_j − μ)/τ with k_j = W_kᵀ x_j and v_j = x_jᵀ W_v."""
    num, (own, *places) = env.num, env.case["positions"]
    weight, tau = env[Letter("W_q", "m", "d")].rows, env[sp.Symbol("tau")]
    to_key, to_value = env[Letter("W_k^T", "d", "m")].rows, env[Letter("W_v", "m", "r")].rows
    plane = {"frequencies": env.case["frequencies"], "layout": "half"}
    plane["band"] = [True] * len(env.case["frequencies"])
    centre, result = entries_of(env, mean), None
    inputs = [matrix.entries() for matrix in env[Letter("x_j", "m", "1", indexed=True)]]
    input_rows = [matrix.entries() for matrix in env[Letter("x_j^T", "1", "m", indexed=True)]]
    for j, (x, x_row) in enumerate(zip(inputs, input_rows, strict=True)):
        key = [dot(num, row, x) for row in to_key]
        turned = of_rotary.rotate(num, vector=key, shift=places[j] - own, **plane)
        left = [dot(num, row, turned) * env[f][j] / (tau * env[Z]) for row in weight]
        right = sub(weigh(num, x_row, to_value), centre)
        outer = [x * w for x in left for w in right]
        result = outer if result is None else add(result, outer)
    return result or []


def _output_along(order: int, *, centre: bool = False) -> Any:
    """A derivative of the readout as all scores grow from zero, less μ where that is asked."""

    def define(env: Environment) -> Any:
        (strength,) = variables([env.num.real(0.0)], [order])
        inputs = [strength * x for x in env.case["query_input"]]
        output = of_affine.output(env.num, **{**env.case, "query_input": inputs})[0]
        result = output.derivative(order)
        return result - env[mu] if centre else result

    return define


EFFECTIVE = HEAD.with_definitions(
    {
        "eq:identity normaliser": lambda env: total(
            env.num,
            (env.num.exp(dot(env.num, env.case["query_input"], x)) for x in env.case["features"]),
        ),
        "eq:identity coordinate": first_entry(of_affine.output),
        "eq:identity matrix": plain(of_affine.output),
        "eq:gradient": first_entry(of_affine.matrix),
        "eq:original": _original,
        "U5": plain(of_affine.matrix),
        "U6 coefficient": lambda env: softmax(env.num, [env.num.real(0.0)] * env.size)[0],
        "U6 readout": _output_along(1),
        "U6 start": _output_along(0, centre=True),
    }
)


# --- features: the index runs over the coordinates of u = (x, 1), for one key ---


def draw_features(rng: Rng, calm: bool) -> Case:
    """A query input, with planes for as many coordinates."""
    case = draw(rng, calm)
    size = len(case["query_input"])
    frequencies = (10.0 ** rng.uniform(-4, 0, (size + 1) // 2)).tolist()
    return {**case, "frequencies": frequencies, "size": size}


def _affine_score(env: Environment) -> Any:
    """uᵀa with the feature of eq:features, from the query weights and bias."""
    weight_rows = [matrix.entries() for matrix in env[Letter("W_i", "1", "d", indexed=True)]]
    (feature,) = of_affine.affine_features(
        env.num,
        query_weight=weight_rows[:-1],
        query_bias=entries_of(env, Letter("b_q", "1", "d")),
        keys=[entries_of(env, Letter("k_j", "d", "1"))],
        scaling=1 / env[sp.Symbol("tau")],
        position=env.case["positions"][0],
        frequencies=env.case["frequencies"],
        layout="half",
        band=[True] * len(env.case["frequencies"]),
    )
    return dot(env.num, env.case["query_input"], feature)


FEATURES = Scene(
    draw_features,
    {
        Index("u"): number("query_input"),
        # Past the end of x there is nothing, so that any number may stand there.
        Index("x"): lambda env: [*env.case["query_input"][:-1], env.case["gauge"][0]],
        Index("1_last"): lambda env: [float(i == env.size - 1) for i in range(env.size)],
        Letter("R_i^T", "d", "d"): HEAD.symbols[Letter("R_i^T", "d", "d")],
    },
    {"eq:features": _affine_score},
    dimensions=dimensions,
)


# --- the residual write, for projections without bias ---

RESIDUAL = Scene(
    lambda rng, calm: draw(rng, calm, bias=False),
    {
        **HEAD.symbols,
        Letter("a_x", "m", "1", indexed=True): lambda env: columns(
            [feature[:-1] for feature in env.case["features"]]
        ),
    },
    {
        "eq:residual": lambda env: of_affine.residual_write(
            env.num,
            **{
                **env.case,
                "residual": env.case["query_input"][:-1],
                "head_projection": [list(r) for r in env[Letter("W_o", "r", "m")].rows],
            },
        )
    },
    dimensions=dimensions,
)
