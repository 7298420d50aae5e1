"""Shifts and deletions replayed in NumPy from the captures: the definition, and no code of the predictors.

Two softmaxes over all keys in float64. Each number is compared relative to the sum of the absolute values
of its terms, where a probability stands for the terms of its score too: it counts as p(1 + Σ|q||k|·scaling).
Turned keys are rounded to float32 once. Where the float64 rotation lies so near to the middle of two float32
numbers that its own rounding decides between them, either is right, and the scale carries the gap.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from finite_calculus.harness import Comparison, Tables
from finite_calculus.harness.replay import ALLOWED
from finite_calculus.harness.study import Arrays
from finite_calculus.studies.positional.rows import PositionalEdit, SpanDeletion

_BANDS = ("fast", "middle", "slow")
_UNIT = np.finfo(np.float64).eps / 2


@dataclass(frozen=True, eq=False)
class _Layer:
    """One captured layer in float64, its keys and values repeated over the heads."""

    query: np.ndarray
    keys: np.ndarray
    values: np.ndarray
    gradient: np.ndarray
    write_gradient: np.ndarray
    scaling: float
    stored: np.ndarray
    frequencies: np.ndarray
    half: bool
    start: int

    def scores(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores over repeated keys, and the absolute values of their terms."""
        sizes = np.einsum("hc,hjc->hj", np.abs(self.query), np.abs(keys)) * self.scaling
        return np.einsum("hc,hjc->hj", self.query, keys) * self.scaling, sizes

    def repeated(self, keys: np.ndarray) -> np.ndarray:
        return np.repeat(keys, self.query.shape[0] // keys.shape[0], axis=0)


def replay_unit(shared: Arrays, tensors: Arrays, tables: Tables) -> Iterator[Comparison]:
    """Every recorded prediction of a unit beside its replay; a calibration unit keeps no tensors."""
    shifts, deletions = tables.rows(PositionalEdit), tables.rows(SpanDeletion)
    for variant in sorted({row.variant for row in shifts}):
        signs = {row.preferred for row in shifts if row.variant == variant}
        sign = 1.0 if signs == {"A"} else -1.0
        yield from _replay_shifts(
            shared, tensors, [row for row in shifts if row.variant == variant], sign
        )
        yield from _replay_deletions(
            shared, tensors, [row for row in deletions if row.variant == variant], sign
        )


def _replay_shifts(
    shared: Arrays, tensors: Arrays, rows: Sequence[PositionalEdit], sign: float
) -> Iterator[Comparison]:
    for n, row in enumerate(rows):
        layer = _layer(shared, tensors, row.variant, row.layer)
        tokens = _demonstrations(tensors[f"{row.variant}.spans"])
        where = f"{row.cluster} variant {row.variant} layer {row.layer} {row.band} +{row.shift}"
        numbers = _shift_numbers(layer, row, tokens)
        numbers["local_executed"] = _along(layer, tensors[f"{row.variant}.shift_writes"][n])
        for name, (value, scale) in numbers.items():
            yield Comparison(where, name, getattr(row, name), sign * value, scale)


def _replay_deletions(
    shared: Arrays, tensors: Arrays, rows: Sequence[SpanDeletion], sign: float
) -> Iterator[Comparison]:
    for n, row in enumerate(rows):
        layer = _layer(shared, tensors, row.variant, row.layer)
        first, stop = tensors[f"{row.variant}.spans"][row.span]
        where = f"{row.cluster} variant {row.variant} layer {row.layer} span {row.span}"
        numbers = _deletion_numbers(layer, int(first), int(stop))
        numbers["local_executed"] = _along(layer, tensors[f"{row.variant}.deletion_writes"][n])
        for name, (value, scale) in numbers.items():
            yield Comparison(where, name, getattr(row, name), sign * value, scale)


def _layer(shared: Arrays, tensors: Arrays, variant: int, layer: int) -> _Layer:
    at = f"{variant}.{layer}."
    query = tensors[at + "query"].astype(np.float64)
    stored = tensors[at + "keys"]
    repeats = query.shape[0] // stored.shape[0]
    write_gradient = tensors[at + "gradient_write"].astype(np.float64)
    return _Layer(
        query=query,
        keys=np.repeat(stored.astype(np.float64), repeats, axis=0),
        values=np.repeat(tensors[at + "values"].astype(np.float64), repeats, axis=0),
        gradient=shared[f"{layer}.output_projection"].astype(np.float64) @ write_gradient,
        write_gradient=write_gradient,
        scaling=float(tensors[at + "scaling"][0]),
        stored=stored,
        frequencies=shared[f"{layer}.frequencies"],
        half=bool(shared[f"{layer}.half"][0]),
        # Records of before latent attention have no start.
        start=int(shared.get(f"{layer}.start", [0])[0]),
    )


def _shift_numbers(
    layer: _Layer, row: PositionalEdit, tokens: np.ndarray
) -> dict[str, tuple[float, float]]:
    """Finite and Jacobian predictions as (value, scale)."""
    s, s_size = layer.scores(layer.keys)
    turned, gap = _turned_keys(layer, row, tokens)
    s2, s2_size = layer.scores(layer.repeated(turned))
    # What the choice between two float32 numbers may move, in units of what is allowed of a scale.
    s2_size = s2_size + layer.scores(layer.repeated(gap))[1] / ALLOWED
    p, p2 = _softmax(s), _softmax(s2)
    v, size = layer.values, np.abs(layer.values)
    tangent, tangent_size = _tangent(layer, row, tokens)
    weight, weight2 = p * (1 + s_size), p2 * (1 + s2_size)
    offset = v - np.einsum("hj,hjc->hc", p, v)[:, None]
    offset_size = size + np.einsum("hj,hjc->hc", weight, size)[:, None]
    finite = _total(layer, p2, v) - _total(layer, p, v)
    scale = _scale(layer, weight2, size) + _scale(layer, weight, size)
    jacobian = _total(layer, p * tangent, offset)
    return {
        "predicted_finite": (finite, scale),
        "dense": (finite, scale),
        "predicted_jacobian": (jacobian, _scale(layer, weight * tangent_size, offset_size)),
    }


def _deletion_numbers(layer: _Layer, first: int, stop: int) -> dict[str, tuple[float, float]]:
    """Finite and Jacobian predictions of deleting the tokens first..stop, as (value, scale)."""
    s, s_size = layer.scores(layer.keys)
    kept = np.ones(s.shape[-1], dtype=bool)
    kept[first:stop] = False
    p = _softmax(s)
    rest = np.where(kept, p, 0.0) / p[:, kept].sum(-1, keepdims=True)
    v, size = layer.values, np.abs(layer.values)
    weight = p * (1 + s_size)
    rest_weight = rest * (1 + s_size)
    inside = np.where(kept, 0.0, p)
    y = np.einsum("hj,hjc->hc", p, v)[:, None]
    y_size = np.einsum("hj,hjc->hc", weight, size)[:, None]
    finite = _total(layer, rest, v) - _total(layer, p, v)
    return {
        "predicted_finite": (
            finite,
            _scale(layer, rest_weight, size) + _scale(layer, weight, size),
        ),
        "predicted_jacobian": (
            _total(layer, -inside, v - y),
            _scale(layer, weight, size + y_size),
        ),
    }


def _turned_keys(
    layer: _Layer, row: PositionalEdit, tokens: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The keys after the edit as they were rounded, and the gap where the rounding is undecided."""
    first, second = _planes(layer)
    angles = _angles(layer, row)
    keys = layer.stored[:, tokens].astype(np.float64)
    one, two = keys[..., first], keys[..., second]
    turned = keys.copy()
    turned[..., first] = one * np.cos(angles) - two * np.sin(angles)
    turned[..., second] = one * np.sin(angles) + two * np.cos(angles)
    reach = np.zeros_like(keys)
    # Where nothing turns, nothing is rounded.
    reach[..., first] = reach[..., second] = np.where(angles == 0, 0, 8 * _UNIT) * (
        np.abs(one) + np.abs(two)
    )
    whole, gap = layer.stored.astype(np.float64), np.zeros(layer.stored.shape)
    whole[:, tokens] = turned.astype(np.float32)
    low, high = ((turned + step).astype(np.float32) for step in (-reach, reach))
    gap[:, tokens] = high.astype(np.float64) - low.astype(np.float64)
    return whole, gap


def _tangent(
    layer: _Layer, row: PositionalEdit, tokens: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Tangent increments q·δA·k of the shifted keys, and the absolute values of their terms."""
    first, second = _planes(layer)
    angles = _angles(layer, row)
    q1, q2 = layer.query[:, None, first], layer.query[:, None, second]
    k1, k2 = layer.keys[:, tokens][..., first], layer.keys[:, tokens][..., second]
    terms, sizes = np.zeros(layer.keys.shape[:2]), np.zeros(layer.keys.shape[:2])
    terms[:, tokens] = (angles * (q2 * k1 - q1 * k2)).sum(-1) * layer.scaling
    sizes[:, tokens] = (
        np.abs(angles) * (np.abs(q2 * k1) + np.abs(q1 * k2))
    ).sum(-1) * layer.scaling  # fmt: skip
    return terms, sizes


def _angles(layer: _Layer, row: PositionalEdit) -> np.ndarray:
    """δω on the planes of the band, zero on the others; thirds from fast to slow, the first the largest."""
    planes = len(layer.frequencies)
    if row.band == "all":
        return row.shift * layer.frequencies
    order = np.argsort(-np.abs(layer.frequencies), kind="stable")
    thirds = np.array_split(order, 3)
    band = np.zeros(planes, dtype=bool)
    band[thirds[_BANDS.index(row.band)]] = True
    return np.where(band, row.shift * layer.frequencies, 0.0)


def _planes(layer: _Layer) -> tuple[slice, slice]:
    planes, start = len(layer.frequencies), layer.start
    end = start + 2 * planes
    if layer.half:
        return slice(start, start + planes), slice(start + planes, end)
    return slice(start, end, 2), slice(start + 1, end, 2)


def _demonstrations(spans: np.ndarray) -> np.ndarray:
    return np.concatenate([np.arange(first, stop) for first, stop in spans])


def _along(layer: _Layer, change: np.ndarray) -> tuple[float, float]:
    """An executed change of the write along the gradient."""
    scale = float(np.abs(layer.write_gradient) @ np.abs(change))
    return float(layer.write_gradient @ change), scale


def _total(layer: _Layer, weights: np.ndarray, values: np.ndarray) -> float:
    return float(np.einsum("hj,hjc,hc->", weights, values, layer.gradient))


def _scale(layer: _Layer, weights: np.ndarray, values: np.ndarray) -> float:
    return float(np.einsum("hj,hjc,hc->", weights, values, np.abs(layer.gradient)))


def _softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)
