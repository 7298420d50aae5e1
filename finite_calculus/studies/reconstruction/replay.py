"""The reconstruction study replayed in NumPy from its captures: the definition, and none of the core's code.

Softmax by exponentials, coefficients (e^s − 1)/(s Σe^s), the frozen error as the difference of two matrices.
Root mean squares of norms are compared relative to those of the absolute values of their terms.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from finite_calculus.harness import Comparison, Tables
from finite_calculus.harness.study import Arrays
from finite_calculus.studies.reconstruction.rows import Frozen, Reconstruction

Sized = tuple[float, float]


@dataclass(frozen=True, eq=False)
class _Head:
    """One head at all continuations; sizes are sums of absolute values of terms."""

    inputs: np.ndarray
    features: np.ndarray
    scores: np.ndarray
    sizes: np.ndarray
    values: np.ndarray
    own_score: np.ndarray
    own_size: np.ndarray
    own_value: np.ndarray
    native: np.ndarray


def replay_unit(
    settings: Any, shared: Arrays, tensors: Arrays, tables: Tables
) -> Iterator[Comparison]:
    """Every head of one context; the combined write of the frozen readouts too."""
    reconstructed = {(row.layer, row.head): row for row in tables.rows(Reconstruction)}
    frozen = {(row.layer, row.head, row.gauge): row for row in tables.rows(Frozen)}
    for layer in settings.layers:
        start = f"{layer}."
        own, constants = (
            {
                n.removeprefix(start): a.astype(np.float64)
                for n, a in arrays.items()
                if n.startswith(start)
            }
            for arrays in (tensors, shared)
        )
        output = constants["output"]
        errors: dict[str, np.ndarray] = {}
        sizes: dict[str, np.ndarray] = {}
        for number in range(output.shape[0]):
            head = _head(own, constants, number, output.shape[0])
            row = reconstructed[layer, number]
            where = f"context {row.context} layer {layer} head {number}"
            for name, (value, scale) in _readout(head).items():
                yield Comparison(where, name, getattr(row, name), value, scale)
            for gauge in ("original", "mean"):
                error, size = _frozen_error(head, gauge)
                errors[gauge] = errors.get(gauge, 0.0) + error @ output[number]
                sizes[gauge] = sizes.get(gauge, 0.0) + size @ np.abs(output[number])
                still = frozen[layer, number, gauge]
                y, y_size = _mixture(head.scores, head.sizes, head.values)
                changes = {
                    "frozen": (error[1:], size[1:]),
                    "change": (y[1:] - y[0], y_size[1:] + y_size[0]),
                }
                for name, pair in changes.items():
                    at = f"{where} {gauge}"
                    yield Comparison(at, name, getattr(still, name), *_root(*pair))
        for gauge, error in errors.items():
            row = frozen[layer, None, gauge]
            where = f"context {row.context} layer {layer} combined {gauge}"
            yield Comparison(where, "frozen", row.frozen, *_root(error[1:], sizes[gauge][1:]))


def _head(own: Arrays, constants: Arrays, number: int, heads: int) -> _Head:
    groups = own["keys"].shape[0]
    group = number // (heads // groups)
    inputs = np.pad(own["inputs"], ((0, 0), (0, 1)), constant_values=1.0)
    weight = constants["query"].reshape(constants["query"].shape[0], heads, -1)[:, number]
    bias = np.zeros_like(weight[:1])
    if "query_bias" in constants:
        bias = constants["query_bias"].reshape(heads, 1, -1)[number]
    weight = np.concatenate([weight, bias])
    scaling, position = own["constants"]
    features, sizes = _features(own["keys"][group], weight, constants, position, scaling)
    mine, my_sizes = _features(own["own_keys"][:, group], weight, constants, position, scaling)
    return _Head(
        inputs,
        features,
        inputs @ features.T,
        np.abs(inputs) @ sizes.T,
        own["values"][group],
        (inputs * mine).sum(-1),
        (np.abs(inputs) * my_sizes).sum(-1),
        own["own_values"][:, group],
        own["outputs"][:, number],
    )


def _features(
    keys: np.ndarray, weight: np.ndarray, constants: Arrays, position: float, scaling: float
) -> tuple[np.ndarray, np.ndarray]:
    """a_j = Ŵ R(−p) k_j · scaling, and the same of absolute values."""
    turned, sizes = keys, np.abs(keys)
    if "frequencies" in constants:
        angles = -position * constants["frequencies"]
        planes = len(angles)
        half = bool(constants["half"][0])
        # Records of before latent attention have no start.
        start = int(constants["start"][0]) if "start" in constants else 0
        end = start + 2 * planes
        first, second = (
            (slice(start, start + planes), slice(start + planes, end))
            if half
            else (slice(start, end, 2), slice(start + 1, end, 2))
        )
        turned, sizes = keys.copy(), np.abs(keys)
        cosine, sine = np.cos(angles), np.sin(angles)
        turned[:, first] = keys[:, first] * cosine - keys[:, second] * sine
        turned[:, second] = keys[:, first] * sine + keys[:, second] * cosine
        both = sizes[:, first] + sizes[:, second]
        sizes[:, first], sizes[:, second] = both, both
    return turned @ weight.T * scaling, sizes @ np.abs(weight).T * abs(scaling)


def _mixture(
    scores: np.ndarray, sizes: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Σ p v and Σ p (1 + size) |v|; values are of all rows or of each."""
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    probs = weights / weights.sum(-1, keepdims=True)
    form = "ck,kv->cv" if values.ndim == 2 else "ck,ckv->cv"
    return np.einsum(form, probs, values), np.einsum(form, probs * (1 + sizes), np.abs(values))


