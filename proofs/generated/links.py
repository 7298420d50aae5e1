"""Which statement and which function of the core are two texts of one quantity.

An entry that has a function but no link is in UNLINKED with the reason.
"""

from __future__ import annotations

from collections.abc import Callable

import flint
import sympy as sp

from proofs.generated.environment import Environment
from proofs.generated.three_way import Link
from proofs.numeric.cases import Case
from proofs.prover.syntax import Letter

Entries = Callable[[Case], list[int]]


def _whole(env: Environment) -> Case:
    """The case as it was drawn."""
    return {name: item for name, item in env.floats.items() if name not in {"size", "seed", "key"}}


def _first(_: Case) -> list[int]:
    return [0]


def _every_key(case: Case) -> list[int]:
    return list(range(len(case["scores"])))


def _one_key(env: Environment) -> Case:
    return {**_whole(env), "picked": int(env.floats["key"])}


def _picked(case: Case) -> list[int]:
    return [case["picked"]]


def _picked_row(case: Case) -> list[int]:
    return [case["picked"] * len(case["values"][0])]


def _half(number: flint.arb, _: Environment) -> flint.arb:
    return number / 2


def _logarithm(number: flint.arb, _: Environment) -> flint.arb:
    return number.log()


def _root(number: flint.arb, _: Environment) -> flint.arb:
    return number.sqrt()


def _supported(env: Environment) -> Case:
    """Scores change on S, values on T."""
    case = _whole(env)
    scores = zip(case["in_s"], case["score_delta"], strict=True)
    values = zip(case["in_t"], case["value_delta"], strict=True)
    return {
        **case,
        "score_delta": [i * delta for i, delta in scores],
        "value_delta": [[i * x for x in row] for i, row in values],
    }


def _bank(
    label: str,
    statement: str,
    function: str,
    entries: Entries = _first,
    arguments: Callable[[Environment], Case] = _whole,
    measure: Callable[..., flint.arb] = lambda number, env: number,
) -> Link:
    return Link(label, statement, function, arguments, entries, measure)


def _plane(shift: Callable[[Environment], float], vector: list[float]) -> Callable:
    """A head of one plane, its frequency that of the case."""
    return lambda env: {
        "frequencies": [env.floats["frequencies"][0]],
        "layout": "half",
        "band": [True],
        "vector": vector,
        "shift": shift(env),
    }


def _norm_plane(env: Environment) -> Case:
    plane = _plane(lambda e: e.floats["shift"], [0.0, 0.0])(env)
    vector = [float(env[sp.Symbol(name)].mid()) for name in ("x1", "x2")]
    return {**plane, "vector": vector}


def _between(env: Environment) -> float:
    return env.floats["positions"][1] - env.floats["positions"][0]


def _on_plane(label: str, statement: str, function: str, shift: Callable) -> Link:
    """The first column of a plane's matrix: what becomes of the first unit vector."""
    return Link(
        label, statement, function, _plane(shift, [1.0, 0.0]), lambda _: [0, 1], part=(0, 2)
    )


def _own_gauge(env: Environment) -> Case:
    return {**_whole(env), "gauge": [0.0] * len(env.floats["query_input"])}


def _outputs(case: Case) -> list[int]:
    return list(range(len(case["values"][0])))


def _residual(env: Environment) -> Case:
    rows = env[Letter("W_o", "r", "m")].rows
    return {
        **_own_gauge(env),
        "residual": env.floats["query_input"][:-1],
        "head_projection": [[float(x.mid()) for x in row] for row in rows],
    }


