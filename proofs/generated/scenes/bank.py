"""One query over a bank of keys, before and after an edit: the readout, the response, their parts.

Topics: readout, response, joint, quadratic and certificate.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import sympy as sp

from proofs.generated.environment import Environment, Rng, Scene
from proofs.generated.evaluation import phi1, phi2
from proofs.numeric import cases
from proofs.numeric.cases import Case
from proofs.prover.exact import Matrix
from proofs.prover.syntax import Index, Letter, S
from proofs.references import bank as of_bank
from proofs.references.series import variables
from proofs.references.vectors import dot, softmax, total, weigh

score, d, v, eps = (Index(name) for name in ("score", "d", "v", "eps"))
p, E, t, phi = (Index(name) for name in ("p", "E", "t", "phi"))
D, lam, y = sp.symbols("D lam y")
e = Index("e")
edited = p * E / D
_PER_KEY = ("scores", "values", "score_delta", "second_delta", "linear_delta", "value_delta")

# Where all keys fall further than this, D = 1 + Σ p·(e^d − 1) would need more bits than Arb is allowed.
_DEEPEST = -4000.0


def draw(rng: Rng, calm: bool) -> Case:
    """The attended part of an adversarial bank; a calm one has two keys and small increments."""
    drawn = cases.bank(rng, np.float64, 1).case(0)
    while calm and drawn["mask"].sum() < 2:
        drawn = cases.bank(rng, np.float64, 1).case(0)
    attended = {name: drawn[name][drawn["mask"]] for name in _PER_KEY}
    if attended["score_delta"].max() < _DEEPEST:
        attended["score_delta"] = np.maximum(attended["score_delta"], _DEEPEST)
    if calm:
        attended = {name: array[:2] for name, array in attended.items()}
        attended["scores"] = np.clip(attended["scores"] - attended["scores"].max(), -4, 0)
        for name in ("score_delta", "second_delta"):
            # Zero could only be proven at a precision that quadrature does not reach.
            attended[name] = rng.uniform(-1, 1, attended[name].shape)
    return as_case({**attended, "gradient": drawn["gradient"]}, rng)


def as_case(arrays: dict[str, np.ndarray], rng: Rng) -> Case:
    """Arrays as lists, all keys attended, with a seed for what is drawn freely and one of the keys."""
    size = len(arrays["scores"])
    lists = {name: array.tolist() for name, array in arrays.items()}
    extra = {"mask": [True] * size, "size": size, "key": int(rng.integers(size))}
    return {**lists, **extra, "seed": int(rng.integers(2**31))}


def column(name: str, place: int = 0) -> Any:
    """A binding: one coordinate of a vector of every key."""
    return lambda env: [row[place] for row in env.case[name]]


def number(name: str) -> Any:
    """A binding: what the case has under this name."""
    return lambda env: env.case[name]


def at_key(symbol: Any) -> Any:
    """A binding: the value at the key that the case picks."""
    return lambda env: env[symbol][env.floats["key"]]


def rows(name: str) -> Any:
    """A binding: the vectors of every key as row matrices."""
    return lambda env: [Matrix([row]) for row in env.case[name]]


def value(reference: Any) -> Any:
    """A definition: the first coordinate of a reference, or its number."""

    def define(env: Environment) -> Any:
        result = reference(env.num, **env.case)
        return result[0] if isinstance(result, list) else result

    return define


def every(reference: Any) -> Any:
    """A definition: a reference that has one number for every key."""
    return lambda env: reference(env.num, **env.case)


def along(reference: Any, order: int, *names: str) -> Any:
    """A definition: the derivative of a reference as the named edits grow from nothing together."""

    def define(env: Environment) -> Any:
        (strength,) = variables([env.num.real(0.0)], [order])
        grown = {name: _scaled(env.case[name], strength) for name in names}
        series = reference(env.num, **{**env.case, **grown})
        return series[0].derivative(order)

    return define


def _scaled(tree: Any, strength: Any) -> Any:
    return [_scaled(item, strength) for item in tree] if isinstance(tree, list) else strength * tree


BANK = Scene(
    draw,
    {
        score: number("scores"),
        d: number("score_delta"),
        v: column("values"),
        eps: column("value_delta"),
        p: sp.exp(score) / S(sp.exp(score)),
        E: sp.exp(d),
        D: S(p * E),
        lam: sp.log(D),
        t: d - lam,
        phi: phi1(t),
        Index("phi2"): phi2(t),
        y: S(p * v),
    },
    dimensions=lambda case: {"d": 2, "m": 3, "m+1": 4, "r": len(case["values"][0])},
)


# --- response ---


def _edited_probs(env: Environment) -> list[Any]:
    scores = zip(env.case["scores"], env.case["score_delta"], strict=True)
    return softmax(env.num, [s + d for s, d in scores])


def _ratios(env: Environment) -> list[Any]:
    pairs = zip(softmax(env.num, env.case["scores"]), _edited_probs(env), strict=True)
    return [after / before for before, after in pairs]


RESPONSE = BANK.with_symbols(
    {
        e: sp.exp(score),
        sp.Symbol("k"): sp.exp(sp.Symbol("c")),
        sp.Symbol("p_j"): at_key(p),
        sp.Symbol("t_j"): at_key(t),
        sp.Symbol("d_j"): at_key(d),
    }
).with_definitions(
    {
        "main:normalise change": every(of_bank.probability_change),
        "main:normalise mass": lambda env: total(env.num, _edited_probs(env)),
        "main:normalise balance": lambda env: total(
            env.num, of_bank.probability_change(env.num, **env.case)
        ),
        "main:response": value(of_bank.finite_response),
        "U13 ratio": lambda env: every(of_bank.log_ratio)(env)[env.floats["key"]],
        "U13 branches": lambda env: every(of_bank.probability_change)(env)[env.floats["key"]],
        "X2": value(of_bank.key_response),
        "X3 weights": _ratios,
        "X3 ratios": lambda env: every(of_bank.log_ratio)(env)[env.floats["key"]],
        "X4": lambda env: env.num.exp(of_bank.log_normaliser(env.num, **env.case)),
    }
)

# --- joint: both endpoints from their own scores, and a contraction ---

e0, e1, s0, s1 = (Index(name) for name in ("e0", "e1", "s0", "s1"))
_N = sp.Symbol("N")
_change = Index("x")


def _contracted(env: Environment) -> Any:
    response = of_bank.key_response(env.num, **env.case)
    projection, gradient = env[Letter("W_o", "r", "m")].rows, env[Letter("g", "m", "1")].rows
    return dot(env.num, weigh(env.num, response, projection), [row[0] for row in gradient])


JOINT = BANK.with_symbols(
    {
        s0: score,
        s1: score + d,
        e0: sp.exp(s0),
        e1: sp.exp(s1),
        Index("f0"): phi1(s0),
        Index("f1"): phi1(s1),
        _N: S(sp.Integer(1)),
        sp.Symbol("Z0"): S(e0),
        sp.Symbol("Z1"): S(e1),
        sp.Symbol("mu0"): S(v) / _N,
        sp.Symbol("mu1"): S(v + eps) / _N,
        Letter("v", "1", "r", indexed=True): rows("values"),
        Letter("y", "1", "r"): S(p * Letter("v", "1", "r", indexed=True)),
        _change: edited - p,
    }
).with_definitions(
    {
        "main:joint": value(of_bank.finite_response),
        "eq:kvcomponents key": value(of_bank.key_response),
        "eq:kvcomponents interaction": value(of_bank.interaction),
        "eq:atplinear": value(of_bank.linear_response),
        "eq:atpcentered": _contracted,
        "eq:kvfactorial": value(of_bank.interaction),
        "eq:jointmatrix": value(of_bank.finite_response),
        "eq:matrixincrement": value(of_bank.key_response),
        "eq:rhoremainder": value(of_bank.softmax_remainder),
    }
)

# --- quadratic: the joint path of strength α ---


def _tilted(num: Any, **case: Any) -> Any:
    """Σ p' ε, the value edits under the edited weights."""
    edits = zip(case["scores"], case["score_delta"], strict=True)
    return weigh(num, softmax(num, [s + d for s, d in edits]), case["value_delta"])


