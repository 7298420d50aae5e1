"""Mistakes in increments of scores and values, and in the gradient of a certificate."""

import torch

import finite_calculus as fc
from tests.bad_input.edits import SCORE_EDITS, VALUE_EDITS
from tests.bad_input.inputs import INF, KEYS, NAN, WIDTH, heads, holding, one_head
from tests.bad_input.refusal import TYPE, VALUE, Refusal
from tests.helpers.tensors import draw

EDITS = [
    *(
        Refusal(
            f"{name}: {mistake}", lambda call=call, bad=bad: call(one_head(), bad()), error, says
        )
        for name, call in SCORE_EDITS.items()
        for mistake, bad, error, says in [
            ("NaN increment", lambda: holding(NAN, KEYS), VALUE, "finite … got 1 NaN"),
            ("infinite increment", lambda: holding(-INF, KEYS), VALUE, "finite … got 1 NaN"),
            ("other keys", lambda: draw(KEYS - 1), VALUE, "(5) … got (4,)"),
        ]
    ),
    *(
        Refusal(
            f"{name}: {mistake}", lambda call=call, bad=bad: call(one_head(), bad()), error, says
        )
        for name, call in VALUE_EDITS.items()
        for mistake, bad, error, says in [
            (
                "NaN value edit",
                lambda: holding(NAN, KEYS, WIDTH),
                VALUE,
                "`value_delta` … finite at the attended keys … got 1 NaN",
            ),
            (
                "other width",
                lambda: draw(KEYS, WIDTH + 1),
                VALUE,
                "`value_delta` … (5, 3) … got (5, 4)",
            ),
            (
                "other dtype",
                lambda: draw(KEYS, WIDTH).float(),
                TYPE,
                "share one dtype … `value_delta` is torch.float32 … torch.float64",
            ),
        ]
    ),
    Refusal(
        "an integer increment",
        lambda: fc.finite_response(one_head(), torch.ones(KEYS, dtype=torch.int64)),
        TYPE,
        "`score_delta` … float64 or float32 … got torch.int64",
    ),
    Refusal(
        "a float32 increment of a float64 readout",
        lambda: fc.finite_response(one_head(), draw(KEYS).float()),
        TYPE,
        "share one dtype … `score_delta` is torch.float32 … `readout` is torch.float64",
    ),
    Refusal(
        "increments of other heads",
        lambda: fc.finite_response(heads(), draw(3, KEYS)),
        VALUE,
        "(3,) … `score_delta` … broadcast … (2,)",
    ),
    Refusal(
        "value edits of other heads",
        lambda: fc.finite_response(heads(), draw(KEYS), draw(3, KEYS, WIDTH)),
        VALUE,
        "(3,) … `value_delta` … broadcast … (2,)",
    ),
    Refusal(
        "certify: a gradient of other width",
        lambda: fc.certify(one_head(), draw(KEYS), draw(KEYS, WIDTH), draw(WIDTH + 1)),
        VALUE,
        "`gradient` … (3) … got (4,)",
    ),
    Refusal(
        "certify: a NaN gradient",
        lambda: fc.certify(one_head(), draw(KEYS), draw(KEYS, WIDTH), holding(NAN, WIDTH)),
        VALUE,
        "`gradient` … finite … got 1 NaN",
    ),
    Refusal(
        "certify: a NaN remainder",
        lambda: fc.certify(
            one_head(),
            draw(KEYS),
            draw(KEYS, WIDTH),
            draw(WIDTH),
            score_remainder=holding(NAN, KEYS),
        ),
        VALUE,
        "finite … got 1 NaN",
    ),
    Refusal("phi1 of integers", lambda: fc.phi1(torch.arange(3)), TYPE, "`x` … got torch.int64"),
    Refusal("phi2 in half", lambda: fc.phi2(draw(3).half()), TYPE, "`x` … got torch.float16"),
]
