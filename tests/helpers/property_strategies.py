"""The cases hypothesis draws for the properties of the core, by the name of their draw.

Matrices whose rank or condition a property presumes are well conditioned by construction: what it promises
is not promised of others.
"""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from proofs.numeric.cases import Batch
from tests.helpers.regimes import entries, filled, laid_out, spread
from tests.helpers.strategies import (
    ALL,
    COUNTS,
    STRATEGIES,
    Names,
    Strategy,
    affines,
    banks,
    caches,
    full_banks,
)

HEADS = 3
STRENGTHS = (0.0, 1e-6, 1e-3, 0.1, 1.0)


@st.composite
def heads(draw: st.DrawFn, dtype: str, names: Names = ALL) -> Batch:
    """Banks of three heads, on the second axis."""
    one = draw(banks(dtype, names)).each
    each = {name: np.repeat(array[:1, None], HEADS, 1) for name, array in one.items()}
    # The heads differ in the order of their keys and in their gradients.
    for name, array in each.items():
        if array.ndim > 2 and name != "gradient":
            for head in range(HEADS):
                array[:, head] = np.roll(array[:, head], head, axis=1)
    if "gradient" in each:
        each["gradient"] *= np.array([1.0, -0.5, 2.0], each["gradient"].dtype)[:, None]
    return Batch(each)


@st.composite
def sweeps(draw: st.DrawFn, dtype: str, names: Names = ALL) -> Batch:
    """A bank with its edits at several strengths."""
    each = dict(draw(full_banks(dtype, names)).each)
    for name in {"score_delta", "value_delta"} & each.keys():
        strengths = np.array(STRENGTHS, each[name].dtype)
        each[name] = np.einsum("s,n...->ns...", strengths, each[name])
    return Batch(each)


@st.composite
def codes(draw: st.DrawFn, dtype: str, names: Names = ALL) -> Batch:
    """Vectors of every size, from subnormal numbers to the largest, for two to eight bits."""
    count, info = draw(COUNTS), np.finfo(dtype)
    vector = draw(filled((count, draw(st.integers(1, 6))), entries()))
    largest = np.abs(vector).max(1, keepdims=True)
    smallest, most = float(info.smallest_subnormal), float(info.max)
    size = draw(st.one_of(st.sampled_from([1.0, most, smallest]), spread(-30, 30)))
    unit = np.divide(vector, largest, out=np.zeros_like(vector), where=largest > 0)
    bits = hnp.arrays(np.int64, (count,), elements=st.integers(2, 8))
    return Batch({"vector": (unit * abs(size)).astype(dtype), "bits": draw(bits)})


@st.composite
def features(draw: st.DrawFn, dtype: str, names: Names = ALL) -> Batch:
    """Features whose differences are independent."""
    keys = draw(st.integers(2, 4))
    model = draw(st.integers(keys, 6))
    return laid_out(draw, dtype, {"features": draw(_independent(draw(COUNTS), keys, model))})


@st.composite
def requests(draw: st.DrawFn, dtype: str, names: Names = ALL) -> Batch:
    """Two requested log ratios that the features can meet."""
    count, keys = draw(COUNTS), draw(st.integers(3, 4))
    model = draw(st.integers(keys, 6))
    each = {
        "features": draw(_independent(count, keys, model)),
        "query": draw(filled((count, model), st.floats(-3, 3))),
        "wanted": draw(filled((count, 2), st.floats(-3, 3))),
    }
    return laid_out(draw, dtype, each, {"pairs": np.array([[0, 1], [1, 2]])})


@st.composite
def impossible_requests(draw: st.DrawFn, dtype: str, names: Names = ALL) -> Batch:
    """Two keys that no query can tell apart."""
    count = draw(COUNTS)
    features = draw(_independent(count, 3, 4))
    features[:, 2, :-1] = features[:, 0, :-1]
    queries = draw(filled((count, 4), st.floats(-3, 3)))
    return laid_out(draw, dtype, {"features": features, "query": queries})


@st.composite
def planes(draw: st.DrawFn, dtype: str, names: Names = ALL) -> Batch:
    """Frequencies in any order, equal ones too, and where the first band ends."""
    count, many = draw(COUNTS), draw(st.integers(3, 9))
    frequencies = np.abs(draw(filled((count, many), spread(-6, 0))))
    first = hnp.arrays(np.int64, (count,), elements=st.integers(0, many - 1))
    return laid_out(draw, dtype, {"frequencies": frequencies.astype(dtype), "first": draw(first)})


@st.composite
def ranks(draw: st.DrawFn, dtype: str, names: Names = ALL) -> Batch:
    """Affine readouts, and products of a rank that is known."""
    batch = draw(affines(dtype, names))
    count = len(batch)
    known = draw(hnp.arrays(np.int64, (count,), elements=st.integers(1, 3)))
    kept = np.arange(3) < known[:, None]
    left = np.eye(7, 3) + draw(filled((count, 7, 3), st.floats(-1, 1))) / 16
    right = np.eye(3, 6) + draw(filled((count, 3, 6), st.floats(-1, 1))) / 16
    products = (left * kept[:, None, :]) @ right
    each = {**batch.each, "products": products.astype(dtype), "known": known}
    return Batch(each, batch.shared)


@st.composite
def budgeted_caches(draw: st.DrawFn, dtype: str, names: Names = ALL) -> Batch:
    """A cache with a budget of distortion."""
    batch = draw(caches(dtype, names))
    budget = draw(filled((len(batch),), st.floats(0, 3)))
    return Batch({**batch.each, "budget": budget}, batch.shared)


@st.composite
def _independent(draw: st.DrawFn, count: int, keys: int, model: int) -> np.ndarray:
    """(count, keys, model + 1) rows; rows beyond the first differ from it by a dominant diagonal."""
    first = draw(filled((count, 1, model + 1), st.floats(-2, 2)))
    noise = draw(filled((count, keys - 1, model + 1), st.floats(-1, 1))) / (2 * model)
    diagonal = draw(filled((count, keys - 1, 1), st.floats(1, 2)))
    return np.concatenate([first, first + noise + diagonal * np.eye(keys - 1, model + 1)], 1)


PROPERTY_STRATEGIES: dict[str, Strategy] = {
    **{name: STRATEGIES[name] for name in ("bank", "affine", "corrupted_cache")},
    "heads": heads,
    "sweeps": sweeps,
    "_codes": codes,
    "_features": features,
    "_requests": requests,
    "_impossible_requests": impossible_requests,
    "_planes": planes,
    "_ranks": ranks,
    "budgeted_cache": budgeted_caches,
}