QUADRATIC = BANK.with_symbols({Index("X"): (d - S(p * d)) ** 2, Index("Y"): eps}).with_definitions(
    {
        "eq:quadraticinteraction second order": along(
            of_bank.interaction, 2, "score_delta", "value_delta"
        ),
        "eq:quadraticinteraction first order": along(
            of_bank.interaction, 1, "score_delta", "value_delta"
        ),
        "eq:quadraticinteraction curvature": along(_tilted, 2, "score_delta"),
    }
)

# --- certificate: remainder weights, and contractions with a gradient ---


def _contracted_with_gradient(name: str) -> Any:
    return lambda env: [dot(env.num, env.case["gradient"], row) for row in env.case[name]]


def _largest(expr: sp.Expr) -> Any:
    return lambda env: functools.reduce(env.num.maximum, env.evaluate(expr))


def _score_error(sign: int) -> Any:
    def define(env: Environment) -> Any:
        exact = of_bank.exact_score(env.num, **env.case)
        parts = (of_bank.linear_response, of_bank.value_response)
        first = [dot(env.num, env.case["gradient"], f(env.num, **env.case)) for f in parts]
        return sign * (exact - first[0] - first[1])

    return define


CERTIFICATE = BANK.with_definitions(
    {
        "main:kl mass": value(of_bank.divergence),
        "main:kl remainder": value(of_bank.softmax_remainder),
        "eq:remainderweights": every(of_bank.remainder_weights),
        "eq:klremainder": value(of_bank.divergence),
        "X6": value(of_bank.divergence),
    }
)
# The generic coordinate of the bound is the contraction of the values with a gradient.
CONTRACTED = BANK.with_symbols(
    {
        v: _contracted_with_gradient("values"),
        eps: _contracted_with_gradient("value_delta"),
        sp.Symbol("A"): _largest(sp.Abs(v - y)),
        sp.Symbol("M"): _largest(eps),
        sp.Symbol("m"): lambda env: -_largest(-eps)(env),
    }
).with_definitions(
    {
        "main:certificate error": _score_error(1),
        "main:certificate: +": _score_error(1),
        "main:certificate: -": _score_error(-1),
    }
)

# --- readout: the query's own key ---

_Z = sp.Symbol("Z")


def _with_own_key(env: Environment) -> Any:
    case = env.case
    scores = [*case["scores"], env.num.log(env[sp.Symbol("E_s")])]
    values = [*([row[0]] for row in case["values"]), [env[sp.Symbol("v_s")]]]
    return weigh(env.num, softmax(env.num, scores), values)[0]


READOUT = BANK.with_symbols(
    {
        e: sp.exp(score),
        _Z: S(e),
        _N: S(sp.Integer(1)),
        sp.Symbol("mu"): S(v) / _N,
    }
).with_definitions({"U17": _with_own_key})
