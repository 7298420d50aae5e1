"""The joint study replayed in NumPy from its captures: the definition, and no code of the predictors.

Two softmaxes over all keys, in float64 from the float32 tensors of the capture. Each recorded number
is compared relative to the sum of the absolute values of its terms. A probability e^s/Z stands for
the terms of its score too: to first order it moves by p·ds, so it counts as p(1 + Σ|q||k|·scaling).
"""

from collections.abc import Iterator, Sequence

import numpy as np

from finite_calculus.harness import Comparison
from finite_calculus.harness.study import Arrays
from finite_calculus.studies.joint_kv.rows import Intervention


def replay_unit(
    projections: Arrays, tensors: Arrays, rows: Sequence[Intervention]
) -> Iterator[Comparison]:
    """Every recorded prediction of a unit beside its replay."""
    for layer in sorted({row.layer for row in rows}):
        start = f"{layer}."
        arrays = {
            name.removeprefix(start): array
            for name, array in tensors.items()
            if name.startswith(start)
        }
        projection = projections[f"{layer}.output_projection"].astype(np.float64)
        for n, row in enumerate(row for row in rows if row.layer == layer):
            where = f"{row.task}-{row.pair:03d} layer {layer} span {row.span} {row.kind}"
            replayed = _replay_row(row, arrays, projection) | _replay_write(n, arrays)
            for name, (value, scale) in replayed.items():
                yield Comparison(where, name, getattr(row, name), value, scale)


def _replay_row(
    row: Intervention, arrays: Arrays, projection: np.ndarray
) -> dict[str, tuple[float, float]]:
    """Each number of a record as (value, scale): G(a) = ⟨g, Σ_h a_h W_h⟩ and G of absolute terms."""
    g = projection @ arrays["gradient"].astype(np.float64)
    s, v, s_size = _bank(arrays, row, edited=False)
    s2, v2, s2_size = _bank(arrays, row, edited=True)
    p, p2 = _softmax(s), _softmax(s2)
    d, eps = s2 - s, v2 - v
    y = np.einsum("hj,hjc->hc", p, v)
    offset = v - y[:, None, :]
    mean = (p * d).sum(-1, keepdims=True)
    # The same with every term positive.
    w, w2, d_size = p * (1 + s_size), p2 * (1 + s2_size), s_size + s2_size
    offset_size = np.abs(v) + np.einsum("hj,hjc->hc", w, np.abs(v))[:, None, :]
    spread = d_size + (w * d_size).sum(-1, keepdims=True)

    def total(weights: np.ndarray, values: np.ndarray) -> float:
        return float(np.einsum("hj,hjc,hc->", weights, values, g))

    def scale(weights: np.ndarray, values: np.ndarray) -> float:
        return float(np.einsum("hj,hjc,hc->", weights, np.abs(values), np.abs(g)))

    linear = total(p * d, offset), scale(w * d_size, offset_size)
    key = total(p2, v) - total(p, v), scale(w2 + w, v)
    value = total(p, eps), scale(w, eps)
    mixed = total(p2 - p, eps), scale(w2 + w, eps)
    quadratic = total(p * (d - mean), eps), scale(w * spread, eps)
    joint = total(p2, v2) - total(p, v), scale(w2, v2) + scale(w, v)
    return {
        "part_linear": linear,
        "part_key": key,
        "part_value": value,
        "part_interaction": mixed,
        "part_quadratic": quadratic,
        "predicted_first_order": _add(linear, value),
        "predicted_separate": _add(key, value),
        "predicted_quadratic": _add(_add(key, value), quadratic),
        "predicted_joint": joint,
        "dense": joint,
        "effective": joint,
    }


def _bank(
    arrays: Arrays, row: Intervention, *, edited: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, values and the absolute terms of the scores, per head, over the attended keys."""
    keys, values = arrays["keys"].copy(), arrays["values"].copy()
    if edited:
        start = row.first_token - int(arrays["first"][0])
        columns = slice(start, start + row.tokens)
        strength = f"{row.strength:g}"
        if row.kind != "value":
            keys[:, columns] = arrays[f"keys@{strength}"][:, columns]
        if row.kind != "key":
            values[:, columns] = arrays[f"values@{strength}"][:, columns]
    attended = arrays["attended"]
    query = arrays["query"].astype(np.float64)
    each = query.shape[0] // keys.shape[0]
    k = np.repeat(keys[:, attended].astype(np.float64), each, axis=0)
    v = np.repeat(values[:, attended].astype(np.float64), each, axis=0)
    scaling = float(arrays["scaling"][0])
    sizes = np.einsum("hc,hjc->hj", np.abs(query), np.abs(k)) * abs(scaling)
    return np.einsum("hc,hjc->hj", query, k) * scaling, v, sizes


def _softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def _replay_write(n: int, arrays: Arrays) -> dict[str, tuple[float, float]]:
    """The executed local effect of row n from the saved writes."""
    gradient = arrays["gradient"].astype(np.float64)
    write, control = arrays["writes"][n].astype(np.float64), arrays["control_writes"][n]
    scale = float(np.abs(gradient) @ (np.abs(write) + np.abs(control)))
    return {"local_executed": (float(gradient @ (write - control)), scale)}


def _add(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    return first[0] + second[0], first[1] + second[1]
