"""Adversarial inputs for the checks, drawn in batches from a seeded numpy generator.

Each regime is a place where some plain formula of the paper loses its digits: dominant keys, tiny and
huge increments, increments with a large common part, subnormal probabilities, values with a large
common part, equal scores, a single key, masks. The cases of a batch share their shapes; arrays are
already rounded to the dtype under test, so that the float inputs are exact.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Case = dict[str, Any]
Rng = np.random.Generator


@dataclass(frozen=True)
class Batch:
    """Cases of one shape: `each` arrays have the cases on their first axis, `shared` is common to all."""

    each: dict[str, np.ndarray]
    shared: Case = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.each.values())))

    def case(self, index: int) -> Case:
        """One case on its own."""
        return {name: array[index] for name, array in self.each.items()} | self.shared

    def joined(self) -> Case:
        """All cases as one, with the batch axis first."""
        return {**self.each, **self.shared}


Draw = Callable[[Rng, type, int], Batch]


def spread(rng: Rng, shape: Any, low: float, high: float) -> np.ndarray:
    """Numbers of random sign whose decimal exponent is uniform in [low, high]."""
    return rng.choice([-1.0, 1.0], shape) * 10.0 ** rng.uniform(low, high, shape)


def smallest_exponent(dtype: type) -> float:
    """Decimal exponent of the smallest increments tried: products with them stay normal numbers."""
    return -300.0 if dtype is np.float64 else -30.0


def increments(rng: Rng, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Score increments, each case from one regime, |d| from the smallest exponent to 1e3."""
    one = (shape[0],) + (1,) * (len(shape) - 1)
    low = smallest_exponent(dtype)
    plain = rng.normal(size=shape)
    return _choose(
        rng,
        plain,
        spread(rng, shape, low, 0),
        spread(rng, shape, 0, 3),
        spread(rng, one, 0, 2) + spread(rng, one, -10, -2) * plain,
        plain * spread(rng, one, low, -3),
        np.where(rng.random(shape) < 0.5, 0.0, plain),
        spread(rng, shape, -12, 3),
    )


def scores(rng: Rng, shape: tuple[int, ...], dtype: type, dominant: int = 0) -> np.ndarray:
    """Scores, each case from one regime: ordinary, equal, one dominant key, a large common part."""
    one = (shape[0],) + (1,) * (len(shape) - 1)
    base = rng.normal(size=shape) * rng.choice([0.3, 1.0, 5.0], one)
    here = np.arange(shape[-1]) == dominant
    deepest = 745 if dtype is np.float64 else 100
    return _choose(
        rng,
        base,
        np.broadcast_to(rng.normal(size=one) * 10, shape),
        base + here * rng.uniform(5, 60, one),
        base + here * rng.uniform(60, deepest, one),
        base + rng.choice([-1.0, 1.0], one) * rng.uniform(100, 900, one),
        base,
    )


