"""Adversarial inputs for the checks of readouts: banks, groups, spans and caches of every regime.

What is not attended may be NaN or infinite. The cases of a batch share their shapes; arrays are already
rounded to the dtype under test, so that the float inputs are exact.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from proofs.numeric.regimes import (
    Rng,
    far_exponent,
    flip_dominance,
    increments,
    masks,
    rounded,
    scores,
    spread,
    vectors,
    with_far_keys,
)

Case = dict[str, Any]


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

# What belongs to a key, so that it may be anything where the key is not attended.
_PER_KEY = {"scores", "values", "score_delta", "second_delta", "linear_delta", "value_delta"}


def bank(rng: Rng, dtype: type, count: int) -> Batch:
    """One query over a bank: scores, values, score increments, value increments, gradient, mask.

    Score increments reach so far that their products with values are still numbers. What is not
    attended may be anything, NaN too.
    """
    return _spoiled(rng, _bank(rng, dtype, count))


def wide_bank(rng: Rng, dtype: type, count: int) -> Batch:
    """A bank for what stays bounded: increments up to the largest number, values up to half of it.

    Error bounds are float64 themselves, so that values of that type have to leave them some room.
    """
    batch = _bank(rng, dtype, count)
    most = float(np.finfo(dtype).max)
    batch.each["score_delta"] = with_far_keys(rng, batch.each["score_delta"], float(np.log10(most)))
    limit = most / 2 if dtype is np.float32 else most / 16
    huge = {name: rng.random((count, 1, 1)) < 0.2 for name in ("values", "value_delta")}
    # Values and increments of half of the largest number could add up to a response beyond it.
    share = np.where(huge["values"] & huge["value_delta"], 0.25, 1.0)
    for name, chosen in huge.items():
        array = batch.each[name]
        replaced = share * rng.uniform(-limit, limit, array.shape)
        batch.each[name] = np.where(chosen, replaced, array).astype(dtype)
    return _spoiled(rng, batch)


def full_bank(rng: Rng, dtype: type, count: int) -> Batch:
    """A bank whose keys are all attended; a third of the batches tame enough for quotients of edits."""
    each = _bank(rng, dtype, count).each
    if rng.random() < 1 / 3:
        top = each["scores"].max(1, keepdims=True)
        each["scores"] = np.maximum(each["scores"], top - dtype(30))
        each["score_delta"] = np.clip(each["score_delta"], -15, 15)
    return Batch({**each, "mask": np.ones_like(each["mask"])})


def _bank(rng: Rng, dtype: type, count: int) -> Batch:
    """A bank with numbers everywhere."""
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
    flip_dominance(rng, each, dtype)
    each = rounded(each, dtype)
    each["score_delta"] = with_far_keys(rng, each["score_delta"], far_exponent(dtype))
    return Batch({**each, "mask": masks(rng, count, keys)})


def deletions(rng: Rng, dtype: type, count: int) -> Batch:
    """A bank with groups to delete: the dominant key, all keys but one, and some, each leaving a key."""
    batch = full_bank(rng, dtype, count)
    keys = batch.each["mask"].shape[1]
    removed = rng.random((3, keys)) < 0.4
    removed[0] = np.arange(keys) == batch.each["scores"].mean(0).argmax()
    removed[1] = True
    removed[:, int(rng.integers(keys))] = False
    return Batch(batch.each, {"removed": removed})


def groups(rng: Rng, dtype: type, count: int) -> Batch:
    """A bank with sparse candidate edits; some groups hold every attended key.

    A third of the batches is tame enough for the quotient, with groups that hold most of the mass and
    increments that share a large part; in another third some keys are not attended.
    """
    kind = rng.choice(["wild", "tame", "masked"])
    batch = full_bank(rng, dtype, count)
    keys = batch.each["scores"].shape[1]
    members = int(rng.integers(1, keys + 1))
    indices = np.stack([rng.permutation(keys)[:members] for _ in range(3)])
    each = {**batch.each, **_group_edits(rng, batch, members, dtype)}
    if kind == "tame":
        each |= _tame(rng, each, indices[0], dtype)
    if kind == "masked":
        each["mask"] = masks(rng, count, keys)
        each["mask"][:, indices[:, 0]] = True
        each = _spoiled(rng, Batch(each)).each
        inside = each["mask"][:, indices]
        each["group_scores"] = np.where(inside, each["group_scores"], np.nan).astype(dtype)
        each["group_values"] = np.where(inside[..., None], each["group_values"], np.nan)
        each["group_values"] = each["group_values"].astype(dtype)
    return Batch(each, {"groups": indices})


def proper_groups(rng: Rng, dtype: type, count: int) -> Batch:
    """Groups of attended keys that leave at least one key."""
    batch = groups(rng, dtype, count)
    while _leaves_nothing(batch) or not batch.each["mask"].all():
        batch = groups(rng, dtype, count)
    return batch


def _leaves_nothing(batch: Batch) -> bool:
    return batch.shared["groups"].shape[1] == batch.each["scores"].shape[1]


def spans(rng: Rng, dtype: type, count: int) -> Batch:
    """Contiguous groups; a third of the batches tame enough for the quotient, a third without heavy spans."""
    batch = full_bank(rng, dtype, count)
    keys = batch.each["scores"].shape[1]
    kind = rng.choice(["wild", "tame", "light"])
    if kind == "light" and keys >= 5:
        batch.each["scores"] = (0.3 * rng.normal(size=(count, keys))).astype(dtype)
    elif kind != "wild":
        top = batch.each["scores"].max(1, keepdims=True)
        batch.each["scores"] = np.maximum(batch.each["scores"], top - dtype(30))
    members = int(rng.integers(1, keys + 1)) if kind != "light" else max(1, keys // 4)
    edits = _group_edits(rng, batch, members, dtype)
    if kind != "wild":
        edits["group_scores"] = np.clip(edits["group_scores"], -15, 15)
    starts = rng.integers(0, keys - members + 1, 3)
    shared = {
        "starts": starts,
        "members": members,
        "groups": starts[:, None] + np.arange(members),
    }
    return Batch({**batch.each, **edits}, shared)


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


def _spoiled(rng: Rng, batch: Batch) -> Batch:
    """The batch with NaN or infinity wherever a key is not attended, in half of the cases."""
    mask, each = batch.each["mask"], dict(batch.each)
    garbage = rng.choice([np.nan, np.inf, -np.inf], (len(mask), 1))
    chosen = ~mask & (rng.random((len(mask), 1)) < 0.5)
    for name in _PER_KEY & each.keys():
        array = each[name]
        shape = mask.shape + (1,) * (array.ndim - 2)
        bad = garbage.reshape(len(mask), *[1] * (array.ndim - 1))
        each[name] = np.where(chosen.reshape(shape), bad, array).astype(array.dtype)
    return Batch(each, batch.shared)


def _group_edits(rng: Rng, batch: Batch, members: int, dtype: type) -> dict[str, np.ndarray]:
    """Edits of the members of three groups."""
    count, _, width = batch.each["values"].shape
    sizes = spread(rng, (count, 1, 1, 1), -8, 1)
    edits = {
        "group_scores": increments(rng, (count, 3, members), dtype),
        "group_values": vectors(rng, (count, 3, members, width)) * sizes,
    }
    edits = rounded(edits, dtype)
    far = with_far_keys(rng, edits["group_scores"], far_exponent(dtype))
    return {**edits, "group_scores": far}


def _tame(
    rng: Rng, each: dict[str, np.ndarray], heavy: np.ndarray, dtype: type
) -> dict[str, np.ndarray]:
    """Increments and leads within reach of the quotient; the keys `heavy` lead, by a little or a lot."""
    scores, deltas = each["scores"], np.clip(each["group_scores"], -15, 15)
    scores = np.clip(scores - scores.max(1, keepdims=True), -30, 0)
    scores[:, heavy] += rng.uniform(0, 30, (len(scores), 1)).astype(dtype)
    per_group = (*deltas.shape[:2], 1)
    common = rng.uniform(-5, 5, per_group) + rng.normal(size=deltas.shape) * 10.0 ** rng.uniform(
        -9, 0, per_group
    )
    shared = np.where(rng.random(per_group) < 0.5, common, deltas)
    return rounded({"scores": scores, "group_scores": shared}, dtype)
