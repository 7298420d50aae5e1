"""Lists of numbers of any kind, and the softmax of scores, as their definitions state them."""

from typing import Any

Number = Any
Vector = list[Number]
Matrix = list[Vector]


def attend(mask: list[bool], per_key: list[Any]) -> list[Any]:
    """Entries at the attended keys."""
    return [entry for is_attended, entry in zip(mask, per_key, strict=True) if is_attended]


def scatter(num: Any, mask: list[bool], entries: Vector) -> Vector:
    """Entries put back at the attended keys, zero elsewhere."""
    remaining = iter(entries)
    return [next(remaining) if attended else num.real(0.0) for attended in mask]


def total(num: Any, terms: Any) -> Number:
    """Σ of the terms."""
    return sum(terms, num.real(0.0))


def softmax(num: Any, scores: Vector) -> Vector:
    """p_j = e^{s_j}/Σ e^{s_k}."""
    weights = [num.exp(score) for score in scores]
    mass = total(num, weights)
    return [weight / mass for weight in weights]


def weigh(num: Any, weights: Vector, vectors: Matrix) -> Vector:
    """Σ_j w_j x_j."""
    width = len(vectors[0])
    return [
        total(num, (w * x[k] for w, x in zip(weights, vectors, strict=True))) for k in range(width)
    ]


def add(x: Vector, y: Vector) -> Vector:
    """x + y."""
    return [a + b for a, b in zip(x, y, strict=True)]


def sub(x: Vector, y: Vector) -> Vector:
    """x − y."""
    return [a - b for a, b in zip(x, y, strict=True)]


def dot(num: Any, x: Vector, y: Vector) -> Number:
    """⟨x, y⟩."""
    return total(num, (a * b for a, b in zip(x, y, strict=True)))
