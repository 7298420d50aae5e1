"""Mistakes in frequencies, layouts, bands, shifts and what is shifted."""

import torch

import finite_calculus as fc
from tests.bad_input.inputs import INF, NAN, holding, rotary, true
from tests.bad_input.refusal import TYPE, VALUE, Refusal
from tests.helpers.tensors import draw

ROTARY = [
    Refusal(
        "odd rotary width",
        lambda: fc.Rotary.from_base(1e4, 8, rotary_width=3),
        VALUE,
        "`rotary_width` … even … got 3",
    ),
    Refusal(
        "odd head width, all of it rotary",
        lambda: fc.Rotary.from_base(1e4, 7),
        VALUE,
        "`rotary_width` … even … got 7",
    ),
    Refusal(
        "rotary width beyond the head",
        lambda: fc.Rotary.from_base(1e4, 4, rotary_width=6),
        VALUE,
        "`rotary_width` … head_width=4 … got 6",
    ),
    Refusal(
        "negative rotary width",
        lambda: fc.Rotary.from_base(1e4, 4, rotary_width=-2),
        VALUE,
        "`rotary_width` … between 0 and … got -2",
    ),
    *(
        Refusal(
            f"base {base}",
            lambda base=base: fc.Rotary.from_base(base, 4),
            VALUE,
            f"`base` … positive … got {base}",
        )
        for base in (0.0, -1.0, NAN)
    ),
    Refusal(
        "head width too small",
        lambda: fc.Rotary(draw(3), 5),
        VALUE,
        "`head_width` … twice the number of planes … got 5 … 3 frequencies",
    ),
    Refusal(
        "unknown layout",
        lambda: fc.Rotary(draw(3), 6, "paired"),
        VALUE,
        "`layout` … 'half' or 'interleaved' … got 'paired'",
    ),
    Refusal(
        "planes without room",
        lambda: fc.Rotary(draw(3), 7, start=2),
        VALUE,
        "`start` … room for 3 planes in 7 coordinates … got 2",
    ),
    Refusal(
        "infinite frequency",
        lambda: fc.Rotary(holding(INF, 3), 6),
        VALUE,
        "`frequencies` … finite … got 1 NaN or infinite of 3",
    ),
    Refusal(
        "integer frequencies",
        lambda: fc.Rotary(torch.arange(3), 6),
        TYPE,
        "`frequencies` … got torch.int64",
    ),
    Refusal(
        "frequencies of two heads",
        lambda: fc.Rotary(draw(2, 3), 6),
        VALUE,
        "`frequencies` … (planes,) … got (2, 3)",
    ),
    Refusal(
        "bands that miss a plane",
        lambda: fc.frequency_bands(rotary(), (1, 1)),
        VALUE,
        "`sizes` … sum to the number of planes, 3 … got (1, 1) with sum 2",
    ),
    Refusal(
        "a band of negative size",
        lambda: fc.frequency_bands(rotary(), (4, -1)),
        VALUE,
        "`sizes` … non-negative … got (4, -1)",
    ),
    *(
        Refusal(f"{name}: {mistake}", lambda call=call, bad=bad: call(*bad()), error, says)
        for name, call in {
            "rotate": lambda z, p, band: fc.rotate(rotary(), z, p, band=band),
            "displacement": lambda z, p, band: fc.displacement(rotary(), z, p, band=band),
            "tangent": lambda z, p, band: fc.tangent(rotary(), z, p, band=band),
            "phi1_rotary": lambda z, p, band: fc.phi1_rotary(rotary(), z, p, band=band),
        }.items()
        for mistake, bad, error, says in [
            ("other width", lambda: (draw(5), 1.0, None), VALUE, "`vectors` … (6) … got (5,)"),
            ("half", lambda: (draw(6).half(), 1.0, None), TYPE, "`vectors` … got torch.float16"),
            ("NaN shift", lambda: (draw(6), NAN, None), VALUE, "`shift` … finite … got 1 NaN"),
            (
                "band of other planes",
                lambda: (draw(6), 1.0, true(4)),
                VALUE,
                "`band` … boolean mask over the 3 planes … got shape (4,)",
            ),
            (
                "band of weights",
                lambda: (draw(6), 1.0, torch.ones(3)),
                VALUE,
                "`band` … boolean mask … torch.float32",
            ),
        ]
    ),
    *(
        Refusal(
            f"{call.__name__}: {mistake}", lambda call=call, bad=bad: call(rotary(), *bad()), *rest
        )
        for call in (fc.key_shift_scores, fc.key_shift_scores_linear, fc.key_shift_scores_remainder)
        for mistake, bad, *rest in [
            (
                "query of other width",
                lambda: (draw(1, 4), draw(5, 6), 1.0),
                VALUE,
                "`query` … (6) … got (1, 4)",
            ),
            (
                "keys of other width",
                lambda: (draw(1, 6), draw(5, 4), 1.0),
                VALUE,
                "`keys` … (6) … got (5, 4)",
            ),
            (
                "mixed types",
                lambda: (draw(1, 6).float(), draw(5, 6), 1.0),
                TYPE,
                "share one dtype … `query` is torch.float32 … `keys` is torch.float64",
            ),
            (
                "infinite shift",
                lambda: (draw(1, 6), draw(5, 6), INF),
                VALUE,
                "`shift` … finite … got 1 NaN or infinite",
            ),
        ]
    ),
]
