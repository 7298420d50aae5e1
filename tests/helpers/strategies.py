"""The cases hypothesis draws, a strategy for every draw of the comparisons, from `tests.helpers.regimes`.

A strategy takes a dtype and the names of the arguments that a check uses, and draws a `Batch` of one or two
cases with these and no others, somehow laid out in memory. Shapes stay small, because every case has its
exact reference computed.
"""

import operator
from collections.abc import Container
from typing import Any, Protocol

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from proofs.numeric.cases import Batch
from tests.helpers.regimes import (
    Arrays,
    anchor_rows,
    entries,
    far_rows,
    filled,
    frequencies,
    increment_rows,
    laid_out,
    masks,
    score_rows,
    shifts,
    spoiled,
    spread,
    tiny,
)

COUNTS = st.integers(1, 2)
Names = Container[str]


class _All:
    """Every name."""

    def __contains__(self, name: object) -> bool:
        return True


ALL = _All()


class Strategy(Protocol):
    """Cases in a dtype, with the arguments that are named."""

    def __call__(self, dtype: str, names: Names = ALL) -> st.SearchStrategy[Batch]: ...


PER_KEY = {"scores", "values", "score_delta", "second_delta", "linear_delta", "value_delta"}
# Increments of a bank leave room for products with values and masses.
ROOM = 14


def chosen(draw: st.DrawFn, names: Names, **parts: Any) -> dict[str, Any]:
    """What is named of `parts`, drawn where a strategy stands for it."""
    return {
        name: draw(part) if isinstance(part, st.SearchStrategy) else part
        for name, part in parts.items()
        if name in names
    }


def scaled(arrays: st.SearchStrategy[np.ndarray], low: int, high: int) -> st.SearchStrategy[Any]:
    """Arrays times one number from 10^low to 10^high."""
    return st.builds(operator.mul, arrays, spread(low, high))


@st.composite
def banks(draw: st.DrawFn, dtype: str, names: Names = ALL) -> Batch:
    """One query over one to six keys, some of them masked, with edits; what is masked may be NaN."""
    each = draw(_bank(dtype, names))
    return laid_out(draw, dtype, draw(spoiled(each, PER_KEY)) if "mask" in each else each)


@st.composite
def wide_banks(draw: st.DrawFn, dtype: str, names: Names = ALL) -> Batch:
    """A bank for what stays bounded: increments up to the largest number, values up to a share of it."""
    each = draw(_bank(dtype, names))
    if "score_delta" in each:
        each["score_delta"] = draw(far_rows(dtype, each["score_delta"]))
    limit = float(np.finfo(dtype).max) / (2 if dtype == "float32" else 16)
    large = ("values", "value_delta")
    huge = [name for name in large if name in each and draw(st.integers(0, 3)) == 3]
    # Both of half of the largest number could add up to a response beyond it.
    share = 0.25 if len(huge) > 1 else 1.0
    for name in huge:
        each[name] = draw(filled(each[name].shape, st.floats(-1, 1))) * (share * limit)
    return laid_out(draw, dtype, draw(spoiled(each, PER_KEY)) if "mask" in each else each)


@st.composite
def full_banks(draw: st.DrawFn, dtype: str, names: Names = ALL) -> Batch:
    """A bank whose keys are all attended."""
    return laid_out(draw, dtype, draw(_bank(dtype, names, masked=False)))


@st.composite
def deletions(draw: st.DrawFn, dtype: str, names: Names = ALL) -> Batch:
    """A bank with groups to delete, among them all keys but one."""
    each = draw(_bank(dtype, names, masked=False))
    keys = each["scores"].shape[1]
    removed = draw(hnp.arrays(bool, (2, keys), fill=st.nothing()))
    removed[0] = True
    removed[:, draw(st.integers(0, keys - 1))] = False
    return laid_out(draw, dtype, each, {"removed": removed})


