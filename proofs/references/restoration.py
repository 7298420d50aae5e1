"""References for the restoration scores: benefits and their expansions, from recomputed writes."""

from typing import Any

from proofs.references.effective import project
from proofs.references.series import SeriesNumbers, variables
from proofs.references.vectors import (
    Matrix,
    Number,
    Vector,
    add,
    attend,
    dot,
    softmax,
    sub,
    total,
    weigh,
)


def write(num: Any, scores: Matrix, values: list[Matrix], output_projection: Any) -> Vector:
    """The projected write of all heads."""
    outputs = [weigh(num, softmax(num, s), v) for s, v in zip(scores, values, strict=True)]
    return project(num, outputs, output_projection)


def benefits(num: Any, strength: Number, case: dict) -> Vector:
    """‖e‖² − ‖e + Δ_j o‖² for moving each token j a fraction of the way to its original."""
    projection = case["output_projection"]
    original = write(num, case["original_scores"], case["original_values"], projection)
    error = sub(write(num, case["scores"], case["values"], projection), original)
    before = dot(num, error, error)
    results = []
    for key in _keys(case):
        after = sub(write(num, *_moved(key, strength, case), projection), original)
        results.append(before - dot(num, after, after))
    return results


def exact(num, **case) -> Vector:
    """The benefit of restoring each token."""
    return benefits(num, num.real(1.0), case)


def first_order(num, **case) -> Vector:
    """dB/dα at 0, a coefficient of the power series of B(α)."""
    return [benefit.coefficient(1) for benefit in _expansion(num, 1, case)]


def second_order(num, **case) -> Vector:
    """dB/dα + ½ d²B/dα² at 0, the coefficients of α and α²."""
    series = _expansion(num, 2, case)
    return [benefit.coefficient(1) + benefit.coefficient(2) for benefit in series]


def kept_distortion(num, scores, values, output_projection, kept, **_) -> Number:
    """‖o − o_whole‖ where only the kept keys are attended."""
    some = [attend(kept, s) for s in scores], [attend(kept, v) for v in values]
    whole = write(num, scores, values, output_projection)
    change = sub(write(num, *some, output_projection), whole)
    return num.sqrt(dot(num, change, change))


def write_error(num, **case) -> Number:
    """‖o − o_original‖."""
    projection = case["output_projection"]
    original = write(num, case["original_scores"], case["original_values"], projection)
    error = sub(write(num, case["scores"], case["values"], projection), original)
    return num.sqrt(dot(num, error, error))


def attention(num, **case) -> Vector:
    """Σ_h p."""
    probs = [softmax(num, s) for s in case["scores"]]
    return [total(num, (p[key] for p in probs)) for key in _keys(case)]


def value_norm(num, **case) -> Vector:
    """‖Σ_h p v W_o‖."""
    norms = []
    for key in _keys(case):
        parts = [
            [softmax(num, s)[key] * x for x in v[key]]
            for s, v in zip(case["scores"], case["values"], strict=True)
        ]
        vector = project(num, parts, case["output_projection"])
        norms.append(num.sqrt(dot(num, vector, vector)))
    return norms


def fisher(num, **case) -> Vector:
    """Σ_h p(1 − p)δ²."""
    result = [num.real(0.0)] * len(case["scores"][0])
    for s, o in zip(case["scores"], case["original_scores"], strict=True):
        probs = softmax(num, s)
        terms = [
            p * (num.real(1.0) - p) * (b - a) * (b - a) for p, a, b in zip(probs, s, o, strict=True)
        ]
        result = add(result, terms)
    return result


def _expansion(num: Any, order: int, case: dict) -> Vector:
    """B(α) for each token as a power series in the strength."""
    (strength,) = variables([num.real(0.0)], [order])
    return benefits(SeriesNumbers(num), strength, case)


def _keys(case: dict) -> range:
    return range(len(case["scores"][0]))


def _moved(key: int, strength: Number, case: dict) -> tuple[Matrix, list[Matrix]]:
    """Scores and values with one token moved towards its original in every head."""
    scores, values = [list(s) for s in case["scores"]], [list(v) for v in case["values"]]
    for head, (s, v) in enumerate(zip(scores, values, strict=True)):
        target = case["original_values"][head][key]
        s[key] = s[key] + strength * (case["original_scores"][head][key] - s[key])
        v[key] = [a + strength * (b - a) for a, b in zip(v[key], target, strict=True)]
    return scores, values
