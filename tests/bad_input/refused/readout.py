"""Mistakes in scores, values and masks of a readout."""

import torch

import finite_calculus as fc
from tests.bad_input.inputs import HEADS, INF, KEYS, NAN, WIDTH, false, holding, true
from tests.bad_input.refusal import TYPE, VALUE, Refusal
from tests.helpers.tensors import draw

READOUT = [
    Refusal(
        "scores of a list",
        lambda: fc.freeze([0.0, 1.0], draw(2, WIDTH)),
        TYPE,
        "`scores` … torch.Tensor … got list",
    ),
    *(
        Refusal(
            f"scores in {dtype}",
            lambda dtype=dtype: fc.freeze(torch.ones(KEYS, dtype=dtype), draw(KEYS, WIDTH)),
            TYPE,
            f"`scores` … float64 or float32 … got {dtype}",
        )
        for dtype in (torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex128)
    ),
    Refusal(
        "values in half precision",
        lambda: fc.freeze(draw(KEYS), draw(KEYS, WIDTH).half()),
        TYPE,
        "`values` … float64 or float32 … got torch.float16",
    ),
    Refusal(
        "scores and values of two types",
        lambda: fc.freeze(draw(KEYS), draw(KEYS, WIDTH).float()),
        TYPE,
        "share one dtype … `scores` is torch.float64 … `values` is torch.float32",
    ),
    Refusal(
        "a scalar score",
        lambda: fc.freeze(torch.tensor(0.0).double(), draw(1, WIDTH)),
        VALUE,
        "`scores` … (..., keys) … got ()",
    ),
    Refusal(
        "no keys",
        lambda: fc.freeze(draw(0), draw(0, WIDTH)),
        VALUE,
        "`scores` … at least one key … got 0",
    ),
    Refusal(
        "no keys in a batch",
        lambda: fc.freeze(draw(HEADS, 0), draw(HEADS, 0, WIDTH)),
        VALUE,
        "`scores` … at least one key … got 0",
    ),
    Refusal(
        "values of other keys",
        lambda: fc.freeze(draw(KEYS), draw(KEYS + 1, WIDTH)),
        VALUE,
        "`values` … (5, *) … (..., keys, value width) … got (6, 3)",
    ),
    Refusal(
        "values without a width",
        lambda: fc.freeze(draw(KEYS), draw(KEYS)),
        VALUE,
        "`values` … (5, *) … got (5,)",
    ),
    Refusal(
        "values of other heads",
        lambda: fc.freeze(draw(2, KEYS), draw(3, KEYS, WIDTH)),
        VALUE,
        "(3,) … `values` … broadcast … (2,)",
    ),
    Refusal(
        "an additive mask",
        lambda: fc.freeze(draw(KEYS), draw(KEYS, WIDTH), mask=torch.zeros(KEYS)),
        TYPE,
        "`mask` … boolean … got torch.float32",
    ),
    Refusal(
        "a mask over other keys",
        lambda: fc.freeze(draw(KEYS), draw(KEYS, WIDTH), mask=true(KEYS - 1)),
        VALUE,
        "`mask` … (5) … got (4,)",
    ),
    Refusal(
        "a mask of other heads",
        lambda: fc.freeze(draw(2, KEYS), draw(2, KEYS, WIDTH), mask=true(3, KEYS)),
        VALUE,
        "(3,) … `mask` … broadcast … (2,)",
    ),
    Refusal(
        "a mask that fits the scores and not the values",
        lambda: fc.freeze(draw(KEYS), draw(2, KEYS, WIDTH), mask=true(3, KEYS)),
        VALUE,
        "(3,) … `mask` … broadcast … (2,)",
    ),
    Refusal(
        "an empty attended set",
        lambda: fc.freeze(draw(KEYS), draw(KEYS, WIDTH), mask=false(KEYS)),
        VALUE,
        "`mask` … at least one attended key … got 1 empty row",
    ),
    Refusal(
        "one empty row of three",
        lambda: fc.freeze(
            draw(3, KEYS),
            draw(KEYS, WIDTH),
            mask=torch.tensor([True, False, True]).unsqueeze(-1).expand(3, KEYS),
        ),
        VALUE,
        "`mask` … at least one attended key in every row … got 1 empty row",
    ),
    *(
        Refusal(
            f"{bad} among the scores",
            lambda bad=bad: fc.freeze(holding(bad, KEYS), draw(KEYS, WIDTH)),
            VALUE,
            "`scores` … finite at the attended keys … got 1 NaN or infinite of 5 … `mask`",
        )
        for bad in (NAN, INF, -INF)
    ),
    *(
        Refusal(
            f"{bad} among the values",
            lambda bad=bad: fc.freeze(draw(KEYS), holding(bad, KEYS, WIDTH)),
            VALUE,
            "`values` … finite at the attended keys … got 1 NaN or infinite of 15",
        )
        for bad in (NAN, INF, -INF)
    ),
]
