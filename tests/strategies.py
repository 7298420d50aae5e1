"""The inputs hypothesis draws from: one place for every test that wants adversarial numbers."""

import numpy as np
from hypothesis import strategies as st

from proofs.cases import Batch

_EXPONENTS = {"float64": (-300, 3), "float32": (-30, 3)}


def increments(dtype: str) -> st.SearchStrategy[float]:
    """Score increments: zero, ordinary, tiny and huge."""
    low, high = _EXPONENTS[dtype]
    spread = st.builds(
        lambda sign, mantissa, exponent: sign * mantissa * 10.0**exponent,
        st.sampled_from([-1.0, 1.0]),
        st.floats(1, 9),
        st.integers(low, high - 1),
    )
    return st.one_of(st.just(0.0), st.floats(-5, 5), spread)


def values() -> st.SearchStrategy[float]:
    """Value entries, with and without a large common part."""
    return st.one_of(st.floats(-3, 3), st.builds(lambda x: 1e6 + x, st.floats(-1, 1)))


def scores(dtype: str) -> st.SearchStrategy[float]:
    """Scores: clustered, spread, and far enough apart for probabilities to underflow."""
    far = 900.0 if dtype == "float64" else 110.0
    return st.one_of(st.floats(-3, 3), st.just(1.5), st.floats(-far, far))


@st.composite
def banks(draw: st.DrawFn, dtype: str) -> Batch:
    """One query over one to six keys, with edits and a mask that leaves at least one key."""
    keys, width = draw(st.integers(1, 6)), draw(st.integers(1, 2))
    number = np.dtype(dtype).type

    def vector(entries: st.SearchStrategy[float]) -> np.ndarray:
        return np.array(draw(st.lists(entries, min_size=keys, max_size=keys)), dtype=number)

    def matrix(entries: st.SearchStrategy[float]) -> np.ndarray:
        rows = st.lists(entries, min_size=keys * width, max_size=keys * width)
        return np.array(draw(rows), dtype=number).reshape(keys, width)

    mask = np.array(draw(st.lists(st.booleans(), min_size=keys, max_size=keys)))
    mask[draw(st.integers(0, keys - 1))] = True
    case = {
        "scores": vector(scores(dtype)),
        "values": matrix(values()),
        "score_delta": vector(increments(dtype)),
        "second_delta": vector(increments(dtype)),
        "linear_delta": vector(increments(dtype)),
        "value_delta": matrix(values()),
        "gradient": np.ones(width, dtype=number),
        "mask": mask,
    }
    return Batch({name: array[None] for name, array in case.items()})
