"""Affine scores of one head: effective weights, their gauges, curvature and query control.

Topics: effective, gauge, curvature, control and margin. Features are a_j = L·k_j, with the keys k_j unit
vectors, so that the columns of L are the features as they were drawn; the query input is u = (x, 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from proofs.generated.environment import Environment, Rng, Scene
from proofs.generated.evaluation import phi1
from proofs.generated.scenes.bank import column, rows
from proofs.numeric import head_cases
from proofs.numeric.cases import Case
from proofs.prover.exact import Matrix
from proofs.prover.matrices import Letter
from proofs.prover.sums import Index, S
from proofs.references import bank as of_bank, effective as of_affine, rotary as of_rotary
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


def _dimensions(case: Case) -> dict[str, int]:
    inputs, size = len(case["query_input"]), case["size"]
    return {"d": size + size % 2, "m": inputs - 1, "m+1": inputs, "r": len(case["values"][0])}


def _row(name: str, stop: int | None = None) -> Any:
    return lambda env: Matrix([env.case[name][:stop]])


def _columns(vectors: list[list[Any]]) -> list[Matrix]:
    return [Matrix([[x] for x in vector]) for vector in vectors]


def _feature_columns(env: Environment) -> Matrix:
    width = env.dimension("d")
    blank = [[env.num.real(0.0)] * len(env.case["query_input"])] * (width - env.size)
    return Matrix([*env.case["features"], *blank]).transpose


def _unit_keys(env: Environment) -> list[Matrix]:
    width = env.dimension("d")
    return _columns([[float(i == j) for i in range(width)] for j in range(env.size)])


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


def _flat(env: Environment, symbol: Any) -> list[Any]:
    return env[symbol].entries()


HEAD = Scene(
    draw,
    {
        u_row: _row("query_input"),
        Letter("x^T", "1", "m"): _row("query_input", -1),
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
        Letter("g", "m+1", "1"): lambda env: _columns([env.case["gauge"]])[0],
    },
    dimensions=_dimensions,
)

# --- effective ---


def _affine_scores(env: Environment) -> list[Any]:
    """uᵀa with the features of eq:features, from the projected query weights and bias."""
    scale = 1 / env[sp.Symbol("tau")]
    features = of_affine.affine_features(
        env.num,
        query_weight=[list(row) for row in env[Letter("W_q", "m", "d")].rows],
        query_bias=_flat(env, Letter("b_q", "1", "d")),
        keys=[matrix.entries() for matrix in env[k]],
        scaling=scale,
        position=env.case["positions"][0],
        frequencies=env.case["frequencies"],
        layout="half",
        band=[True] * len(env.case["frequencies"]),
    )
    return [dot(env.num, env.case["query_input"], feature) for feature in features]


def _plain(reference: Any, *, gauge: bool = False) -> Any:
    """A definition in the original-score gauge, or in that of the case."""

    def define(env: Environment) -> Any:
        zero = [env.num.real(0.0)] * len(env.case["query_input"])
        return reference(env.num, **{**env.case, "gauge": env.case["gauge"] if gauge else zero})

    return define


def _first_entry(reference: Any) -> Any:
    def define(env: Environment) -> Any:
        result = _plain(reference)(env)[0]
        return result[0] if isinstance(result, list) else result

    return define


def _original(env: Environment) -> list[Any]:
    """Σ c·[W_q R(p_j − p_i) k_j]·(v_j − μ)/τ with k_j = W_kᵀ x_j and v_j = x_jᵀ W_v."""
    num, (own, *places) = env.num, env.case["positions"]
    weight, tau = env[Letter("W_q", "m", "d")].rows, env[sp.Symbol("tau")]
    to_key, to_value = env[Letter("W_k^T", "d", "m")].rows, env[Letter("W_v", "m", "r")].rows
    plane = {"frequencies": env.case["frequencies"], "layout": "half"}
    plane["band"] = [True] * len(env.case["frequencies"])
    centre, result = _flat(env, mean), None
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
        "eq:features": _affine_scores,
        "eq:identity normaliser": lambda env: total(
            env.num,
            (env.num.exp(dot(env.num, env.case["query_input"], x)) for x in env.case["features"]),
        ),
        "eq:identity coordinate": _first_entry(of_affine.output),
        "eq:identity matrix": _plain(of_affine.output),
        "eq:gradient": _first_entry(of_affine.matrix),
        "eq:original": _original,
        "U5": _plain(of_affine.matrix),
        "U6 coefficient": lambda env: softmax(env.num, [env.num.real(0.0)] * env.size)[0],
        "U6 readout": _output_along(1),
        "U6 start": _output_along(0, centre=True),
    }
)

# --- gauge: the same scores less σ = uᵀg, an anchor, a shift of the keys ---

sigma, kappa = sp.symbols("sigma kappa")
h = Index("h")
_anchor_scores, _ca = Index("anchor scores"), Index("c_a")


def _scores_at(name: str) -> Any:
    return lambda env: [dot(env.num, env.case[name], x) for x in env.case["features"]]


def _finite_change(env: Environment) -> list[Any]:
    """(u + h·du)ᵀ(M + h·dM) − uᵀM."""
    num, small = env.num, env[sp.Symbol("h_")]
    step, change = (env[Letter(name, "m+1", "r")].rows for name in ("DM_u", "dDM"))
    moved = [
        x + small * y
        for x, y in zip(_flat(env, u_row), _flat(env, Letter("du^T", "1", "m+1")), strict=True)
    ]
    after = [
        [x + small * y for x, y in zip(*pair, strict=True)]
        for pair in zip(step, change, strict=True)
    ]
    return sub(weigh(num, moved, after), weigh(num, _flat(env, u_row), [list(r) for r in step]))


def _shifted_features(env: Environment) -> list[Any]:
    projection, shift = [list(row) for row in env[L].rows], _flat(env, Letter("b", "d", "1"))
    moved = of_affine.key_shift_gauge(env.num, projection=projection, key_shift=shift)
    return [sub(feature, moved) for feature in env.case["features"]]


GAUGE = HEAD.with_symbols(
    {
        sigma: lambda env: env.evaluate(u_row * Letter("g", "m+1", "1")).rows[0][0],
        kappa: sp.exp(sigma),
        h: s - sigma,
        f: phi1(h),
        Index("c_i"): phi1(s) / Z,
        _anchor_scores: _scores_at("anchor_input"),
        _ca: phi1(_anchor_scores) / S(sp.exp(_anchor_scores)),
        Letter("DM_u", "m+1", "r"): S(Index("c_i") * a * (values - mean)),
        Letter("dDM", "m+1", "r"): S(_ca * a * (values - mean)),
        Index("p"): sp.exp(s) / S(sp.exp(s)),
    }
).with_definitions(
    {
        "eq:gauge coordinate": _first_entry(of_affine.output),
        "eq:gauge matrix": _plain(of_affine.output),
        "eq:tokenerror": _plain(of_affine.anchor_error),
        "U7": _finite_change,
        "U8 features": _shifted_features,
        "U8 softmax": lambda env: softmax(env.num, _scores_at("query_input")(env)),
        "prop:bounded readout: +": _first_entry(of_affine.output),
    }
)


def _without_last_row(matrix: sp.Expr) -> Any:
    return lambda env: Matrix(env.evaluate(matrix).rows[:-1])


# --- the residual write, for projections without bias ---

RESIDUAL = Scene(
    lambda rng, calm: draw(rng, calm, bias=False),
    {
        **HEAD.symbols,
        Letter("DM", "m", "r"): _without_last_row(S(c * a * (values - mean))),
        Letter("y", "1", "r"): S(e * values) / Z,
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
    dimensions=_dimensions,
)

# --- curvature: features relative to a reference key ---


def _relative(env: Environment) -> list[list[Any]]:
    origin = env.case["features"][env.floats["reference"]]
    return [sub(feature, origin) for feature in env.case["features"]]


def _selection(env: Environment) -> Matrix:
    """P, which puts a query edit into the augmented input."""
    rows_, columns_ = env.dimension("m+1"), env.dimension("m")
    return Matrix([[int(i == j) for j in range(columns_)] for i in range(rows_)])


def _quadratic_form(env: Environment) -> Any:
    edit = _flat(env, Letter("h", "m", "1"))
    image = [dot(env.num, row, edit) for row in of_affine.curvature(env.num, **env.case)]
    return dot(env.num, edit, image)


_relative_scores = Index("relative scores")
CURVATURE = GAUGE.with_symbols(
    {
        a: lambda env: _columns(_relative(env)),
        Index("a1"): lambda env: [row[0] for row in _relative(env)],
        Index("a2"): lambda env: [row[1] for row in _relative(env)],
        s: _scores_at("query_input"),
        _relative_scores: lambda env: [
            dot(env.num, env.case["query_input"], row) for row in _relative(env)
        ],
        c: phi1(_relative_scores) / S(sp.exp(_relative_scores)),
        Letter("P", "m+1", "m"): _selection,
    }
).with_definitions(
    {
        "main:curvature form": _quadratic_form,
        "eq:gauge coordinate": _first_entry(of_affine.output),
        "U9 diagonal": lambda env: of_affine.curvature(env.num, **env.case)[0][0],
        "U9 off": lambda env: of_affine.curvature(env.num, **env.case)[0][1],
    }
)

# --- control: two keys of the case ---


def _of_pair(place: int, quantity: Any) -> Any:
    return lambda env: quantity(env)[env.floats["pairs"][0][place]]


def _edited_log_ratio(env: Environment) -> Any:
    edit = [*_flat(env, Letter("h^T", "1", "m")), env.num.real(0.0)]
    moved = add(env.case["query_input"], edit)
    return of_affine.log_ratios(env.num, **{**env.case, "query_input": moved})


CONTROL = HEAD.with_symbols(
    {
        sp.Symbol("s_j"): _of_pair(0, _scores_at("query_input")),
        sp.Symbol("s_k"): _of_pair(1, _scores_at("query_input")),
        Letter("a_j", "m+1", "1"): _of_pair(0, lambda env: _columns(env.case["features"])),
        Letter("a_k", "m+1", "1"): _of_pair(1, lambda env: _columns(env.case["features"])),
        Letter("P^T", "m", "m+1"): lambda env: _selection(env).transpose,
        Index("p"): sp.exp(s) / S(sp.exp(s)),
    }
).with_definitions(
    {
        "eq:querylogodds normaliser": _plain(of_affine.log_ratios),
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
    return dot(env.num, response, _flat(env, Letter("G", "r", "1")))


MARGIN = Scene(
    draw_joint,
    {
        _margin_u: _row("query_input"),
        _margin_a: lambda env: _columns(env.case["features"]),
        _a1: lambda env: _columns(_edited("features")(env)),
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
    dimensions=lambda case: {"m": len(case["query_input"]), "r": len(case["values"][0])},
)
