"""The regimes hypothesis draws from: one named piece wherever a plain formula loses its digits.

`tests.helpers.strategies` builds the cases of the checks from them.
"""

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from proofs.numeric.cases import Batch

Numbers = st.SearchStrategy[float]
Arrays = dict[str, np.ndarray]
# Angles are formed in float64, whatever the dtype of the features is.
_WIDE = {"frequencies", "shift"}


# ---- numbers ----


def spread(low: int, high: int) -> Numbers:
    """Numbers of either sign from 10^low to 10^high."""
    signs, mantissas = st.sampled_from([-1.0, 1.0]), st.floats(1, 9)
    exponents = st.integers(low, high - 1)
    return st.builds(lambda s, m, e: s * m * 10.0**e, signs, mantissas, exponents)


def tiny(dtype: str) -> Numbers:
    """Numbers down to near the smallest normal one."""
    return spread(-300 if dtype == "float64" else -30, -3)


def increments(dtype: str) -> Numbers:
    """Score increments: zero, ordinary, tiny, huge, and such that e^d all but overflows."""
    last = st.floats(700, 709) if dtype == "float64" else st.floats(80, 88)
    return st.one_of(st.just(0.0), st.floats(-5, 5), tiny(dtype), spread(0, 3), last)


def far(dtype: str, *, room: int = 0) -> Numbers:
    """Increments up to the largest number, or to `room` decimal exponents below it."""
    highest = 308 if dtype == "float64" else 38
    return spread(3, highest - room)


def entries() -> Numbers:
    """Entries of vectors: ordinary, of a large common part, of mixed magnitudes."""
    return st.one_of(st.floats(-3, 3), st.floats(-1, 1).map(lambda x: 1e6 + x), spread(-6, 4))


def leads(dtype: str) -> Numbers:
    """The lead of a dominant key, which leaves the others little, about 1e-16 or subnormal numbers."""
    subnormal, deepest = (709, 745) if dtype == "float64" else (88, 100)
    return st.one_of(st.floats(5, 33), st.floats(33, 40), st.floats(subnormal, deepest))


def shifts() -> Numbers:
    """Positional shifts: usual, tiny, and far enough for angles of 10^6 radians."""
    far = st.floats(1e5, 1e6).flatmap(lambda x: st.sampled_from([x, -x]))
    return st.one_of(st.sampled_from([0.0, 1.0, 16.0, -128.0, 1e6]), spread(-12, -3), far)


def frequencies() -> Numbers:
    """Frequencies of planes: zero, one, and slow ones as float64 or float32 stores them."""
    slow = st.floats(1e-6, 1)
    return st.one_of(st.sampled_from([0.0, 1.0]), slow, slow.map(lambda x: float(np.float32(x))))


def filled(shape: tuple[int, ...], numbers: Numbers) -> st.SearchStrategy[np.ndarray]:
    """Arrays whose entries are drawn one by one."""
    return hnp.arrays(np.float64, shape, elements=numbers, fill=st.nothing())


# ---- rows of keys ----


@st.composite
def score_rows(draw: st.DrawFn, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Scores: clustered, equal, far apart, of a large common part, or with a dominant key."""
    base, each = draw(filled(shape, st.floats(-3, 3))), (*shape[:-1], 1)
    regime = draw(st.sampled_from(["dominant", "clustered", "equal", "apart", "common"]))
    if regime == "dominant":
        top = np.arange(shape[-1]) == draw(st.integers(0, shape[-1] - 1))
        return base + draw(filled(each, leads(dtype))) * top
    if regime == "equal":
        return np.repeat(base[..., :1], shape[-1], -1)
    if regime == "apart":
        return base * (300 if dtype == "float64" else 35)
    return base + draw(filled(each, spread(2, 3))) if regime == "common" else base


@st.composite
def increment_rows(draw: st.DrawFn, dtype: str, behind: np.ndarray) -> np.ndarray:
    """Increments of keys that are so far `behind` the leader: any, nearly common, or coming back."""
    shape, each = behind.shape, (*behind.shape[:-1], 1)
    regime = draw(st.sampled_from(["any", "near-common", "coming back"]))
    if regime == "near-common":
        differences = draw(filled(shape, st.floats(-1, 1))) * draw(spread(-10, -2))
        return draw(filled(each, spread(0, 2))) + differences
    if regime == "coming back":
        return behind + draw(filled(shape, st.floats(-2, 2)))
    return draw(filled(shape, increments(dtype)))


@st.composite
def far_rows(draw: st.DrawFn, dtype: str, deltas: np.ndarray, *, room: int = 0) -> np.ndarray:
    """The increments, some of them far: all of one sign, so that their differences are numbers."""
    if draw(st.integers(0, 2)) != 2:
        return deltas
    sign = draw(st.sampled_from([-1.0, 1.0]))
    chosen = draw(hnp.arrays(bool, deltas.shape, fill=st.nothing()))
    return np.where(
        chosen, sign * np.abs(draw(filled(deltas.shape, far(dtype, room=room)))), deltas
    )


@st.composite
def spoiled(draw: st.DrawFn, each: Arrays, names: set[str]) -> Arrays:
    """The arrays with one of NaN, infinity or the number itself wherever a key is not attended."""
    bad = draw(st.sampled_from([None, np.nan, np.inf, -np.inf]))
    if bad is None:
        return each
    mask = each["mask"]
    changed = {
        name: np.where(mask.reshape(mask.shape + (1,) * (each[name].ndim - 2)), each[name], bad)
        for name in names & each.keys()
    }
    return each | changed


@st.composite
def anchor_rows(draw: st.DrawFn, dtype: str, queries: np.ndarray) -> np.ndarray:
    """Anchors of queries: anywhere, or each entry the query's or the number beside it."""
    if draw(st.booleans()):
        return draw(filled(queries.shape, st.floats(-3, 3)))
    steps = draw(filled(queries.shape, st.sampled_from([-1.0, 0.0, 1.0])))
    start = queries.astype(dtype)
    towards = np.where(steps == 0, start, np.copysign(np.inf, steps)).astype(dtype)
    return np.nextafter(start, towards).astype(np.float64)


@st.composite
def masks(draw: st.DrawFn, shape: tuple[int, ...]) -> np.ndarray:
    """Attended keys: any set that is not empty."""
    mask = draw(hnp.arrays(bool, shape, fill=st.nothing()))
    mask[..., draw(st.integers(0, shape[-1] - 1))] = True
    return mask


# ---- memory ----


def strided(array: np.ndarray) -> np.ndarray:
    """The array as every second entry of a larger one."""
    return np.stack([array, np.zeros_like(array)], -1)[..., 0]


def layouts() -> st.SearchStrategy[Callable[[np.ndarray], np.ndarray]]:
    """Contiguous arrays, arrays whose first axis is the innermost, and arrays with gaps."""
    return st.sampled_from([np.ascontiguousarray, np.asfortranarray, strided])


def without_cases(batch: Batch) -> Batch:
    """The batch with none of its cases."""
    return Batch({name: array[:0] for name, array in batch.each.items()}, batch.shared)


def laid_out(draw: st.DrawFn, dtype: str, each: Arrays, shared: dict | None = None) -> Batch:
    """Cases rounded to the dtype, so that the inputs are exact, in a layout that is drawn."""
    lay = draw(layouts())

    def placed(name: str, item):
        if not isinstance(item, np.ndarray):
            return item
        rounds = item.dtype == np.float64 and name not in _WIDE
        return lay(item.astype(dtype) if rounds else item)

    parts = [{name: placed(name, item) for name, item in of.items()} for of in (each, shared or {})]
    return Batch(*parts)