def _readout(head: _Head) -> dict[str, Sized]:
    """The causal readout: its size, the mean mass of the own token, the distance to the native one."""
    scores = np.concatenate([head.scores, head.own_score[:, None]], -1)
    sizes = np.concatenate([head.sizes, head.own_size[:, None]], -1)
    shared = np.broadcast_to(head.values, (len(scores), *head.values.shape))
    values = np.concatenate([shared, head.own_value[:, None]], 1)
    y, y_size = _mixture(scores, sizes, values)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    mass = weights[:, -1] / weights.sum(-1)
    apart = y - head.native
    reach = 2 * np.abs(apart) * (y_size + np.abs(head.native))
    return {
        "size": (float(np.sqrt((y**2).mean())), float(np.sqrt((y_size**2).mean()))),
        "self_mass": (float(mass.mean()), float((mass * (1 + sizes.max(-1))).mean())),
        "native_mse": (float((apart**2).mean()), float(reach.mean())),
    }


def _frozen_error(head: _Head, gauge: str) -> tuple[np.ndarray, np.ndarray]:
    """e = u(ΔM − ΔM_0) with ΔM_i = Σ c_ij a_j (v_j − μ), and the same of absolute values."""
    features, scores, sizes = head.features, head.scores, head.sizes
    if gauge == "mean":
        features = features - features.mean(0)
        scores = scores - scores.mean(-1, keepdims=True)
        sizes = sizes + sizes.mean(-1, keepdims=True)
    largest = np.maximum(scores.max(-1, keepdims=True), 0)
    growth = np.exp(scores - largest) - np.exp(-largest)
    ratio = np.where(np.abs(scores) > 1e-3, growth / np.where(scores == 0, 1, scores), 0.0)
    small = np.exp(-largest) * _near_zero(scores)
    coefficients = np.where(np.abs(scores) > 1e-3, ratio, small)
    coefficients = coefficients / np.exp(scores - largest).sum(-1, keepdims=True)
    centred = head.values - head.values.mean(0)
    centred_size = np.abs(head.values) + np.abs(head.values).mean(0)
    anchor = features.T @ (coefficients[0][:, None] * centred)
    error = np.stack(
        [
            u @ (features.T @ (c[:, None] * centred) - anchor)
            for u, c in zip(head.inputs, coefficients, strict=True)
        ]
    )
    reach = coefficients * (1 + sizes) + coefficients[0] * (1 + sizes[0])
    return error, (reach * sizes) @ centred_size


def _near_zero(scores: np.ndarray) -> np.ndarray:
    """(e^s − 1)/s by its series, for small s."""
    return 1 + scores / 2 * (1 + scores / 3 * (1 + scores / 4 * (1 + scores / 5)))


def _root(vectors: np.ndarray, sizes: np.ndarray) -> Sized:
    """The root mean square of the norms of vectors, and of their sizes."""
    value, scale = (float(np.sqrt((x**2).sum(-1).mean())) for x in (vectors, sizes))
    return value, scale
