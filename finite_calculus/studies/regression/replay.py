"""The regression study replayed in NumPy from its trained weights: the definition, by other formulas.

Jacobians come from the derivative of softmax and not from automatic differentiation, effective steps from
coefficients (e^s − 1)/(s Σe^s), the rate from its two sums. Each number is compared relative to the sum of
the absolute values of its terms; a probability stands for the terms of its score too, as
p(1 + Σ|q||k|/√width).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from finite_calculus.harness import Comparison, Tables
from finite_calculus.harness.study import Arrays
from finite_calculus.studies.regression.rows import CONTROL, Direction, Model

_BASE = 1e4


@dataclass(frozen=True, eq=False)
class _Attention:
    """What every query of an episode reads, by (episode, head, query, key); sizes are absolute terms."""

    scores: np.ndarray
    score_sizes: np.ndarray
    values: np.ndarray
    slopes: np.ndarray
    slope_sizes: np.ndarray
    softmax: bool


def replay_unit(
    settings: Any, shared: Arrays, tensors: Arrays, tables: Tables
) -> Iterator[Comparison]:
    """Every recorded number of one model that follows from its weights and the shared episodes."""
    (model,) = tables.rows(Model)
    weights = {name: array.astype(np.float64) for name, array in tensors.items()}
    form = "linear" if model.architecture == CONTROL else model.architecture
    where = f"{model.architecture} {model.seed}"
    banks = {
        name: {
            part: shared[f"{name}.{part}"].astype(np.float64)
            for part in ("support", "queries", "targets")
        }
        for name in ("validation", "test")
    }
    predicted = {name: _predictions(form, weights, bank) for name, bank in banks.items()}
    references = {name: _reference(bank) for name, bank in banks.items()}
    rate = _rate(predicted["validation"], references["validation"])
    for name, (value, scale) in _errors(
        predicted["test"], references["test"], rate, banks["test"]["targets"]
    ).items():
        yield Comparison(where, name, getattr(model, name), value, scale)
    few = {part: array[: settings.diagnostics] for part, array in banks["test"].items()}
    columns = _cosines(form, weights, few)
    count = settings.diagnostics
    value, scale = predicted["test"]
    columns["prediction"] = value[:count], scale[:count]
    value, scale = references["test"]
    columns["reference"] = (
        rate[0] * value[:count],
        rate[0] * scale[:count] + rate[1] * np.abs(value[:count]),
    )
    for row in tables.rows(Direction):
        place = row.episode, row.query
        for name, (values, scales) in columns.items():
            at = f"{where} episode {row.episode} query {row.query}"
            recorded = getattr(row, name)
            yield Comparison(at, name, recorded, float(values[place]), float(scales[place]))


Sized = tuple[np.ndarray, np.ndarray]


def _attend(form: str, weights: Arrays, bank: Arrays) -> _Attention:
    support, queries = bank["support"], bank["queries"]
    width, keys = weights["key"].shape[-1], support.shape[1]
    key = np.einsum("njt,htw->nhjw", support, weights["key"])
    key_size = np.einsum("njt,htw->nhjw", np.abs(support), np.abs(weights["key"]))
    slope = weights["query"]
    if form == "rope":
        # A key at position j reads a query at position N as one at N − j reads a query at 0.
        key, key_size = _turned(key, np.arange(keys) - keys), _mixed(key_size)
    scale = width**-0.5
    slopes = np.einsum("htw,nhjw->nhjt", slope, key) * scale
    sizes = np.einsum("htw,nhjw->nhjt", np.abs(slope), key_size) * scale
    return _Attention(
        np.einsum("nqt,nhjt->nhqj", queries, slopes),
        np.einsum("nqt,nhjt->nhqj", np.abs(queries), sizes),
        np.einsum("njt,htw,hw->nhj", support, weights["value"], weights["output"][..., -1]),
        slopes,
        sizes,
        form != "linear",
    )


def _turned(vectors: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Rotary planes of coordinates r and r + half, turned to their positions."""
    half = vectors.shape[-1] // 2
    angles = positions[:, None] * _BASE ** (-np.arange(half) / half)
    first, second = vectors[..., :half], vectors[..., half:]
    turned = first * np.cos(angles) - second * np.sin(angles)
    return np.concatenate([turned, first * np.sin(angles) + second * np.cos(angles)], -1)


