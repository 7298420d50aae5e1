"""References for the restoration scores: benefits and their expansions, from recomputed writes."""

from typing import Any

from proofs.references.bank import Matrix, Number, Vector, add, dot, softmax, sub, total, weigh
from proofs.references.effective import project

# The expansion along the joint path is read off at a strength so small that the next order vanishes.
_STRENGTH = 2.0**-400


def write(num: Any, scores: Matrix, values: list[Matrix], output_projection: Any) -> Vector:
    """The projected write of all heads."""
    outputs = [weigh(num, softmax(num, s), v) for s, v in zip(scores, values, strict=True)]
    return project(num, outputs, output_projection)


def benefit(num: Any, key: int, strength: Number, **case: Any) -> Number:
    """‖e‖² − ‖e + Δ_j o‖² for moving one token a fraction of the way to its original."""
    projection = case["output_projection"]
    original = write(num, case["original_scores"], case["original_values"], projection)
    error = sub(write(num, case["scores"], case["values"], projection), original)
    scores = [
        [
            a + strength * (b - a) if k == key else a
            for k, (a, b) in enumerate(zip(s, o, strict=True))
        ]
        for s, o in zip(case["scores"], case["original_scores"], strict=True)
    ]
    values = [
        [
            [a + strength * (b - a) for a, b in zip(v, w, strict=True)] if k == key else v
            for k, (v, w) in enumerate(zip(head, target, strict=True))
        ]
        for head, target in zip(case["values"], case["original_values"], strict=True)
    ]
    after = sub(write(num, scores, values, projection), original)
    return dot(num, error, error) - dot(num, after, after)


def exact(num, **case) -> Vector:
    """The benefit of restoring each token."""
    return [benefit(num, key, num.real(1.0), **case) for key in _keys(case)]


def first_order(num, **case) -> Vector:
    """dB/dα at 0."""
    small = num.real(_STRENGTH)
    return [_odd(num, key, small, case) for key in _keys(case)]


def second_order(num, **case) -> Vector:
    """dB/dα + ½ d²B/dα² at 0."""
    small = num.real(_STRENGTH)
    return [_odd(num, key, small, case) + _even(num, key, small, case) for key in _keys(case)]


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


def _keys(case: dict) -> range:
    return range(len(case["scores"][0]))


def _odd(num: Any, key: int, small: Number, case: dict) -> Number:
    gap = benefit(num, key, small, **case) - benefit(num, key, -small, **case)
    return gap / (num.real(2.0) * small)


def _even(num: Any, key: int, small: Number, case: dict) -> Number:
    both = benefit(num, key, small, **case) + benefit(num, key, -small, **case)
    return both / (num.real(2.0) * small * small)
