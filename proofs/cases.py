"""Adversarial inputs for the comparisons: one case per call, from a seeded numpy generator.

Each regime is a place where some plain formula of the paper loses its digits: dominant keys, tiny and
huge increments, increments with a large common part, subnormal probabilities, values with a large
common part, equal scores, a single key, masks. A case is a dict of arrays and plain lists; arrays are
already rounded to the dtype under test, so that the float inputs are exact.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

Case = dict[str, Any]
Draw = Callable[[np.random.Generator, type], Case]

_LARGEST_SHIFT = 1e6


def spread(rng: np.random.Generator, size: Any, low: float, high: float) -> np.ndarray:
    """Numbers of random sign whose decimal exponent is uniform in [low, high]."""
    signs = rng.choice([-1.0, 1.0], size)
    return signs * 10.0 ** rng.uniform(low, high, size)


def smallest_exponent(dtype: type) -> float:
    """Decimal exponent of the smallest increments tried: products with them stay normal numbers."""
    return -300.0 if dtype is np.float64 else -30.0


def increments(rng: np.random.Generator, size: Any, dtype: type) -> np.ndarray:
    """Score increments from one regime, |d| from the smallest exponent to 1e3."""
    kind = rng.integers(7)
    if kind == 0:
        return rng.normal(size=size)
    if kind == 1:
        return spread(rng, size, smallest_exponent(dtype), 0)
    if kind == 2:
        return spread(rng, size, 0, 3)
    if kind == 3:
        return spread(rng, (), 0, 2) + spread(rng, (), -10, -2) * rng.normal(size=size)
    if kind == 4:
        return rng.normal(size=size) * spread(rng, (), smallest_exponent(dtype), -3)
    if kind == 5:
        return np.where(rng.random(size) < 0.5, 0.0, rng.normal(size=size))
    return spread(rng, size, -12, 3)


def scores(rng: np.random.Generator, keys: int, dtype: type) -> np.ndarray:
    """Scores from one regime: ordinary, equal, one dominant key, very negative tails."""
    kind = rng.integers(6)
    base = rng.normal(size=keys) * rng.choice([0.3, 1.0, 5.0])
    if kind == 0:
        return np.full(keys, rng.normal() * 10)
    if kind == 1:
        base[rng.integers(keys)] += rng.uniform(5, 60)
    if kind == 2:
        base[rng.integers(keys)] += rng.uniform(60, 745 if dtype is np.float64 else 100)
    if kind == 3:
        base += rng.choice([-1, 1]) * rng.uniform(100, 900)
    return base


def vectors(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Value vectors from one regime: ordinary, large common part, mixed magnitudes, zeros."""
    kind = rng.integers(4)
    base = rng.normal(size=shape)
    if kind == 0:
        return base + spread(rng, shape[-1:], 2, 6)
    if kind == 1:
        return spread(rng, shape, -6, 4)
    if kind == 2:
        return np.where(rng.random(shape) < 0.3, 0.0, base)
    return base


def bank(rng: np.random.Generator, dtype: type) -> Case:
    """One query over a bank: scores, values, two score increments, value increments, mask."""
    keys = int(rng.choice([1, 2, 3, 5, 8, 17]))
    width = int(rng.integers(1, 4))
    case = {
        "scores": scores(rng, keys, dtype),
        "values": vectors(rng, (keys, width)),
        "score_delta": increments(rng, keys, dtype),
        "second_delta": increments(rng, keys, dtype),
        "linear_delta": increments(rng, keys, dtype),
        "value_delta": vectors(rng, (keys, width)) * spread(rng, (), -8, 1),
        "gradient": rng.normal(size=width),
    }
    _against_dominance(rng, case, dtype)
    mask = np.ones(keys, dtype=bool)
    if keys > 2 and rng.random() < 0.3:
        mask[rng.permutation(keys)[: rng.integers(1, keys - 1)]] = False
    return {name: array.astype(dtype) for name, array in case.items()} | {"mask": mask}


def full_bank(rng: np.random.Generator, dtype: type) -> Case:
    """A bank whose keys are all attended."""
    case = bank(rng, dtype)
    return case | {"mask": np.ones_like(case["mask"])}


def deletions(rng: np.random.Generator, dtype: type) -> Case:
    """A bank with groups to delete, each leaving an attended key; the dominant key often goes."""
    case = bank(rng, dtype)
    keys = len(case["mask"])
    attended = np.flatnonzero(case["mask"])
    removed = rng.random((3, keys)) < 0.4
    removed[0] = case["scores"] == case["scores"][attended].max()
    removed[:, rng.choice(attended)] = False
    return case | {"removed": removed}


def groups(rng: np.random.Generator, dtype: type) -> Case:
    """A bank with sparse candidate edits; some groups hold every attended key."""
    case = full_bank(rng, dtype)
    keys, width = case["values"].shape
    members = int(rng.integers(1, keys + 1))
    chosen = np.stack([rng.permutation(keys)[:members] for _ in range(3)])
    edits = {
        "group_scores": np.stack([increments(rng, members, dtype) for _ in range(3)]),
        "group_values": vectors(rng, (3, members, width)) * spread(rng, (), -8, 1),
    }
    return case | {name: array.astype(dtype) for name, array in edits.items()} | {"groups": chosen}