@st.composite
def groups(draw: st.DrawFn, dtype: str, names: Names = ALL, *, left: int = 0) -> Batch:
    """A bank with sparse edits of groups that leave so many keys; one holds the dominant key."""
    each = draw(_bank(dtype, names, fewest=1 + left, masked=False))
    keys = each["scores"].shape[1]
    members = draw(st.integers(1, keys - left))
    order = [draw(st.permutations(range(keys))) for _ in range(2)]
    order[0].sort(key=lambda key: key != each["scores"].mean(0).argmax())
    indices = np.array(order)[:, :members]
    each |= draw(_edits(dtype, each, indices, names))
    return laid_out(draw, dtype, each, {"groups": indices})


@st.composite
def spans(draw: st.DrawFn, dtype: str, names: Names = ALL, *, left: int = 0) -> Batch:
    """A bank with edits of spans that leave so many keys; one holds the dominant key."""
    each = draw(_bank(dtype, names, fewest=1 + left, masked=False))
    keys = each["scores"].shape[1]
    members = draw(st.integers(1, keys - left))
    last, top = keys - members, int(each["scores"].mean(0).argmax())
    reaching = st.integers(max(0, top - members + 1), min(top, last))
    starts = np.array([draw(reaching), draw(st.integers(0, last))])
    indices = starts[:, None] + np.arange(members)
    shared = {"starts": starts, "members": members, "groups": indices}
    return laid_out(draw, dtype, each | draw(_edits(dtype, each, indices, names)), shared)


@st.composite
def caches(draw: st.DrawFn, dtype: str, names: Names = ALL) -> Batch:
    """Query heads that read one or two groups of values, beside what the cache held originally."""
    count, keys, width, model = draw(COUNTS), draw(st.integers(2, 3)), 2, 2
    physical, readers = draw(st.sampled_from([(1, 2), (2, 1), (2, 2)]))
    heads, vectors = physical * readers, (count, physical, keys, width)
    scores = draw(score_rows(dtype, (count, heads, keys)))
    changes = draw(filled(scores.shape, st.floats(-3, 3))) * draw(spread(-6, 1))
    values = draw(filled(vectors, entries()))
    noise = draw(filled(vectors, st.floats(-3, 3))) * draw(spread(-6, 1))
    each = {
        "scores": scores,
        "values": np.repeat(values, readers, 1),
        "original_scores": scores + changes,
        "original_values": np.repeat(values + noise, readers, 1),
    }
    shared = chosen(draw, names, output_projection=filled((heads, width, model), entries()))
    return laid_out(draw, dtype, each, shared)


@st.composite
def rotaries(draw: st.DrawFn, dtype: str, names: Names = ALL) -> Batch:
    """Planes in a band or not, coordinates beyond them, a feature, and a query with keys."""
    return laid_out(draw, dtype, *draw(_planes(dtype, names)))


@st.composite
def projected(draw: st.DrawFn, dtype: str, names: Names = ALL) -> Batch:
    """Rotary keys with head weights, and writes of heads that nearly agree, as those of a group do."""
    count, planes, rest = draw(COUNTS), draw(st.integers(1, 3)), draw(st.integers(0, 2))
    each, shared = draw(_planes(dtype, names, (count, planes, rest)))
    width, model = 2 * planes + rest, draw(st.integers(1, 2))
    heads, value = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    differences = scaled(filled((count, heads, value), entries()), -8, 1)
    each |= chosen(
        draw,
        names,
        head_writes=st.builds(operator.add, filled((count, 1, value), entries()), differences),
        error=filled((count, model), entries()),
        change=scaled(filled((count, 2, model), entries()), -14, 1),
    )
    shared |= chosen(
        draw,
        names,
        query_weight=filled((model, width), entries()),
        query_bias=filled((width,), entries()),
        output_projection=filled((heads, value, model), entries()),
        gradient=filled((model,), entries()),
        position=st.integers(0, 10**6).map(float),
    )
    return laid_out(draw, dtype, each, shared)


