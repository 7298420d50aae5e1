"""Numbers from every regime, drawn for batches from a seeded numpy generator.

Each regime is a place where some plain formula of the paper loses its digits: dominant keys, tiny and
huge increments, increments with a large common part, subnormal probabilities, values with a large
common part, equal scores, a single key, increments up to the largest number.
"""

from typing import Any

import numpy as np

Rng = np.random.Generator


def spread(rng: Rng, shape: Any, low: float, high: float) -> np.ndarray:
    """Numbers of random sign whose decimal exponent is uniform in [low, high]."""
    return rng.choice([-1.0, 1.0], shape) * 10.0 ** rng.uniform(low, high, shape)


def smallest_exponent(dtype: type) -> float:
    """Decimal exponent of the smallest increments tried: products with them stay normal numbers."""
    return -300.0 if dtype is np.float64 else -30.0


def increments(rng: Rng, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Score increments, each case from one regime, |d| from the smallest exponent to 1e3."""
    per_case = (shape[0],) + (1,) * (len(shape) - 1)
    low = smallest_exponent(dtype)
    plain = rng.normal(size=shape)
    return choose(
        rng,
        plain,
        spread(rng, shape, low, 0),
        spread(rng, shape, 0, 3),
        spread(rng, per_case, 0, 2) + spread(rng, per_case, -10, -2) * plain,
        plain * spread(rng, per_case, low, -3),
        np.where(rng.random(shape) < 0.5, 0.0, plain),
        spread(rng, shape, -12, 3),
    )


def scores(rng: Rng, shape: tuple[int, ...], dtype: type, dominant: int = 0) -> np.ndarray:
    """Scores, each case from one regime: ordinary, equal, one dominant key, a large common part."""
    per_case = (shape[0],) + (1,) * (len(shape) - 1)
    base = rng.normal(size=shape) * rng.choice([0.3, 1.0, 5.0], per_case)
    here = np.arange(shape[-1]) == dominant
    deepest = 745 if dtype is np.float64 else 100
    return choose(
        rng,
        base,
        np.broadcast_to(rng.normal(size=per_case) * 10, shape),
        base + here * rng.uniform(5, 60, per_case),
        base + here * rng.uniform(60, deepest, per_case),
        base + rng.choice([-1.0, 1.0], per_case) * rng.uniform(100, 900, per_case),
        base,
    )


def vectors(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    """Vectors, each case from one regime: ordinary, large common part, mixed magnitudes, zeros."""
    per_case = (shape[0],) + (1,) * (len(shape) - 2) + shape[-1:]
    base = rng.normal(size=shape)
    return choose(
        rng,
        base,
        base + spread(rng, per_case, 2, 6),
        spread(rng, shape, -6, 4),
        np.where(rng.random(shape) < 0.3, 0.0, base),
    )


def rounded(arrays: dict[str, np.ndarray], dtype: type) -> dict[str, np.ndarray]:
    """The arrays in the dtype under test."""
    return {name: array.astype(dtype) for name, array in arrays.items()}


def masks(rng: Rng, count: int, keys: int) -> np.ndarray:
    """Every third case attends a random subset that is never empty."""
    attended = rng.random((count, keys)) < 0.6
    attended[np.arange(count), rng.integers(keys, size=count)] = True
    return attended | (rng.random((count, 1)) < 0.7)


def choose(rng: Rng, *variants: np.ndarray) -> np.ndarray:
    """For every case of a batch, one of the variants at random."""
    stacked = np.stack(variants)
    kinds = rng.integers(len(variants), size=stacked.shape[1])
    return stacked[kinds, np.arange(stacked.shape[1])]


def far_exponent(dtype: type) -> float:
    """Decimal exponent of the furthest increments whose products with values and masses are numbers."""
    return float(np.log10(np.finfo(dtype).max)) - 14


def with_far_keys(rng: Rng, deltas: np.ndarray, exponent: float) -> np.ndarray:
    """In every fourth case some keys go, or come, by increments of one sign up to 10^exponent."""
    each = (len(deltas),) + (1,) * (deltas.ndim - 1)
    far = rng.choice([-1.0, 1.0], each) * 10.0 ** rng.uniform(3, exponent, deltas.shape)
    chosen = (rng.random(each) < 0.25) & (rng.random(deltas.shape) < 0.4)
    return np.where(chosen, far, deltas).astype(deltas.dtype)


def flip_dominance(rng: Rng, each: dict[str, np.ndarray], dtype: type) -> None:
    """In every fifth case raise all keys by about the leader's lead, so that attention flips."""
    lead = each["scores"].max(1, keepdims=True) - each["scores"]
    limit = 1000.0 if dtype is np.float64 else 200.0
    flipped = np.clip(lead + rng.normal(size=lead.shape), -limit, limit)
    flips = rng.random((len(lead), 1)) < 0.2
    each["score_delta"] = np.where(flips, flipped, each["score_delta"])