def vectors(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    """Vectors, each case from one regime: ordinary, large common part, mixed magnitudes, zeros."""
    one = (shape[0],) + (1,) * (len(shape) - 2) + shape[-1:]
    base = rng.normal(size=shape)
    return _choose(
        rng,
        base,
        base + spread(rng, one, 2, 6),
        spread(rng, shape, -6, 4),
        np.where(rng.random(shape) < 0.3, 0.0, base),
    )


def bank(rng: Rng, dtype: type, count: int) -> Batch:
    """One query over a bank: scores, values, score increments, value increments, gradient, mask."""
    keys, width = int(rng.choice([1, 2, 3, 5, 8, 17])), int(rng.integers(1, 4))
    dominant = int(rng.integers(keys))
    each = {
        "scores": scores(rng, (count, keys), dtype, dominant),
        "values": vectors(rng, (count, keys, width)),
        "score_delta": increments(rng, (count, keys), dtype),
        "second_delta": increments(rng, (count, keys), dtype),
        "linear_delta": increments(rng, (count, keys), dtype),
        "value_delta": vectors(rng, (count, keys, width)) * spread(rng, (count, 1, 1), -8, 1),
        "gradient": rng.normal(size=(count, width)),
    }
    _flip_dominance(rng, each, dtype)
    return Batch({**_rounded(each, dtype), "mask": _masks(rng, count, keys)})


def full_bank(rng: Rng, dtype: type, count: int) -> Batch:
    """A bank whose keys are all attended."""
    batch = bank(rng, dtype, count)
    return Batch({**batch.each, "mask": np.ones_like(batch.each["mask"])}, batch.shared)


def deletions(rng: Rng, dtype: type, count: int) -> Batch:
    """A bank with groups to delete, each leaving an attended key; the dominant key goes first."""
    batch = full_bank(rng, dtype, count)
    keys = batch.each["mask"].shape[1]
    removed = rng.random((3, keys)) < 0.4
    removed[0] = np.arange(keys) == batch.each["scores"].mean(0).argmax()
    removed[:, int(rng.integers(keys))] = False
    return Batch(batch.each, {"removed": removed})


def groups(rng: Rng, dtype: type, count: int) -> Batch:
    """A bank with sparse candidate edits; some groups hold every attended key."""
    batch = full_bank(rng, dtype, count)
    _, keys, width = batch.each["values"].shape
    members = int(rng.integers(1, keys + 1))
    edits = {
        "group_scores": increments(rng, (count, 3, members), dtype),
        "group_values": vectors(rng, (count, 3, members, width))
        * spread(rng, (count, 1, 1, 1), -8, 1),
    }
    chosen = np.stack([rng.permutation(keys)[:members] for _ in range(3)])
    return Batch({**batch.each, **_rounded(edits, dtype)}, {"groups": chosen})


def proper_groups(rng: Rng, dtype: type, count: int) -> Batch:
    """Groups that leave at least one key."""
    batch = groups(rng, dtype, count)
    while batch.shared["groups"].shape[1] == batch.each["scores"].shape[1]:
        batch = groups(rng, dtype, count)
    return batch


def spans(rng: Rng, dtype: type, count: int) -> Batch:
    """Contiguous groups; a third of the batches tame enough for the quotient, a third without heavy spans."""
    batch = full_bank(rng, dtype, count)
    _, keys, width = batch.each["values"].shape
    kind = rng.choice(["wild", "tame", "light"])
    if kind == "light" and keys >= 5:
        batch.each["scores"] = (0.3 * rng.normal(size=(count, keys))).astype(dtype)
    elif kind != "wild":
        top = batch.each["scores"].max(1, keepdims=True)
        batch.each["scores"] = np.maximum(batch.each["scores"], top - dtype(30))
    members = int(rng.integers(1, keys + 1)) if kind != "light" else max(1, keys // 4)
    edits = {
        "group_scores": increments(rng, (count, 3, members), dtype),
        "group_values": vectors(rng, (count, 3, members, width))
        * spread(rng, (count, 1, 1, 1), -8, 1),
    }
    if kind != "wild":
        edits["group_scores"] = np.clip(edits["group_scores"], -15, 15)
    starts = rng.integers(0, keys - members + 1, 3)
    shared = {
        "starts": starts,
        "members": members,
        "groups": starts[:, None] + np.arange(members),
    }
    return Batch({**batch.each, **_rounded(edits, dtype)}, shared)


def proper_spans(rng: Rng, dtype: type, count: int) -> Batch:
    """Spans that leave at least one key."""
    batch = spans(rng, dtype, count)
    while batch.shared["members"] == batch.each["scores"].shape[1]:
        batch = spans(rng, dtype, count)
    return batch


def corrupted_cache(rng: Rng, dtype: type, count: int) -> Batch:
    """Two heads over a cache and its corrupted copy, with an output projection."""
    heads, keys, width, model = 2, int(rng.integers(2, 5)), 2, 3
    each = {
        "scores": scores(rng, (count, heads, keys), dtype),
        "values": vectors(rng, (count, heads, keys, width)),
    }
    near = 10.0 ** rng.uniform(-4, 0, (count, 1, 1))
    each["original_scores"] = each["scores"] + near * rng.normal(size=(count, heads, keys))
    noise = rng.normal(size=(count, heads, keys, width))
    each["original_values"] = each["values"] + near[..., None] * noise
    shared = {"output_projection": rng.normal(size=(heads, width, model))}
    return Batch(_rounded(each, dtype), _rounded(shared, dtype))


def rotary(rng: Rng, dtype: type, count: int) -> Batch:
    """Planes, a feature, a query with keys, and shifts whose angles reach 1e6 radians."""
    planes, rest, keys = int(rng.integers(1, 6)), int(rng.integers(0, 3)), int(rng.integers(1, 5))
    width = 2 * planes + rest
    frequencies = rng.choice([10.0, 1e4, 1e6]) ** -(np.arange(planes) / planes)
    frequencies[rng.random(planes) < 0.2] = 0.0
    if rng.random() < 0.5:
        frequencies = frequencies.astype(np.float32).astype(np.float64)
    each = {
        "vector": vectors(rng, (count, width)),
        "query": vectors(rng, (count, width)),
        "keys": vectors(rng, (count, keys, width)),
    }
    usual = rng.choice([0.0, 1.0, 16.0, 128.0, -16.0], count)
    shift = np.where(rng.random(count) < 0.5, usual, spread(rng, count, -12, 6))
    shared = {
        "frequencies": frequencies,
        "layout": str(rng.choice(["half", "interleaved"])),
        "band": rng.random(planes) < 0.7,
        "scaling": float(dtype(1 / np.sqrt(width))),
    }
    return Batch({**_rounded(each, dtype), "shift": shift}, shared)


def arguments(rng: Rng, dtype: type, count: int) -> Batch:
    """Arguments of the divided differences: zero, tiny, around the switches, up to overflow."""
    wide = dtype is np.float64
    pieces = [
        np.zeros((count, 1)),
        spread(rng, (count, 4), smallest_exponent(dtype), 0),
        spread(rng, (count, 4), 0, 2.8 if wide else 1.9),
        rng.choice([-1.0, 1.0], (count, 2)) * (1 + spread(rng, (count, 2), -7, -3)),
        rng.uniform(695, 705, (count, 1)) if wide else rng.uniform(80, 88, (count, 1)),
    ]
    return Batch({"x": np.concatenate(pieces, 1).astype(dtype)})


def affine(rng: Rng, dtype: type, count: int) -> Batch:
    """Query inputs, features, values, a gauge, a mask, and what projects them."""
    keys, inputs, width = (
        int(rng.choice([1, 2, 3, 6])),
        int(rng.integers(2, 5)),
        int(rng.integers(1, 4)),
    )
    reach = rng.choice([0.01, 1.0, 6.0], (count, 1, 1))
    each = {
        "query_input": rng.normal(size=(count, inputs)),
        "anchor_input": rng.normal(size=(count, inputs)),
        "features": rng.normal(size=(count, keys, inputs)) * reach,
        "values": vectors(rng, (count, keys, width)),
        "gauge": rng.normal(size=(count, inputs)) * rng.choice([0.0, 1.0], (count, 1)),
        "residual": rng.normal(size=(count, 3)),
        "key_shift": rng.normal(size=(count, 2)),
    }
    shared = {
        "head_projection": rng.normal(size=(width, 3)).astype(dtype),
        "projection": rng.normal(size=(inputs, 2)).astype(dtype),
        "reference": int(rng.integers(keys)),
        "pairs": rng.integers(0, keys, (2, 2)),
    }
    return Batch({**_rounded(each, dtype), "mask": _masks(rng, count, keys)}, shared)


def projected(rng: Rng, dtype: type, count: int) -> Batch:
    """Head weights: a query projection over rotary keys, head writes, an output projection."""
    base = rotary(rng, dtype, count)
    width, model = base.each["vector"].shape[1], int(rng.integers(1, 4))
    heads, value = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    each = {
        "head_writes": vectors(rng, (count, heads, value)),
        "error": vectors(rng, (count, model)),
        "change": vectors(rng, (count, 3, model)) * spread(rng, (count, 1, 1), -14, 1),
    }
    shared = {
        "query_weight": vectors(rng, (1, model, width))[0],
        "query_bias": vectors(rng, (1, width))[0],
        "output_projection": vectors(rng, (1, heads, value, model))[0],
        "gradient": vectors(rng, (1, model))[0],
    }
    position = {"position": float(rng.integers(0, 100_000))}
    return Batch(
        {**base.each, **_rounded(each, dtype)},
        {**base.shared, **_rounded(shared, dtype), **position},
    )


def cells(rng: Rng, dtype: type, count: int) -> Batch:
    """Four readouts that differ a little or a lot."""
    base = vectors(rng, (count, int(rng.integers(1, 5))))
    scale = 10.0 ** rng.uniform(-3, 1, (count, 1)) * (1 + np.abs(base).max(1, keepdims=True))
    names = ("original", "moved", "rewritten", "reordered")
    return Batch(
        {name: (base + scale * rng.normal(size=base.shape)).astype(dtype) for name in names}
    )


def episode(rng: Rng, dtype: type, count: int) -> Batch:
    """Support examples and predictions of the regression learner."""
    examples, width = int(rng.integers(1, 8)), int(rng.integers(1, 5))
    each = {
        "inputs": vectors(rng, (count, examples, width)),
        "targets": vectors(rng, (count, examples)),
        "predictions": rng.normal(size=(count, examples)),
        "reference": rng.normal(size=(count, examples)),
    }
    return Batch(_rounded(each, dtype))


def _choose(rng: Rng, *variants: np.ndarray) -> np.ndarray:
    """For every case of a batch, one of the variants at random."""
    stacked = np.stack(variants)
    kinds = rng.integers(len(variants), size=stacked.shape[1])
    return stacked[kinds, np.arange(stacked.shape[1])]


def _rounded(arrays: dict[str, np.ndarray], dtype: type) -> dict[str, np.ndarray]:
    return {name: array.astype(dtype) for name, array in arrays.items()}


def _masks(rng: Rng, count: int, keys: int) -> np.ndarray:
    """Every third case attends a random subset that is never empty."""
    masks = rng.random((count, keys)) < 0.6
    masks[np.arange(count), rng.integers(keys, size=count)] = True
    return masks | (rng.random((count, 1)) < 0.7)


def _flip_dominance(rng: Rng, each: dict[str, np.ndarray], dtype: type) -> None:
    """In every fifth case raise all keys by about the leader's lead, so that attention flips."""
    lead = each["scores"].max(1, keepdims=True) - each["scores"]
    limit = 1000.0 if dtype is np.float64 else 200.0
    flipped = np.clip(lead + rng.normal(size=lead.shape), -limit, limit)
    chosen = rng.random((len(lead), 1)) < 0.2
    each["score_delta"] = np.where(chosen, flipped, each["score_delta"])