@st.composite
def projections(draw: st.DrawFn, dtype: str, names: Names = ALL) -> Batch:
    """Output projections with margin gradients."""
    count, heads, value, model = draw(COUNTS), *(draw(st.integers(1, 2)) for _ in range(3))
    each = chosen(
        draw,
        names,
        output_projection=filled((count, heads, value, model), entries()),
        gradient=filled((count, model), entries()),
    )
    return laid_out(draw, dtype, each)


@st.composite
def generators(draw: st.DrawFn, dtype: str, names: Names = ALL) -> Batch:
    """Planes of a head, others in every case, and a vector of its width."""
    count, planes, rest = draw(COUNTS), draw(st.integers(1, 3)), draw(st.integers(0, 2))
    each = chosen(
        draw,
        names,
        frequencies=filled((count, planes), frequencies()),
        vector=filled((count, 2 * planes + rest), entries()),
    )
    shared = chosen(draw, names, layout=st.sampled_from(["half", "interleaved"]))
    return laid_out(draw, dtype, each, shared)


@st.composite
def affines(draw: st.DrawFn, dtype: str, names: Names = ALL) -> Batch:
    """Query inputs and features whose scores stay where no gauge overflows."""
    count, keys, inputs, width = draw(COUNTS), draw(st.integers(1, 4)), 2, draw(st.integers(1, 2))
    common = draw(filled((count, 1, inputs), st.floats(-3, 3)))
    features = draw(filled((count, keys, inputs), st.floats(-3, 3)))
    queries = draw(filled((count, inputs), st.floats(-3, 3)))
    each = chosen(
        draw,
        names,
        query_input=queries,
        features=common + features * draw(st.sampled_from([0.0, 1e-8, 1.0, 3.0])),
        values=filled((count, keys, width), entries()),
        gauge=st.sampled_from([0.0, 1.0]).map(lambda share: common[:, 0] * share),
        residual=filled((count, 2), entries()),
        key_shift=filled((count, 2), entries()),
        mask=masks((count, keys)),
        anchor_input=anchor_rows(dtype, queries),
    )
    shared = chosen(
        draw,
        names,
        head_projection=filled((width, 2), entries()),
        projection=filled((inputs, 2), entries()),
        reference=st.integers(0, keys - 1),
        pairs=hnp.arrays(np.int64, (2, 2), elements=st.integers(0, keys - 1)),
    )
    return laid_out(draw, dtype, each, shared)


@st.composite
def arguments(draw: st.DrawFn, dtype: str, names: Names = ALL) -> Batch:
    """Arguments of the divided differences: zero, tiny, about the switches, up to overflow."""
    reach = 705 if dtype == "float64" else 88
    about_one = st.builds(lambda sign, x: sign * (1 + x), st.sampled_from([-1, 1]), spread(-7, -3))
    numbers = st.one_of(st.just(0.0), tiny(dtype), about_one, st.floats(-reach, reach))
    return laid_out(draw, dtype, {"x": draw(filled((draw(COUNTS), 4), numbers))})


@st.composite
def cells(draw: st.DrawFn, dtype: str, names: Names = ALL) -> Batch:
    """Four readouts of one common part, of which the first and the last differ."""
    shape = draw(COUNTS), draw(st.integers(1, 3))
    base = draw(filled(shape, entries()))
    scale = (1 + np.abs(base)) * 10.0 ** draw(st.integers(-3, 1))
    each = {
        name: base + scale * draw(filled(shape, st.floats(-1, 1)))
        for name in ("original", "moved", "rewritten")
    }
    each["reordered"] = each["original"] + scale * draw(filled(shape, st.floats(0.5, 1)))
    return laid_out(draw, dtype, each)


