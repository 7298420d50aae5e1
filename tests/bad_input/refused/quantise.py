"""Mistakes in bits and in what is quantised."""

import torch

import finite_calculus as fc
from tests.bad_input.inputs import KEYS, NAN, holding
from tests.bad_input.refusal import TYPE, VALUE, Refusal
from tests.helpers.tensors import draw

QUANTISE = [
    *(
        Refusal(
            f"{bits!r} bits",
            lambda bits=bits: fc.quantise(draw(KEYS), bits),
            VALUE,
            f"`bits` … integer of at least 2 … got {bits!r}",
        )
        for bits in (1, 0, -4, 4.0, True, "8")
    ),
    Refusal(
        "quantised NaN",
        lambda: fc.quantise(holding(NAN, KEYS), 8),
        VALUE,
        "`vectors` … finite … got 1 NaN or infinite of 5",
    ),
    Refusal(
        "quantised integers",
        lambda: fc.quantise(torch.arange(KEYS), 8),
        TYPE,
        "`vectors` … float64 or float32 … got torch.int64",
    ),
]
