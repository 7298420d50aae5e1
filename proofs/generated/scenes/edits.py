"""Edits of a few keys of a bank: sparse support, deletion, restoration, and two bands at once.

Topics: sparse, deletion, restoration and bands.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from proofs.generated.environment import Environment, Rng, Scene
from proofs.generated.evaluation import phi1
from proofs.generated.scenes.bank import (
    BANK,
    E,
    column,
    d,
    draw,
    eps,
    number,
    p,
    score,
    v,
    value,
    y,
)
from proofs.numeric import regimes
from proofs.numeric.cases import Case
from proofs.prover.syntax import Index, S
from proofs.references import bank as of_bank
from proofs.references.effective import restoration_benefit
from proofs.references.series import variables
from proofs.references.vectors import softmax, total, weigh

f, z = Index("f"), Index("z")


def _with(changes: Any, reference: Any) -> Any:
    """A definition: a reference on the case with some of its parts changed."""

    def define(env: Environment) -> Any:
        result = reference(env.num, **{**env.case, **changes(env)})
        return result[0] if isinstance(result, list) else result

    return define


def _times(indicator: list[Any], entries: list[Any]) -> list[Any]:
    """Entries at the chosen keys, zero elsewhere."""
    return [
        [i * x for x in entry] if isinstance(entry, list) else i * entry
        for i, entry in zip(indicator, entries, strict=True)
    ]


# --- sparse: scores change on S alone, values on T alone ---

on_s, on_t = Index("1_S"), Index("1_T")


def draw_support(rng: Rng, calm: bool) -> Case:
    """A bank with two sets of keys."""
    case = draw(rng, calm)
    bits = rng.integers(0, 2, (2, case["size"])).astype(float).tolist()
    return {**case, "in_s": bits[0], "in_t": bits[1]}


def _on_support(env: Environment) -> dict[str, Any]:
    return {
        "score_delta": _times(env.case["in_s"], env.case["score_delta"]),
        "value_delta": _times(env.case["in_t"], env.case["value_delta"]),
    }


def _normaliser(num: Any, **case: Any) -> Any:
    return num.exp(of_bank.log_normaliser(num, **case))


SPARSE = Scene(
    draw_support,
    {
        **BANK.symbols,
        on_s: number("in_s"),
        on_t: number("in_t"),
        z: column("value_delta"),
        f: phi1(d),
        E: sp.exp(on_s * d),
        eps: on_t * z,
        Index("t"): on_s * d - sp.Symbol("lam"),
    },
    {
        "main:sparse normaliser": _with(_on_support, _normaliser),
        "main:sparse": _with(_on_support, of_bank.finite_response),
        "eq:sparsetv": _with(
            _on_support, lambda num, **case: 2 * of_bank.total_variation(num, **case)
        ),
        "U14": _with(_on_support, of_bank.divergence),
        "U15: ": _with(_on_support, _normaliser),
    },
    dimensions=BANK.dimensions,
)

# --- deletion: a group that leaves a key ---

group = Index("1_G")


def draw_group(rng: Rng, calm: bool) -> Case:
    """A bank of two keys or more with a group that is neither empty nor everything."""
    case = draw(rng, calm)
    while case["size"] < 2:
        case = draw(rng, calm)
    chosen = rng.permutation(case["size"])[: rng.integers(1, case["size"])]
    removed = np.isin(np.arange(case["size"]), chosen)
    return {**case, "removed": [removed.tolist()], "group": removed.astype(float).tolist()}


def _group_mass(env: Environment) -> Any:
    probs = softmax(env.num, env.case["scores"])
    pairs = zip(probs, env.floats["removed"][0], strict=True)
    return total(env.num, (prob for prob, is_removed in pairs if is_removed))


def _first_group(reference: Any) -> Any:
    return lambda env: reference(env.num, **env.case)[0][0]


DELETION = Scene(
    draw_group,
    {
        **BANK.symbols,
        group: number("group"),
        sp.Symbol("lse_G"): sp.log(S(group * sp.exp(score))),
        sp.Symbol("lse_C"): sp.log(S((1 - group) * sp.exp(score))),
    },
    {
        "eq:groupdeletion": _first_group(of_bank.deletion_response),
        "U19": _first_group(of_bank.deletion_jacobian),
        "X5": _first_group(of_bank.deletion_response),
        "X5 mass": _group_mass,
    },
    dimensions=BANK.dimensions,
)

# --- restoration: one key, and the benefit over coordinates ---

at_j = Index("1_j")
_increment = sp.Symbol("d_j")


def draw_single(rng: Rng, calm: bool) -> Case:
    """A bank of two keys or more, and one of them."""
    case = draw(rng, calm)
    while case["size"] < 2:
        case = draw(rng, calm)
    here = [float(place == case["key"]) for place in range(case["size"])]
    return {**case, "here": here}


def _restored(env: Environment) -> Any:
    return of_bank.restoration_response(env.num, **env.case)[env.floats["key"]][0]


def _restored_mass(env: Environment) -> Any:
    edits = zip(env.case["scores"], _times(env.case["here"], env.case["score_delta"]), strict=True)
    return softmax(env.num, [s + delta for s, delta in edits])[env.floats["key"]]


def _restored_along(order: int) -> Any:
    def define(env: Environment) -> Any:
        (strength,) = variables([env.num.real(0.0)], [order])
        case = {**env.case}
        case["score_delta"] = [strength * delta for delta in case["score_delta"]]
        case["value_delta"] = [[strength * x for x in row] for row in case["value_delta"]]
        response = of_bank.restoration_response(env.num, **case)[env.floats["key"]][0]
        return response.derivative(order)

    return define


def _benefit(env: Environment) -> Any:
    return restoration_benefit(env.num, env[Index("e")], [env[Index("Delta")]])[0]


RESTORATION = Scene(
    draw_single,
    {
        **BANK.symbols,
        at_j: number("here"),
        E: sp.exp(at_j * d),
        z: column("value_delta"),
        eps: at_j * z,
        Index("p_other"): p,
        Index("v_other"): v,
        sp.Symbol("p_j"): S(at_j * p),
        sp.Symbol("v_j"): S(at_j * v),
        sp.Symbol("eps_j"): S(at_j * z),
        _increment: S(at_j * d),
        sp.Symbol("f_j"): phi1(_increment),
        sp.Symbol("q"): S(at_j * p),
        sp.Symbol("delta"): S(at_j * d),
        sp.Symbol("eps"): S(at_j * z),
        sp.Symbol("gap"): S(at_j * v) - y,
    },
    {
        "eq:singlerepair": _restored,
        "U16 mass": _restored_mass,
        "U16 response": _restored,
        "U21 start": _restored_along(0),
        "U21 first order": _restored_along(1),
        "U21 second order": _restored_along(2),
        "eq:repairbenefit": _benefit,
    },
    dimensions=BANK.dimensions,
)


def draw_error(rng: Rng, calm: bool) -> Case:
    """An error of a write and a change of it, often far smaller, over some coordinates."""
    size = int(rng.integers(1, 9))
    error, change = (x[:, 0] for x in regimes.vectors(rng, (2, size, 1)))
    change = change * regimes.spread(rng, (), -14, 1)
    return {
        "error": error.tolist(),
        "change": [change.tolist()],
        "size": size,
        "seed": int(rng.integers(2**31)),
    }


BENEFIT = Scene(
    draw_error,
    {Index("e"): number("error"), Index("Delta"): lambda env: env.case["change"][0]},
    {"X8": _benefit},
)

# --- bands: two directions in score space ---

a, b = Index("a"), Index("b")
_first, _second = Index("E_b"), Index("E_c")


def _readout(env: Environment) -> Any:
    """G(t, z) = F(s + t·d^b + z·d^c), the first coordinate."""
    case = env.case

    def along(first: Any, second: Any) -> Any:
        edits = zip(case["scores"], case["score_delta"], case["second_delta"], strict=True)
        scores = [s + first * x + second * w for s, x, w in edits]
        return weigh(env.num, softmax(env.num, scores), [[row[0]] for row in case["values"]])[0]

    return along


def _masses(env: Environment) -> Any:
    """Σ e^{s+b+c}·Σ e^s/(Σ e^{s+b}·Σ e^{s+c})."""
    case, exp = env.case, env.num.exp
    edits = list(zip(case["scores"], case["score_delta"], case["second_delta"], strict=True))
    mass = [
        total(env.num, (exp(s + i * x + j * w) for s, x, w in edits))
        for i in (0, 1)
        for j in (0, 1)
    ]
    return mass[3] * mass[0] / (mass[1] * mass[2])


BANDS = BANK.with_symbols(
    {
        a: number("score_delta"),
        b: number("second_delta"),
        _first: sp.exp(a),
        _second: sp.exp(b),
        Index("x"): _first / S(p * _first) - 1,
        Index("r"): _second / S(p * _second) - 1,
        sp.Function("G"): _readout,
    }
).with_definitions(
    {
        "eq:bandinteraction": value(of_bank.band_interaction),
        "eq:softmaxmixed": value(of_bank.mixed_second_derivative),
        "X1 normaliser": _masses,
        "X1: ": value(of_bank.band_interaction),
    }
)