def _mixed(sizes: np.ndarray) -> np.ndarray:
    """Absolute terms of turned vectors: both coordinates of a plane, and the angle's own rounding."""
    half = sizes.shape[-1] // 2
    both = 2 * (sizes[..., :half] + sizes[..., half:])
    return np.concatenate([both, both], -1)


def _probs(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def _mixture(attention: _Attention) -> Sized:
    """The weights of the values, and their absolute terms."""
    if attention.softmax:
        probs = _probs(attention.scores)
        return probs, probs * (1 + attention.score_sizes)
    keys = attention.scores.shape[-1]
    return attention.scores / keys, attention.score_sizes / keys


def _predictions(form: str, weights: Arrays, bank: Arrays) -> Sized:
    attention = _attend(form, weights, bank)
    mixture, size = _mixture(attention)
    values = _value_sizes(weights, bank)
    predicted = np.einsum("nhqj,nhj->nq", mixture, attention.values)
    return predicted, np.einsum("nhqj,nhj->nq", size, values)


def _value_sizes(weights: Arrays, bank: Arrays) -> np.ndarray:
    parts = (np.abs(x) for x in (bank["support"], weights["value"], weights["output"][..., -1]))
    return np.einsum("njt,htw,hw->nhj", *parts)


def _reference(bank: Arrays) -> Sized:
    """xᵀg_D with its absolute terms."""
    inputs, targets, asked = bank["support"][..., :-1], bank["support"][..., -1], bank["queries"]
    count = inputs.shape[1]

    def learned(x: np.ndarray, t: np.ndarray, q: np.ndarray) -> np.ndarray:
        return np.einsum("njc,nj,nqc->nq", x, t, q) / count

    asked = asked[..., :-1]
    return learned(inputs, targets, asked), learned(*map(np.abs, (inputs, targets, asked)))


def _rate(predicted: Sized, reference: Sized) -> tuple[float, float]:
    """η = max(0, Σfh/Σh²), and its absolute terms."""
    (f, f_size), (h, h_size) = predicted, reference
    squares = float((h * h).sum())
    rate = max(0.0, float((f * h).sum()) / squares)
    moved = float((f_size * np.abs(h) + np.abs(f) * h_size).sum())
    return rate, (moved + 2 * rate * float((np.abs(h) * h_size).sum())) / squares


def _errors(
    predicted: Sized, reference: Sized, rate: tuple[float, float], targets: np.ndarray
) -> dict[str, tuple[float, float]]:
    """The recorded means of squares; a square moves by twice the difference times what it may be off by."""
    (f, f_size), (h, h_size) = predicted, reference
    learner, learner_size = rate[0] * h, rate[0] * h_size + rate[1] * np.abs(h)

    def mean(difference: np.ndarray, size: np.ndarray) -> tuple[float, float]:
        scale = 2 * np.abs(difference) * size + size**2 * np.finfo(np.float64).eps
        return float((difference**2).mean()), float(scale.mean())

    return {
        "rate": rate,
        "test_mse": mean(f - targets, f_size + np.abs(targets)),
        "reference_mse": mean(learner - targets, learner_size + np.abs(targets)),
        "disagreement_mse": mean(f - learner, f_size + learner_size),
    }


def _cosines(form: str, weights: Arrays, bank: Arrays) -> dict[str, Sized]:
    attention = _attend(form, weights, bank)
    sizes = _value_sizes(weights, bank)
    slope = _jacobian(attention, sizes)
    inputs, targets = bank["support"][..., :-1], bank["support"][..., -1]
    count = inputs.shape[1]
    learned = np.einsum("njc,nj->nc", inputs, targets)[:, None] / count
    learned_size = np.einsum("njc,nj->nc", np.abs(inputs), np.abs(targets))[:, None] / count
    learner = np.broadcast_to(learned, slope[0].shape), learned_size
    columns = {"jacobian": _cosine(slope, learner)}
    for gauge in ("original", "mean"):
        step = _step(attention, sizes, gauge)
        columns[gauge] = _cosine(step, learner)
        columns[f"{gauge}_jacobian"] = _cosine(step, slope)
    return columns


def _jacobian(attention: _Attention, value_sizes: np.ndarray) -> Sized:
    """Σ_j p_j (v_j − y) a_j over heads; for linear attention Σ_j v_j a_j / N."""
    mixture, size = _mixture(attention)
    if not attention.softmax:
        count = attention.scores.shape[-1]
        flat = np.einsum("nhj,nhjt->nt", attention.values, attention.slopes)[:, None, :-1] / count
        flat_size = np.einsum("nhj,nhjt->nt", value_sizes, attention.slope_sizes)[:, None, :-1]
        shape = (*mixture.shape[:1], mixture.shape[2], flat.shape[-1])
        return np.broadcast_to(flat, shape), np.broadcast_to(flat_size / count, shape)
    outputs = np.einsum("nhqj,nhj->nhq", mixture, attention.values)
    output_sizes = np.einsum("nhqj,nhj->nhq", size, value_sizes)
    centred = attention.values[:, :, None] - outputs[..., None]
    centred_sizes = value_sizes[:, :, None] + output_sizes[..., None]
    slope = np.einsum("nhqj,nhqj,nhjt->nqt", mixture, centred, attention.slopes)
    slope_size = np.einsum("nhqj,nhqj,nhjt->nqt", size, centred_sizes, attention.slope_sizes)
    return slope[..., :-1], slope_size[..., :-1]


def _step(attention: _Attention, value_sizes: np.ndarray, gauge: str) -> Sized:
    """Σ_j c_j (v_j − μ) a_j over heads, with c = (e^s − 1)/(s Σe^s), in a gauge."""
    if not attention.softmax:
        return _jacobian(attention, value_sizes)
    slopes, sizes, scores, score_sizes = (
        attention.slopes,
        attention.slope_sizes,
        attention.scores,
        attention.score_sizes,
    )
    if gauge == "mean":
        slopes, sizes = _from_mean(slopes, -2), sizes + sizes.mean(-2, keepdims=True)
        scores = _from_mean(scores, -1)
        score_sizes = score_sizes + score_sizes.mean(-1, keepdims=True)
    growth = np.where(scores == 0, 1.0, np.expm1(scores) / np.where(scores == 0, 1.0, scores))
    coefficients = growth / np.exp(scores).sum(-1, keepdims=True)
    coefficient_sizes = coefficients * (1 + score_sizes)
    values = _from_mean(attention.values, -1)
    centred_sizes = value_sizes + value_sizes.mean(-1, keepdims=True)
    step = np.einsum("nhqj,nhj,nhjt->nqt", coefficients, values, slopes)
    step_size = np.einsum("nhqj,nhj,nhjt->nqt", coefficient_sizes, centred_sizes, sizes)
    return step[..., :-1], step_size[..., :-1]


def _from_mean(array: np.ndarray, axis: int) -> np.ndarray:
    return array - array.mean(axis, keepdims=True)


def _cosine(first: Sized, second: Sized) -> Sized:
    """The cosine, and what relative changes of either vector may move it by."""
    (a, a_size), (b, b_size) = first, second
    norms = [np.linalg.norm(x, axis=-1) for x in (a, b)]
    value = (a * b).sum(-1) / (norms[0] * norms[1])
    moved = [
        np.linalg.norm(size, axis=-1) / norm
        for size, norm in zip((a_size, b_size), norms, strict=True)
    ]
    return value, 1 + moved[0] + moved[1]
