"""Adversarial inputs for the checks of readouts, drawn in batches from a seeded numpy generator.

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

    def only(self, index: int) -> "Batch":
        """A batch of one of the cases."""
        return Batch(
            {name: array[index : index + 1] for name, array in self.each.items()}, self.shared
        )

    def with_gaps(self) -> "Batch":
        """The same cases, but with gaps between the numbers in memory."""
        apart = {name: np.stack([array, array], -1)[..., 0] for name, array in self.each.items()}
        return Batch(apart, self.shared)

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
    return Batch({**rounded(each, dtype), "mask": masks(rng, count, keys)})


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
    indices = np.stack([rng.permutation(keys)[:members] for _ in range(3)])
    return Batch({**batch.each, **rounded(edits, dtype)}, {"groups": indices})


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
    return Batch({**batch.each, **rounded(edits, dtype)}, shared)


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
    return Batch(rounded(each, dtype), rounded(shared, dtype))


def choose(rng: Rng, *variants: np.ndarray) -> np.ndarray:
    """For every case of a batch, one of the variants at random."""
    stacked = np.stack(variants)
    kinds = rng.integers(len(variants), size=stacked.shape[1])
    return stacked[kinds, np.arange(stacked.shape[1])]


def _flip_dominance(rng: Rng, each: dict[str, np.ndarray], dtype: type) -> None:
    """In every fifth case raise all keys by about the leader's lead, so that attention flips."""
    lead = each["scores"].max(1, keepdims=True) - each["scores"]
    limit = 1000.0 if dtype is np.float64 else 200.0
    flipped = np.clip(lead + rng.normal(size=lead.shape), -limit, limit)
    flips = rng.random((len(lead), 1)) < 0.2
    each["score_delta"] = np.where(flips, flipped, each["score_delta"])
