"""Adversarial inputs for the checks around a readout: rotations, weights of a head, its learner.

They are drawn as those of `cases` are, from the same regimes: large angles and tiny shifts, large
common parts, mixed magnitudes.
"""

import numpy as np

from proofs.numeric.cases import Batch
from proofs.numeric.regimes import (
    Rng,
    choose,
    masks,
    rounded,
    smallest_exponent,
    spread,
    vectors,
)


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
        "scaling": None if rng.random() < 1 / 2 else float(dtype(1 / np.sqrt(width))),
    }
    return Batch({**rounded(each, dtype), "shift": shift}, shared)


def generators(rng: Rng, dtype: type, count: int) -> Batch:
    """Planes of a head, others in every case; `vector` has its width."""
    planes, rest = int(rng.integers(1, 6)), int(rng.integers(0, 3))
    frequencies = 10.0 ** rng.uniform(-6, 1, (count, planes))
    frequencies[rng.random((count, planes)) < 0.2] = 0.0
    each = {"frequencies": frequencies, "vector": rng.normal(size=(count, 2 * planes + rest))}
    return Batch(rounded(each, dtype), {"layout": str(rng.choice(["half", "interleaved"]))})


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
        "features": rng.normal(size=(count, keys, inputs)) * reach,
        "values": vectors(rng, (count, keys, width)),
        "gauge": rng.normal(size=(count, inputs)) * rng.choice([0.0, 1.0], (count, 1)),
        "residual": rng.normal(size=(count, 3)),
        "key_shift": rng.normal(size=(count, 2)),
    }
    each = rounded(each, dtype)
    each["anchor_input"] = _anchors(rng, each["query_input"])
    shared = {
        "head_projection": rng.normal(size=(width, 3)).astype(dtype),
        "projection": rng.normal(size=(inputs, 2)).astype(dtype),
        "reference": int(rng.integers(keys)),
        "pairs": rng.integers(0, keys, (2, 2)),
    }
    return Batch({**each, "mask": masks(rng, count, keys)}, shared)


def _anchors(rng: Rng, query_input: np.ndarray) -> np.ndarray:
    """Anchors of queries: anywhere, near, one rounding away in some entries, the query itself."""
    dtype, each = query_input.dtype, (len(query_input), 1)
    steps = rng.choice([-np.inf, np.inf], query_input.shape).astype(dtype)
    beside = np.where(
        rng.random(query_input.shape) < 0.7, np.nextafter(query_input, steps), query_input
    )
    near = query_input + spread(rng, each, -15, -1) * rng.normal(size=query_input.shape)
    return choose(rng, rng.normal(size=query_input.shape), near, beside).astype(dtype)


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
    position = float(rng.integers(0, 100_000))
    if rng.random() < 1 / 4:
        # Nothing turns and each feature is one product of integers: the scale's rounding is all.
        position = 0.0
        base.each["keys"] = rng.integers(-99, 100, base.each["keys"].shape).astype(dtype)
        shared["query_weight"] = rng.permuted(np.eye(model, width), axis=1)
        shared["query_bias"] = np.zeros(width)
    return Batch(
        {**base.each, **rounded(each, dtype)},
        {**base.shared, **rounded(shared, dtype), "position": position},
    )


def projections(rng: Rng, dtype: type, count: int) -> Batch:
    """Output projections with margin gradients, others in every case."""
    heads, value, model = (int(rng.integers(1, 4)) for _ in range(3))
    each = {
        "output_projection": vectors(rng, (count, heads, value, model)),
        "gradient": vectors(rng, (count, model)),
    }
    return Batch(rounded(each, dtype))


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
    return Batch(rounded(each, dtype))
