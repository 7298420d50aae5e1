"""Mistakes in requests to a query, and in what it preserves."""

import torch

import finite_calculus as fc
from tests.bad_input.inputs import (
    HEADS,
    INF,
    KEYS,
    MODEL,
    NAN,
    control,
    control_one,
    false,
    holding,
    true,
)
from tests.bad_input.refusal import TYPE, VALUE, Refusal
from tests.helpers.tensors import draw

CONTROL = [
    Refusal(
        "features of two heads",
        lambda: fc.preserving_directions(draw(HEADS, KEYS, MODEL)),
        VALUE,
        "`features` … (keys, inputs) … got (2, 5, 4)",
    ),
    Refusal(
        "features with NaN",
        lambda: fc.preserving_directions(holding(NAN, KEYS, MODEL)),
        VALUE,
        "`features` … finite … got 1 NaN or infinite of 20",
    ),
    Refusal(
        "features in half",
        lambda: fc.preserving_directions(draw(KEYS, MODEL).half()),
        TYPE,
        "`features` … got torch.float16",
    ),
    Refusal(
        "curvature about no key",
        lambda: fc.curvature(draw(MODEL), draw(KEYS, MODEL), KEYS),
        VALUE,
        "`key` … 0..4 … got 5",
    ),
    Refusal(
        "preserving directions of no key",
        lambda: fc.preserving_directions(draw(0, MODEL)),
        VALUE,
        "`features` … at least one key … got 0",
    ),
    Refusal(
        "preserving directions of an empty set",
        lambda: fc.preserving_directions(draw(KEYS, MODEL), mask=false(KEYS)),
        VALUE,
        "`mask` … at least one attended key … got",
    ),
    Refusal(
        "preserving directions of indices",
        lambda: fc.preserving_directions(draw(KEYS, MODEL), mask=torch.arange(KEYS)),
        TYPE,
        "`mask` … boolean … got torch.int64",
    ),
    Refusal(
        "preserving directions of other keys",
        lambda: fc.preserving_directions(draw(KEYS, MODEL), mask=true(KEYS + 1)),
        VALUE,
        "`mask` … (5) … got (6,)",
    ),
    *(
        Refusal(
            f"preserving directions with tolerance {tolerance}",
            lambda tolerance=tolerance: fc.preserving_directions(draw(3, 3), tolerance=tolerance),
            VALUE,
            f"`tolerance` … [0, 1) … got {tolerance}",
        )
        for tolerance in (-1e-3, 1.0, NAN)
    ),
    Refusal(
        "control with tolerance 2",
        lambda: control([[0, 1]], [1.0], tolerance=2.0),
        VALUE,
        "`tolerance` … [0, 1) … got 2.0",
    ),
    Refusal(
        "no request",
        lambda: fc.control_query(
            draw(MODEL), draw(KEYS, MODEL), torch.zeros(0, 2, dtype=torch.int64), draw(0)
        ),
        VALUE,
        "`pairs` … at least one request … got none",
    ),
    Refusal(
        "the same pair twice with two ratios",
        lambda: control([[0, 1], [0, 1]], [1.0, 2.0]),
        VALUE,
        "`requested` … contradict … request 1 asks … of 2 between keys 0 and 1 … imply 1.",
    ),
    Refusal(
        "a pair and its reverse with one ratio",
        lambda: control([[0, 1], [1, 0]], [1.0, 1.0]),
        VALUE,
        "`requested` … contradict … of 1 between keys 1 and 0 … imply -1.",
    ),
    Refusal(
        "a cycle of three that does not close",
        lambda: control([[0, 1], [1, 2], [2, 0]], [1.0, 1.0, 1.0]),
        VALUE,
        "`requested` … contradict … of 1 between keys 2 and 0 … imply -2.",
    ),
    Refusal(
        "a cycle found after an unrelated request",
        lambda: control([[3, 4], [0, 1], [1, 2], [0, 2]], [5.0, 1.0, 1.0, 3.0]),
        VALUE,
        "`requested` … contradict … of 3 between keys 0 and 2 … imply 2.",
    ),
    Refusal(
        "a key against itself",
        lambda: control([[2, 2]], [0.5]),
        VALUE,
        "`requested` … contradict … of 0.5 between keys 2 and 2 … imply 0.",
    ),
    *(
        Refusal(
            f"{function.__name__}: {mistake}",
            lambda function=function, bad=bad: function(*bad()),
            error,
            says,
        )
        for function in (fc.log_ratios, control_one)
        for mistake, bad, error, says in [
            (
                "negative key",
                lambda: (draw(MODEL), draw(KEYS, MODEL), torch.tensor([[0, -1]])),
                VALUE,
                "`pairs` … 0..4 … got values from -1 to 0",
            ),
            (
                "key out of range",
                lambda: (draw(MODEL), draw(KEYS, MODEL), torch.tensor([[0, 5]])),
                VALUE,
                "`pairs` … 0..4 … got values from 0 to 5",
            ),
            (
                "fractional keys",
                lambda: (draw(MODEL), draw(KEYS, MODEL), torch.tensor([[0.0, 1.0]])),
                TYPE,
                "`pairs` … int64 or int32 … got torch.float32",
            ),
            (
                "bytes, which torch takes for a mask",
                lambda: (draw(MODEL), draw(KEYS, MODEL), torch.tensor([[0, 1]]).byte()),
                TYPE,
                "`pairs` … int64 or int32 … got torch.uint8",
            ),
            (
                "triples",
                lambda: (draw(MODEL), draw(KEYS, MODEL), torch.tensor([[0, 1, 2]])),
                VALUE,
                "`pairs` … (*, 2) … got (1, 3)",
            ),
            (
                "query of other width",
                lambda: (draw(MODEL + 1), draw(KEYS, MODEL), torch.tensor([[0, 1]])),
                VALUE,
                "`query_input` … (4) … got (5,)",
            ),
            (
                "two queries",
                lambda: (draw(2, MODEL), draw(KEYS, MODEL), torch.tensor([[0, 1]])),
                VALUE,
                "`query_input` … (4) … got (2, 4)",
            ),
            (
                "NaN query",
                lambda: (holding(NAN, MODEL), draw(KEYS, MODEL), torch.tensor([[0, 1]])),
                VALUE,
                "`query_input` … finite … got 1 NaN",
            ),
            (
                "mixed types",
                lambda: (draw(MODEL).float(), draw(KEYS, MODEL), torch.tensor([[0, 1]])),
                TYPE,
                "share one dtype … `query_input` is torch.float32",
            ),
        ]
    ),
    Refusal(
        "more ratios than pairs",
        lambda: control([[0, 1]], [1.0, 2.0]),
        VALUE,
        "`requested` … (1) … got (2,)",
    ),
    Refusal(
        "an infinite ratio",
        lambda: control([[0, 1]], [INF]),
        VALUE,
        "`requested` … finite … got 1 NaN or infinite",
    ),
    Refusal(
        "ratios of other type",
        lambda: fc.control_query(
            draw(MODEL), draw(KEYS, MODEL), torch.tensor([[0, 1]]), draw(1).float()
        ),
        TYPE,
        "share one dtype … `requested` is torch.float32",
    ),
]