LINKS = (
    _bank("main:normalise", "main:normalise change", "probability_change", _every_key),
    _bank("main:response", "main:response", "finite_response"),
    _bank("unlabelled:stable-change", "U13 ratio", "log_ratio", _picked, _one_key),
    _bank("needed:any-centre", "X2", "key_response"),
    _bank("needed:common-shift", "X3 ratios", "log_ratio", _picked, _one_key),
    _bank("needed:log1p-form", "X4", "log_normaliser", measure=_logarithm),
    _bank("main:joint", "main:joint", "decompose"),
    _bank("eq:kvcomponents", "eq:kvcomponents key", "key_response"),
    _bank("eq:kvcomponents", "eq:kvcomponents interaction", "interaction"),
    _bank("eq:atplinear", "eq:atplinear", "linear_response"),
    _bank("eq:kvfactorial", "eq:kvfactorial", "interaction"),
    _bank("eq:jointmatrix", "eq:jointmatrix matrices", "decompose"),
    _bank("eq:matrixincrement", "eq:matrixincrement divided", "key_response"),
    _bank("eq:rhoremainder", "eq:rhoremainder", "softmax_remainder"),
    _bank(
        "eq:quadraticinteraction",
        "eq:quadraticinteraction second order",
        "quadratic_interaction",
        measure=_half,
    ),
    _bank("main:kl", "main:kl mass", "divergence"),
    _bank("main:kl", "main:kl remainder", "softmax_remainder"),
    _bank("eq:remainderweights", "eq:remainderweights", "remainder_weights", _every_key),
    _bank("eq:klremainder", "eq:klremainder: ", "divergence"),
    _bank("eq:klremainder", "eq:klremainder mass", "divergence"),
    _bank("needed:kl-phi2", "X6", "divergence"),
    _bank("main:sparse", "main:sparse: ", "finite_response", arguments=_supported),
    _bank("eq:sparsetv", "eq:sparsetv", "total_variation", arguments=_supported, measure=_half),
    _bank("unlabelled:sparse-kl", "U14", "divergence", arguments=_supported),
    _bank(
        "unlabelled:positive-normaliser",
        "U15: ",
        "log_normaliser",
        arguments=_supported,
        measure=_logarithm,
    ),
    _bank("eq:groupdeletion", "eq:groupdeletion", "deletion_response"),
    _bank("unlabelled:deletion-jacobian", "U19 control", "deletion_jacobian"),
    _bank("needed:deletion-sigmoid", "X5: ", "deletion_response"),
    _bank("eq:singlerepair", "eq:singlerepair", "restoration_response", _picked_row, _one_key),
    _bank(
        "unlabelled:repair-sigmoid", "U16 response", "restoration_response", _picked_row, _one_key
    ),
    _bank("needed:stable-benefit", "X8", "restoration_benefit"),
    _bank("eq:softmaxmixed", "eq:softmaxmixed", "mixed_second_derivative"),
    _bank("eq:bandinteraction", "eq:bandinteraction", "band_interaction"),
    _bank("needed:band-closed-form", "X1: ", "band_interaction"),
    _bank("main:score", "main:score", "key_shift_scores"),
    _bank("eq:phasejacobian", "eq:phasejacobian generator", "key_shift_scores_linear"),
    Link(
        "eq:rho",
        "eq:rho divided difference",
        "phi1",
        lambda env: {"x": [env.floats["argument"]]},
        _first,
    ),
    _on_plane(
        "main:central", "main:central on a plane", "displacement", lambda env: env.floats["shift"]
    ),
    _on_plane(
        "main:integrate",
        "main:integrate on a plane",
        "displacement",
        lambda env: env.floats["shift"],
    ),
    _on_plane("eq:rotation", "eq:rotation", "rotate", _between),
    _on_plane("needed:half-angle", "X7", "displacement", lambda env: env.floats["shift"]),
    Link("unlabelled:chord-norm", "U1 chord", "chord_norm", _norm_plane, _first, _root),
    Link("eq:identity", "eq:identity matrix", "EffectiveWeights.output", _own_gauge, _outputs),
    Link("main:effective", "eq:gradient", "effective_weights", _own_gauge, _first),
    Link("eq:gradient", "eq:gradient", "effective_weights", _own_gauge, _first),
    Link(
        "unlabelled:rank-factor",
        "U5: ",
        "effective_weights",
        _own_gauge,
        lambda case: list(range(len(case["query_input"]) * len(case["values"][0]))),
    ),
    Link("eq:gauge", "eq:gauge matrix", "EffectiveWeights.output", _whole, _outputs),
    Link(
        "eq:residual",
        "eq:residual",
        "residual_write",
        _residual,
        lambda case: list(range(len(case["residual"]))),
    ),
    Link("unlabelled:hessian", "U9 diagonal", "curvature", _whole, _first),
    Link("eq:querylogodds", "eq:querylogodds normaliser", "log_ratios", _whole, _first),
    Link(
        "eq:phasecontent",
        "eq:phasecontent",
        "phase_context",
        _whole,
        lambda case: list(range(3 * len(case["original"]), 4 * len(case["original"]))),
    ),
    Link(
        "eq:independentgd",
        "eq:independentgd",
        "regression_step",
        _whole,
        _first,
        lambda number, env: number / env[sp.Symbol("eta")],
    ),
)

# Required entries whose functions compute something else than a side of one of their statements.
UNLINKED = {
    "eq:derivatives": "a derivative of the rotation; the core has its first, the generator",
    "unlabelled:two-key-readout": "scores sin θ are no floats",
    "main:tworemainders": "the difference of two functions, each linked under its own label",
    "unlabelled:small-displacement": "a limit, which no float function computes",
    "unlabelled:self-mass": "the own key's mass and value stand apart from the bank",
    "eq:atpcentered": "a contraction of a response, whose two functions are compared apart",
    "eq:jointpredictor": "a contraction of a response, whose two functions are compared apart",
    "main:certificate": "a bound, held to Arb as a property; KL and TV are linked under their own labels",
    "eq:certifiedlocalranking": "an implication, held to Arb as a property (proofs.numeric.truths)",
    "eq:features": "the statement is the score of a feature, the function the feature",
    "eq:original": "the core has no function of the original projections",
    "unlabelled:linear-attention-limit": "a limit, which no float function computes",
    "eq:tokenerror": "the statement sums over tokens, the function has each",
    "eq:bound": "Cauchy–Schwarz alone; the bound is held to Arb as a property",
    "unlabelled:differential": "the expansion of a product, for which there is no function",
    "unlabelled:key-shift-gauge": "the statement is a feature less the gauge, the function the gauge",
    "unlabelled:band-additivity": "two calls of a function, linked under main:score",
    "unlabelled:signed-projections": "the statement is the sum of the function's three results",
    "unlabelled:quantiser": "codes are held to the claims as a property (proofs.numeric.properties)",
    "unlabelled:repair-expansion": "one head's write; the function scores the writes of all heads",
    "unlabelled:regression-jacobian": "a prediction, of which the core has the weights",
    "eq:jointdownstreamfactorial": "margins of four executions, which the core does not compute",
}