@st.composite
def episodes(draw: st.DrawFn, dtype: str, names: Names = ALL) -> Batch:
    """Support examples and predictions of the regression learner, with a reference beside zero."""
    count, examples, width = draw(COUNTS), draw(st.integers(1, 4)), draw(st.integers(1, 2))
    each = chosen(
        draw,
        names,
        inputs=filled((count, examples, width), entries()),
        targets=filled((count, examples), entries()),
        predictions=filled((count, examples), entries()),
        reference=filled((count, examples), spread(-6, 4)),
    )
    return laid_out(draw, dtype, each)


@st.composite
def _bank(
    draw: st.DrawFn, dtype: str, names: Names, *, fewest: int = 1, masked: bool = True
) -> Arrays:
    count, keys, width = draw(COUNTS), draw(st.integers(fewest, 6)), draw(st.integers(1, 2))
    rows, vectors = (count, keys), (count, keys, width)
    scores = draw(score_rows(dtype, rows))
    behind = scores.max(-1, keepdims=True) - scores
    rest = chosen(
        draw,
        names,
        values=filled(vectors, entries()),
        score_delta=increment_rows(dtype, behind).flatmap(
            lambda deltas: far_rows(dtype, deltas, room=ROOM)
        ),
        second_delta=increment_rows(dtype, behind),
        linear_delta=increment_rows(dtype, behind),
        value_delta=scaled(filled(vectors, entries()), -8, 1),
        gradient=filled((count, width), entries()),
        mask=masks(rows) if masked else np.ones(rows, dtype=bool),
    )
    return {"scores": scores, **rest}


@st.composite
def _edits(draw: st.DrawFn, dtype: str, each: Arrays, indices: np.ndarray, names: Names) -> Arrays:
    """Edits of the members of every candidate group."""
    scores = each["scores"]
    width = each["values"].shape[-1] if "values" in each else 1
    behind = (scores.max(-1, keepdims=True) - scores)[:, indices]
    return chosen(
        draw,
        names,
        group_scores=increment_rows(dtype, behind).flatmap(
            lambda deltas: far_rows(dtype, deltas, room=ROOM)
        ),
        group_values=scaled(filled((*behind.shape, width), entries()), -8, 1),
    )


@st.composite
def _planes(
    draw: st.DrawFn, dtype: str, names: Names, sizes: tuple[int, int, int] | None = None
) -> tuple[Arrays, dict]:
    planes, rest = (
        (draw(st.integers(1, 3)), draw(st.integers(0, 2))) if sizes is None else sizes[1:]
    )
    count = draw(COUNTS) if sizes is None else sizes[0]
    keys, width = draw(st.integers(1, 2)), 2 * planes + rest
    each = chosen(
        draw,
        names,
        vector=filled((count, width), entries()),
        query=filled((count, width), entries()),
        keys=filled((count, keys, width), entries()),
        shift=filled((count,), shifts()),
    )
    shared = chosen(
        draw,
        names,
        frequencies=filled((planes,), frequencies()),
        layout=st.sampled_from(["half", "interleaved"]),
        band=hnp.arrays(bool, (planes,), fill=st.nothing()),
        scaling=st.sampled_from([None, float(np.dtype(dtype).type(1 / np.sqrt(width)))]),
    )
    return each, shared


# By the name of the draw, which the checks take their seeded cases from.
STRATEGIES: dict[str, Strategy] = {
    "bank": banks,
    "wide_bank": wide_banks,
    "full_bank": full_banks,
    "deletions": deletions,
    "groups": groups,
    "proper_groups": lambda dtype, names=ALL: groups(dtype, names, left=1),
    "spans": spans,
    "proper_spans": lambda dtype, names=ALL: spans(dtype, names, left=1),
    "corrupted_cache": caches,
    "rotary": rotaries,
    "projected": projected,
    "projections": projections,
    "generators": generators,
    "affine": affines,
    "arguments": arguments,
    "cells": cells,
    "episode": episodes,
}
