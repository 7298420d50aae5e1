"""Mistakes in spans of a bank."""

import torch

import finite_calculus as fc
from tests.bad_input.inputs import INF, KEYS, NAN, WIDTH, holding, no_mask, whole_bank
from tests.bad_input.refusal import TYPE, VALUE, Refusal
from tests.helpers.tensors import draw

SPANS = [
    Refusal(
        f"spans: {mistake}",
        lambda bank=bank, spans=spans, mask=mask: fc.prepare_spans(
            fc.read_bank(*bank(), mask=mask()), *spans()
        ),
        error,
        says,
    )
    for mistake, bank, spans, mask, error, says in [
        (mistake, whole_bank, spans, no_mask, error, says)
        for mistake, spans, error, says in [
            ("no keys", lambda: (torch.tensor([0]), 0), VALUE, "`width` … 1..5 … got 0"),
            ("too wide", lambda: (torch.tensor([0]), 6), VALUE, "`width` … 1..5 … got 6"),
            (
                "beyond the last key",
                lambda: (torch.tensor([0, 4]), 2),
                VALUE,
                "`starts` … 0..3 … got values from 0 to 4",
            ),
            (
                "before the first key",
                lambda: (torch.tensor([-1, 0]), 2),
                VALUE,
                "`starts` … 0..3 … got values from -1 to 0",
            ),
            (
                "fractional starts",
                lambda: (torch.tensor([0.0]), 2),
                TYPE,
                "`starts` … int64 or int32 … got torch.float32",
            ),
            (
                "pairs",
                lambda: (torch.tensor([[0, 2]]), 2),
                VALUE,
                "`starts` … (candidates,) … got (1, 2)",
            ),
            (
                "none",
                lambda: (torch.zeros(0, dtype=torch.int64), 2),
                VALUE,
                "`starts` … at least one span … got none",
            ),
        ]
    ]
    + [
        (mistake, bank, lambda: (torch.tensor([0]), 2), mask, error, says)
        for mistake, bank, mask, error, says in [
            (
                "of masked keys only",
                whole_bank,
                lambda: torch.arange(KEYS) > 1,
                VALUE,
                "`starts` … an attended key … got a group with none",
            ),
            *(
                (
                    f"of {name} with {bad}",
                    bank,
                    no_mask,
                    VALUE,
                    f"`{name}` … finite … got 1 NaN or infinite",
                )
                for bad in (NAN, INF, -INF)
                for name, bank in [
                    ("scores", lambda bad=bad: (holding(bad, KEYS), draw(KEYS, WIDTH))),
                    ("values", lambda bad=bad: (draw(KEYS), holding(bad, KEYS, WIDTH))),
                ]
            ),
            (
                "of other values",
                lambda: (draw(KEYS), draw(KEYS + 1, WIDTH)),
                no_mask,
                VALUE,
                "`values` … (5, *) … got (6, 3)",
            ),
            (
                "of mixed types",
                lambda: (draw(KEYS), draw(KEYS, WIDTH).float()),
                no_mask,
                TYPE,
                "share one dtype … `values` is torch.float32",
            ),
            (
                "in half precision",
                lambda: (draw(KEYS).half(), draw(KEYS, WIDTH).half()),
                no_mask,
                TYPE,
                "`scores` … float64 or float32 … got torch.float16",
            ),
        ]
    ]
]