def rotary(rng: np.random.Generator, dtype: type) -> Case:
    """Planes, a feature, a query with keys, and a shift whose angles reach 1e6 radians."""
    planes, rest, keys = int(rng.integers(1, 6)), int(rng.integers(0, 3)), int(rng.integers(1, 5))
    width = 2 * planes + rest
    frequencies = rng.choice([10.0, 1e4, 1e6]) ** -(np.arange(planes) / planes)
    frequencies[rng.random(planes) < 0.2] = 0.0
    if rng.random() < 0.5:
        frequencies = frequencies.astype(np.float32).astype(np.float64)
    shift = rng.choice([0.0, 1.0, 16.0, 128.0, -16.0, float(spread(rng, (), -12, 6))])
    arrays = {"vector": vectors(rng, (width,)), "query": vectors(rng, (width,))}
    arrays["keys"] = vectors(rng, (keys, width))
    return {name: array.astype(dtype) for name, array in arrays.items()} | {
        "frequencies": frequencies,
        "shift": float(np.clip(shift, -_LARGEST_SHIFT, _LARGEST_SHIFT)),
        "layout": str(rng.choice(["half", "interleaved"])),
        "band": rng.random(planes) < 0.7,
        "scaling": float(dtype(1 / np.sqrt(width))),
    }


def arguments(rng: np.random.Generator, dtype: type) -> Case:
    """Arguments of the divided differences: zero, tiny, around the switches, up to overflow."""
    pieces = [
        [0.0],
        spread(rng, 4, smallest_exponent(dtype), 0),
        spread(rng, 4, 0, 2.8 if dtype is np.float64 else 1.9),
        rng.choice([-1.0, 1.0], 2) * (1 + spread(rng, 2, -7, -3)),
        [rng.uniform(695, 705)] if dtype is np.float64 else [rng.uniform(80, 88)],
    ]
    return {"x": np.concatenate(pieces).astype(dtype)}


def affine(rng: np.random.Generator, dtype: type) -> Case:
    """Query inputs, features, values, a gauge, a mask and pairs of keys."""
    keys, inputs, width = int(rng.choice([1, 2, 3, 6])), int(rng.integers(2, 5)), int(rng.integers(1, 4))
    reach = rng.choice([0.01, 1.0, 6.0])
    arrays = {
        "query_input": rng.normal(size=inputs),
        "anchor_input": rng.normal(size=inputs),
        "features": rng.normal(size=(keys, inputs)) * reach,
        "values": vectors(rng, (keys, width)),
        "gauge": rng.normal(size=inputs) * rng.choice([0.0, 1.0]),
    }
    mask = np.ones(keys, dtype=bool)
    if keys > 2 and rng.random() < 0.3:
        mask[rng.integers(keys)] = False
    pairs = rng.integers(0, keys, (2, 2))
    return {name: array.astype(dtype) for name, array in arrays.items()} | {
        "mask": mask,
        "reference": int(rng.integers(keys)),
        "pairs": pairs,
    }


def projected(rng: np.random.Generator, dtype: type) -> Case:
    """Head weights: a query projection over rotary keys, head writes, an output projection."""
    base = rotary(rng, dtype)
    width, model = len(base["vector"]), int(rng.integers(1, 4))
    heads, value = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    arrays = {
        "query_weight": vectors(rng, (model, width)),
        "query_bias": vectors(rng, (width,)),
        "head_writes": vectors(rng, (heads, value)),
        "output_projection": vectors(rng, (heads, value, model)),
        "gradient": vectors(rng, (model,)),
        "error": vectors(rng, (model,)),
        "change": vectors(rng, (3, model)) * spread(rng, (), -14, 1),
    }
    position = float(rng.integers(0, 100_000))
    return base | {name: array.astype(dtype) for name, array in arrays.items()} | {"position": position}


def cells(rng: np.random.Generator, dtype: type) -> Case:
    """Four readouts that differ a little or a lot."""
    width = int(rng.integers(1, 5))
    base = vectors(rng, (width,))
    scale = float(10.0 ** rng.uniform(-3, 1)) * (1 + np.abs(base).max())
    names = ("original", "moved", "rewritten", "reordered")
    return {name: (base + scale * rng.normal(size=width)).astype(dtype) for name in names}


def episode(rng: np.random.Generator, dtype: type) -> Case:
    """Support examples and predictions of the regression learner."""
    examples, width = int(rng.integers(1, 8)), int(rng.integers(1, 5))
    arrays = {
        "inputs": vectors(rng, (examples, width)),
        "targets": vectors(rng, (examples,)),
        "predictions": rng.normal(size=examples),
        "reference": rng.normal(size=examples),
    }
    return {name: array.astype(dtype) for name, array in arrays.items()}


def _against_dominance(rng: np.random.Generator, case: Case, dtype: type) -> None:
    """Sometimes raise every key but the dominant one by about its lead, so that attention flips."""
    if rng.random() < 0.2:
        lead = case["scores"].max() - case["scores"]
        limit = 1000.0 if dtype is np.float64 else 200.0
        case["score_delta"] = np.clip(lead + rng.normal(size=len(lead)), -limit, limit)
