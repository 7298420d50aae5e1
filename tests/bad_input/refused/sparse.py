"""Mistakes in groups of keys, and in the increments of prepared groups."""

import torch

import finite_calculus as fc
from tests.bad_input.inputs import INF, KEYS, NAN, WIDTH, half_masked, holding, one_head, true
from tests.bad_input.refusal import TYPE, VALUE, Refusal
from tests.helpers.tensors import draw

GROUPS = [
    Refusal(
        f"groups: {mistake}",
        lambda readout=readout, bad=bad: fc.prepare(readout(), bad()),
        error,
        says,
    )
    for mistake, readout, bad, error, says in [
        (
            "a repeated key",
            one_head,
            lambda: torch.tensor([[0, 1], [2, 2]]),
            VALUE,
            "`groups` … distinct keys in every row … got a repeated index",
        ),
        (
            "a key out of range",
            one_head,
            lambda: torch.tensor([[0, 5]]),
            VALUE,
            "`groups` … 0..4 … got values from 0 to 5",
        ),
        (
            "a negative key",
            one_head,
            lambda: torch.tensor([[-1, 2]]),
            VALUE,
            "`groups` … 0..4 … got values from -1 to 2",
        ),
        (
            "fractional keys",
            one_head,
            lambda: torch.tensor([[0.0, 1.0]]),
            TYPE,
            "`groups` … int64 or int32 … got torch.float32",
        ),
        (
            "a mask",
            one_head,
            lambda: true(1, KEYS),
            TYPE,
            "`groups` … int64 or int32 … got torch.bool … mask.nonzero()",
        ),
        (
            "a batch of them",
            one_head,
            lambda: torch.zeros(1, 1, 1, dtype=torch.int64),
            VALUE,
            "`groups` … (candidates, members) … got (1, 1, 1)",
        ),
        (
            "no candidate",
            one_head,
            lambda: torch.zeros(0, 2, dtype=torch.int64),
            VALUE,
            "`groups` … at least one candidate with one member … got shape (0, 2)",
        ),
        (
            "no member",
            one_head,
            lambda: torch.zeros(2, 0, dtype=torch.int64),
            VALUE,
            "`groups` … at least one candidate with one member … got shape (2, 0)",
        ),
        (
            "masked keys only",
            half_masked,
            lambda: torch.tensor([[0, 1], [3, 4]]),
            VALUE,
            "`groups` … an attended key … got a group with none",
        ),
    ]
]


PREPARED = [
    Refusal(
        "prepared increments of other members",
        lambda: fc.prepare(one_head(), torch.tensor([[0, 1]])).response(draw(1, 3)),
        VALUE,
        "`score_delta` … (2) … got (1, 3)",
    ),
    Refusal(
        "prepared increments with NaN",
        lambda: fc.prepare(one_head(), torch.tensor([[0, 1]])).total_variation(holding(NAN, 1, 2)),
        VALUE,
        "`score_delta` … finite … got 1 NaN",
    ),
    *(
        Refusal(
            f"prepared {name} with {bad}",
            lambda edits=edits, bad=bad: fc.prepare(one_head(), torch.tensor([[0, 1]])).response(
                *edits(bad)
            ),
            VALUE,
            f"`{name}` … finite … got 1 NaN or infinite",
        )
        for bad in (NAN, INF, -INF)
        for name, edits in [
            ("score_delta", lambda bad: (holding(bad, 1, 2), draw(1, 2, WIDTH))),
            ("value_delta", lambda bad: (draw(1, 2), holding(bad, 1, 2, WIDTH))),
        ]
    ),
    Refusal(
        "prepared value increments of other members",
        lambda: fc.prepare(one_head(), torch.tensor([[0, 1]])).response(
            draw(1, 2), draw(1, 3, WIDTH)
        ),
        VALUE,
        "`value_delta` … (2, 3) … got (1, 3, 3)",
    ),
    Refusal(
        "prepared increments in half precision",
        lambda: fc.prepare(one_head(), torch.tensor([[0, 1]])).response(draw(1, 2).half()),
        TYPE,
        "`score_delta` … float64 or float32 … got torch.float16",
    ),
]
