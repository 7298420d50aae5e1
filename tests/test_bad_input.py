"""Bad input is refused, naming the argument, the requirement and what came.

Each row of `REFUSED` is one mistake. The rows are called as in production, without jaxtyping, and
together they must reach every `raise` statement of the package.
"""

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from tests.helpers.tensors import draw

PACKAGE = Path(fc.__file__).parent

NAN, INF = float("nan"), float("inf")
HEADS, KEYS, WIDTH, MODEL = 2, 5, 3, 4


def holding(entry: float, *shape: int) -> Tensor:
    """Random numbers with one bad entry, the last."""
    tensor = draw(*shape)
    tensor.view(-1)[-1] = entry
    return tensor


def true(*shape: int) -> Tensor:
    return torch.ones(*shape, dtype=torch.bool)


def false(*shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=torch.bool)


def heads() -> fc.Readout:
    return fc.freeze(draw(HEADS, KEYS), draw(HEADS, KEYS, WIDTH))


def one_head() -> fc.Readout:
    return fc.freeze(draw(KEYS), draw(KEYS, WIDTH))


def whole_bank() -> tuple[Tensor, Tensor]:
    return draw(KEYS), draw(KEYS, WIDTH)


def no_mask() -> None:
    return None


def half_masked() -> fc.Readout:
    return fc.freeze(draw(KEYS), draw(KEYS, WIDTH), mask=torch.arange(KEYS) < 3)


def rotary() -> fc.Rotary:
    return fc.Rotary.from_base(1e4, 6)


def cache() -> fc.CachePair:
    scores, values = draw(HEADS, KEYS), draw(HEADS, KEYS, WIDTH)
    return fc.CachePair(scores, values, draw(HEADS, KEYS, seed=1), draw(HEADS, KEYS, WIDTH, seed=1))


def projection() -> Tensor:
    return draw(HEADS, WIDTH, MODEL)


def control(pairs: Any, requested: Any, **options: Any) -> fc.QueryControl:
    asked = torch.tensor(requested, dtype=torch.float64)
    return fc.control_query(draw(MODEL), draw(KEYS, MODEL), torch.tensor(pairs), asked, **options)


def control_one(query_input: Tensor, features: Tensor, pairs: Tensor) -> fc.QueryControl:
    return fc.control_query(query_input, features, pairs, draw(1))


def weights(**options: Any) -> fc.EffectiveWeights:
    return fc.effective_weights(draw(MODEL), draw(KEYS, MODEL), draw(KEYS, WIDTH), **options)


class Refusal(NamedTuple):
    """One mistake; its message names, in this order, the argument, the requirement and what came.

    The parts of `says` stand between ellipses.
    """

    id: str
    call: Callable[[], object]
    error: type[Exception]
    says: str


TYPE, VALUE = TypeError, ValueError

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

SCORE_EDITS: dict[str, Callable[[fc.Readout, Tensor], object]] = {
    "log_ratio": fc.log_ratio,
    "probability_change": fc.probability_change,
    "log_normaliser": fc.log_normaliser,
    "finite_response": fc.finite_response,
    "key_response": fc.key_response,
    "linear_response": fc.linear_response,
    "softmax_remainder": fc.softmax_remainder,
    "remainder_weights": fc.remainder_weights,
    "divergence": fc.divergence,
    "total_variation": fc.total_variation,
    "positional_jacobian": fc.positional_jacobian,
    "rotary_remainder": fc.rotary_remainder,
    "band_interaction": lambda r, d: fc.band_interaction(r, draw(KEYS), d),
    "mixed_second_derivative": lambda r, d: fc.mixed_second_derivative(r, draw(KEYS), d),
    "interaction": lambda r, d: fc.interaction(r, d, draw(KEYS, WIDTH)),
    "quadratic_interaction": lambda r, d: fc.quadratic_interaction(r, d, draw(KEYS, WIDTH)),
    "decompose": lambda r, d: fc.decompose(r, d, draw(KEYS, WIDTH)),
    "certify": lambda r, d: fc.certify(r, d, draw(KEYS, WIDTH), draw(WIDTH)),
}

VALUE_EDITS: dict[str, Callable[[fc.Readout, Tensor], object]] = {
    "finite_response": lambda r, e: fc.finite_response(r, draw(KEYS), e),
    "value_response": fc.value_response,
    "interaction": lambda r, e: fc.interaction(r, draw(KEYS), e),
    "quadratic_interaction": lambda r, e: fc.quadratic_interaction(r, draw(KEYS), e),
    "decompose": lambda r, e: fc.decompose(r, draw(KEYS), e),
    "certify": lambda r, e: fc.certify(r, draw(KEYS), e, draw(WIDTH)),
    "restoration_response": lambda r, e: fc.restoration_response(r, draw(KEYS), e),
}

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

EFFECTIVE = [
    Refusal(
        "affine_features: weight of other width",
        lambda: fc.affine_features(rotary(), draw(MODEL, 5), None, draw(KEYS, 6), 1.0),
        VALUE,
        "`query_weight` … (*, 6) … got (4, 5)",
    ),
    Refusal(
        "affine_features: bias of other width",
        lambda: fc.affine_features(rotary(), draw(MODEL, 6), draw(5), draw(KEYS, 6), 1.0),
        VALUE,
        "`query_bias` … (6) … got (5,)",
    ),
    Refusal(
        "affine_features: mixed types",
        lambda: fc.affine_features(rotary(), draw(MODEL, 6), None, draw(KEYS, 6).float(), 1.0),
        TYPE,
        "share one dtype … `query_weight` is torch.float64 … `keys` is torch.float32",
    ),
    Refusal(
        "features of another query",
        lambda: fc.effective_weights(draw(MODEL + 1), draw(KEYS, MODEL), draw(KEYS, WIDTH)),
        VALUE,
        "`features` … (*, 5) … got (5, 4)",
    ),
    Refusal(
        "effective values of other keys",
        lambda: fc.effective_weights(draw(MODEL), draw(KEYS, MODEL), draw(KEYS + 1, WIDTH)),
        VALUE,
        "`values` … (5, *) … got (6, 3)",
    ),
    Refusal(
        "effective weights of mixed types",
        lambda: fc.effective_weights(draw(MODEL).float(), draw(KEYS, MODEL), draw(KEYS, WIDTH)),
        TYPE,
        "share one dtype … `query_input` is torch.float32",
    ),
    *(
        Refusal(
            f"{bad} among the features",
            lambda bad=bad: fc.effective_weights(
                draw(MODEL), holding(bad, KEYS, MODEL), draw(KEYS, WIDTH)
            ),
            VALUE,
            "`features` … finite at the attended keys … got 1 NaN or infinite of 5",
        )
        for bad in (NAN, INF, -INF)
    ),
    Refusal(
        "NaN among the effective values",
        lambda: fc.effective_weights(draw(MODEL), draw(KEYS, MODEL), holding(NAN, KEYS, WIDTH)),
        VALUE,
        "`values` … finite at the attended keys … got 1 NaN",
    ),
    Refusal(
        "effective weights over nothing",
        lambda: weights(mask=false(KEYS)),
        VALUE,
        "`mask` … at least one attended key … got 1 empty row",
    ),
    Refusal(
        "effective weights with an additive mask",
        lambda: weights(mask=torch.zeros(KEYS)),
        TYPE,
        "`mask` … boolean … got torch.float32",
    ),
    Refusal(
        "effective weights with a mask over other keys",
        lambda: weights(mask=true(1)),
        VALUE,
        "`mask` … (5) … got (1,)",
    ),
    Refusal(
        "original-score gauge at scores of −900",
        lambda: fc.effective_weights(*low_scores()),
        VALUE,
        "overflow in this gauge … largest score is -900 … `gauge`=reference_key_gauge",
    ),
    *(
        Refusal(
            f"reference key {key}",
            lambda key=key: fc.reference_key_gauge(draw(KEYS, MODEL), key),
            VALUE,
            f"`key` … 0..4 … got {key}",
        )
        for key in (-1, KEYS)
    ),
    Refusal(
        "mean of no features",
        lambda: fc.mean_key_gauge(draw(KEYS, MODEL), mask=false(KEYS)),
        VALUE,
        "`mask` … at least one attended key … got 1 empty row",
    ),
    Refusal(
        "key shift of other width",
        lambda: fc.key_shift_gauge(draw(MODEL, WIDTH), draw(WIDTH + 1)),
        VALUE,
        "`key_shift` … (3) … got (4,)",
    ),
    Refusal(
        "key shift of other type",
        lambda: fc.key_shift_gauge(draw(MODEL, WIDTH), draw(WIDTH).float()),
        TYPE,
        "share one dtype … `key_shift` is torch.float32",
    ),
    Refusal(
        "residual of other type",
        lambda: fc.residual_write(draw(MODEL).float(), weights(), draw(WIDTH, MODEL)),
        TYPE,
        "share one dtype … `residual` is torch.float32",
    ),
    Refusal(
        "anchor in another gauge",
        lambda: fc.anchor_residual(weights(), weights(gauge=draw(MODEL))),
        VALUE,
        "`anchor` … share the features and values … got different",
    ),
    Refusal(
        "anchor of another bank",
        lambda: fc.anchor_residual(
            weights(),
            fc.effective_weights(draw(MODEL), draw(KEYS, MODEL), draw(KEYS, WIDTH, seed=1)),
        ),
        VALUE,
        "`anchor` … share the features and values … got different",
    ),
    *(
        Refusal(
            f"rank with tolerance {tolerance}",
            lambda tolerance=tolerance: fc.numerical_rank(draw(3, 3), tolerance=tolerance),
            VALUE,
            f"`tolerance` … [0, 1) … got {tolerance}",
        )
        for tolerance in (-1.0, 1.0, NAN)
    ),
]

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

GROUPS = (
    [
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
    + [
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
    + [
        Refusal(
            "prepared increments of other members",
            lambda: fc.prepare(one_head(), torch.tensor([[0, 1]])).response(draw(1, 3)),
            VALUE,
            "`score_delta` … (2) … got (1, 3)",
        ),
        Refusal(
            "prepared increments with NaN",
            lambda: fc.prepare(one_head(), torch.tensor([[0, 1]])).total_variation(
                holding(NAN, 1, 2)
            ),
            VALUE,
            "`score_delta` … finite … got 1 NaN",
        ),
        *(
            Refusal(
                f"prepared {name} with {bad}",
                lambda edits=edits, bad=bad: fc.prepare(
                    one_head(), torch.tensor([[0, 1]])
                ).response(*edits(bad)),
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
        Refusal(
            "deletion of a prepared group of everything",
            lambda: fc.prepare(one_head(), torch.arange(KEYS).unsqueeze(0)).deletion(),
            VALUE,
            "`groups` … leave at least one attended key … got a group that holds all",
        ),
        Refusal(
            "deletion of everything",
            lambda: fc.deletion_response(one_head(), true(1, KEYS)),
            VALUE,
            "`removed` … leave at least one attended key … got a group that holds all",
        ),
        Refusal(
            "deletion of everything attended",
            lambda: fc.deletion_response(half_masked(), (torch.arange(KEYS) < 3).unsqueeze(0)),
            VALUE,
            "`removed` … leave at least one attended key … got a group that holds all",
        ),
        *(
            Refusal(
                f"{call.__name__}: {mistake}",
                lambda call=call, bad=bad: call(one_head(), bad()),
                *rest,
            )
            for call in (fc.deletion_response, fc.deletion_jacobian)
            for mistake, bad, *rest in [
                (
                    "indices",
                    lambda: torch.tensor([[0, 1, 0, 0, 0]]),
                    TYPE,
                    "`removed` … boolean … got torch.int64",
                ),
                (
                    "other keys",
                    lambda: false(1, KEYS - 1),
                    VALUE,
                    "`removed` … (*, 5) … got (1, 4)",
                ),
                (
                    "one group without its axis",
                    lambda: false(KEYS),
                    VALUE,
                    "`removed` … (candidates, keys) … got (5,)",
                ),
                (
                    "a batch of groups",
                    lambda: false(2, 1, KEYS),
                    VALUE,
                    "`removed` … (candidates, keys) … got (2, 1, 5)",
                ),
            ]
        ),
        *(
            Refusal(
                f"budget {budget}",
                lambda budget=budget: fc.select_evictions(
                    heads(), false(1, KEYS), projection(), budget
                ),
                VALUE,
                f"`budget` … non-negative … got {budget}",
            )
            for budget in (-1e-9, -INF, NAN)
        ),
        Refusal(
            "a plan for no heads",
            lambda: fc.select_evictions(one_head(), false(1, KEYS), projection(), 1.0),
            VALUE,
            "`readout` … (heads,) … got ()",
        ),
        Refusal(
            "a plan over indices",
            lambda: fc.select_evictions(heads(), torch.tensor([[0, 1]]), projection(), 1.0),
            TYPE,
            "`groups` … boolean … got torch.int64",
        ),
        Refusal(
            "a plan over other keys",
            lambda: fc.select_evictions(heads(), false(1, KEYS + 1), projection(), 1.0),
            VALUE,
            "`groups` … (*, 5) … got (1, 6)",
        ),
    ]
)

RESTORATION = [
    Refusal(
        "restoration of masked keys",
        lambda: fc.restoration_response(half_masked(), draw(KEYS), draw(KEYS, WIDTH)),
        VALUE,
        "`readout` … attend every key … got masked keys",
    ),
    Refusal(
        "restoration with NaN",
        lambda: fc.restoration_response(one_head(), holding(NAN, KEYS), draw(KEYS, WIDTH)),
        VALUE,
        "`score_delta` … finite … got 1 NaN",
    ),
    Refusal(
        "benefit of other width",
        lambda: fc.restoration_benefit(draw(MODEL), draw(KEYS, MODEL + 1)),
        VALUE,
        "`change` … (*, 4) … got (5, 5)",
    ),
    Refusal(
        "benefit of mixed types",
        lambda: fc.restoration_benefit(draw(MODEL).float(), draw(KEYS, MODEL)),
        TYPE,
        "share one dtype … `error` is torch.float32 … `change` is torch.float64",
    ),
    Refusal(
        "unknown method",
        lambda: fc.restoration_scores(cache(), projection(), "best"),
        VALUE,
        "`method` … one of … 'exact' … got 'best'",
    ),
    Refusal(
        "random scores without a generator",
        lambda: fc.restoration_scores(cache(), projection(), "random"),
        VALUE,
        "`generator` … seeded torch.Generator … got None",
    ),
    Refusal(
        "random restoration without a generator",
        lambda: fc.restore_greedily(cache(), projection(), 1, method="random"),
        VALUE,
        "`generator` … seeded torch.Generator … got None",
    ),
    *(
        Refusal(
            f"restoring {count} of 5",
            lambda count=count: fc.restore_greedily(cache(), projection(), count),
            VALUE,
            f"`count` … between 0 and the number of candidates, 5 … got {count}",
        )
        for count in (-1, KEYS + 1)
    ),
    Refusal(
        "restoring more than the candidates",
        lambda: fc.restore_greedily(cache(), projection(), 3, candidates=torch.arange(KEYS) < 2),
        VALUE,
        "`count` … number of candidates, 2 … got 3",
    ),
    Refusal(
        "candidates as numbers",
        lambda: fc.restore_greedily(cache(), projection(), 1, candidates=torch.arange(KEYS)),
        TYPE,
        "`candidates` … boolean … got torch.int64",
    ),
    Refusal(
        "candidates among other keys",
        lambda: fc.restore_greedily(cache(), projection(), 1, candidates=true(1)),
        VALUE,
        "`candidates` … (5) … got (1,)",
    ),
    *(
        Refusal(
            f"restoring key {key}",
            lambda key=key: cache().restore(key),
            VALUE,
            f"`key` … 0..4 … got values from {key}",
        )
        for key in (-1, KEYS)
    ),
    Refusal(
        "restoring keys of other caches",
        lambda: cache().restore(torch.zeros(3, dtype=torch.int64)),
        VALUE,
        "`key` … one key for each cache … got (3,)",
    ),
    *(
        Refusal(f"cache: {mistake}", lambda parts=parts: fc.CachePair(*parts()), error, says)
        for mistake, parts, error, says in [
            (
                "scores without heads",
                lambda: (draw(5), draw(2, 5, 3), draw(2, 5), draw(2, 5, 3)),
                VALUE,
                "`scores` … (..., heads, keys) … got (5,)",
            ),
            (
                "values of other keys",
                lambda: (draw(2, 5), draw(2, 4, 3), draw(2, 5), draw(2, 4, 3)),
                VALUE,
                "`values` … (2, 5, *) … got (2, 4, 3)",
            ),
            (
                "originals of other heads",
                lambda: (draw(2, 5), draw(2, 5, 3), draw(1, 5), draw(2, 5, 3)),
                VALUE,
                "`original_scores` … (2, 5) … got (1, 5)",
            ),
            (
                "original values of other width",
                lambda: (draw(2, 5), draw(2, 5, 3), draw(2, 5), draw(2, 5, 1)),
                VALUE,
                "`original_values` … (2, 5, 3) … got (2, 5, 1)",
            ),
            (
                "mixed types",
                lambda: (draw(2, 5), draw(2, 5, 3), draw(2, 5).float(), draw(2, 5, 3)),
                TYPE,
                "share one dtype … `original_scores` is torch.float32",
            ),
        ]
    ),
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

WRITES = [
    Refusal(
        "a projection without heads",
        lambda: fc.project(draw(HEADS, WIDTH), draw(WIDTH, MODEL)),
        VALUE,
        "`output_projection` … (heads, value width, model) … got (3, 4)",
    ),
    Refusal(
        "writes of other heads",
        lambda: fc.project(draw(HEADS + 1, WIDTH), projection()),
        VALUE,
        "`head_writes` … (2, 3) … got (3, 3)",
    ),
    Refusal(
        "writes of other type",
        lambda: fc.contract(draw(HEADS, WIDTH).float(), projection(), draw(MODEL)),
        TYPE,
        "share one dtype … `head_writes` is torch.float32",
    ),
    Refusal(
        "a gradient of other width",
        lambda: fc.head_gradient(projection(), draw(MODEL + 1)),
        VALUE,
        "`gradient` … (4) … got (5,)",
    ),
    Refusal(
        "a batch of gradients",
        lambda: fc.head_gradient(projection(), draw(HEADS, MODEL)),
        VALUE,
        "`gradient` … (4) … got (2, 4)",
    ),
    Refusal(
        "readouts of other shapes",
        lambda: fc.phase_context(draw(2, MODEL), draw(MODEL), draw(2, MODEL), draw(2, MODEL)),
        VALUE,
        "`moved` … (2, 4) … got (4,)",
    ),
    Refusal(
        "readouts of other types",
        lambda: fc.phase_context(draw(MODEL), draw(MODEL), draw(MODEL), draw(MODEL).float()),
        TYPE,
        "share one dtype … `reordered` is torch.float32",
    ),
    Refusal(
        "projections on no change",
        lambda: fc.signed_projections(
            fc.phase_context(draw(MODEL), draw(MODEL, seed=1), draw(MODEL, seed=2), draw(MODEL))
        ),
        VALUE,
        "`parts.total` … must not vanish … got 0",
    ),
    Refusal(
        "targets of other examples",
        lambda: fc.regression_step(draw(5, 3), draw(4)),
        VALUE,
        "`targets` … (5) … got (4,)",
    ),
    Refusal(
        "inputs without examples axis",
        lambda: fc.regression_step(draw(3), draw(3)),
        VALUE,
        "`inputs` … (..., examples, width) … got (3,)",
    ),
    Refusal(
        "no examples",
        lambda: fc.regression_step(draw(0, 3), draw(0)),
        VALUE,
        "`inputs` … at least one example … got 0",
    ),
    Refusal(
        "reference of other shape",
        lambda: fc.aligned_rate(draw(3), draw(3, 1)),
        VALUE,
        "`reference` … shape of `predictions`, (3,) … got (3, 1)",
    ),
    Refusal(
        "zero reference",
        lambda: fc.aligned_rate(draw(3), torch.zeros(3, dtype=torch.float64)),
        VALUE,
        "`reference` … must not vanish … got all zeros",
    ),
]

TRACKED = [
    Refusal(
        f"a tracked {name}",
        lambda call=call: call(fc.track(draw(4, 4))),
        TYPE,
        f"torch function {name!r} … no error rule",
    )
    for name, call in {
        "fft_fft": torch.fft.fft,
        "linalg_svd": torch.linalg.svd,
        "linalg_inv": torch.linalg.inv,
        "prod": torch.prod,
        "mean": torch.mean,
        "cumsum": lambda x: x.cumsum(0),
        "pow": lambda x: x.pow(2),
        "sigmoid": torch.sigmoid,
        "log_softmax": lambda x: x.log_softmax(-1),
        "einsum": lambda x: torch.einsum("ij,jk->ik", x, x),
        # These have near relatives with a rule: amax, and sums, products, quotients of two tensors.
        "max": lambda x: x.max(),
        "min": lambda x: x.min(-1),
        "add_": lambda x: x.add_(1.0),
        "exp_": lambda x: x.exp_(),
        "add": lambda x: torch.add(x, x, alpha=2),
        "sub": lambda x: torch.sub(x, x, alpha=2),
        "div": lambda x: torch.div(x, x, rounding_mode="floor"),
    }.items()
]

REFUSED = [
    *READOUT,
    *EDITS,
    *ROTARY,
    *EFFECTIVE,
    *CONTROL,
    *GROUPS,
    *RESTORATION,
    *WRITES,
    *TRACKED,
]


def low_scores() -> tuple[Tensor, Tensor, Tensor]:
    """Query input, features and values whose scores are −900, −901, −902."""
    features = torch.tensor([[-900.0], [-901.0], [-902.0]], dtype=torch.float64)
    return torch.ones(1, dtype=torch.float64), features, draw(3, WIDTH)


def place(error: BaseException) -> tuple[str, int]:
    """File and line of the statement that raised."""
    frame = error.__traceback__
    assert frame is not None
    while frame.tb_next is not None:
        frame = frame.tb_next
    return Path(frame.tb_frame.f_code.co_filename).name, frame.tb_lineno


def raise_statements() -> set[tuple[str, int]]:
    """File and line of every `raise` in the package."""
    return {
        (path.name, node.lineno)
        for path in PACKAGE.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Raise)
    }


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("refusal", REFUSED, ids=[refusal.id for refusal in REFUSED])
def test_a_mistake_is_refused_with_the_argument_the_requirement_and_what_came(refusal: Refusal):
    with pytest.raises(
        refusal.error, match="(?s)" + ".*".join(map(re.escape, refusal.says.split(" … ")))
    ):
        refusal.call()


@pytest.mark.usefixtures("unchecked_shapes")
def test_every_raise_of_the_package_is_provoked():
    reached = set()
    for refusal in REFUSED:
        with pytest.raises(refusal.error) as caught:
            refusal.call()
        reached.add(place(caught.value))
    assert raise_statements() - reached == set()


@pytest.mark.usefixtures("unchecked_shapes")
def test_every_mistake_is_caught_by_the_package_and_not_by_torch():
    known = raise_statements()
    for refusal in REFUSED:
        with pytest.raises(refusal.error) as caught:
            refusal.call()
        assert place(caught.value) in known, refusal.id


def test_mistakes_are_listed_once():
    identities = [refusal.id for refusal in REFUSED]
    assert len(identities) == len(set(identities))


def test_shapes_are_enforced_under_pytest():
    with pytest.raises(Exception, match="Type-check error"):
        fc.freeze(draw(KEYS), draw(KEYS + 1, WIDTH))


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_nan_and_infinity_are_ignored_at_masked_keys(bad: float):
    mask = torch.tensor([True, True, False, True, False])
    clean_edit, clean_values = draw(KEYS), draw(KEYS, WIDTH)
    readout = fc.freeze(draw(KEYS), draw(KEYS, WIDTH), mask=mask)
    spoiled = fc.freeze(
        torch.where(mask, draw(KEYS), bad),
        torch.where(mask.unsqueeze(-1), draw(KEYS, WIDTH), bad),
        mask=mask,
    )
    edit = torch.where(mask, clean_edit, bad)
    values = torch.where(mask.unsqueeze(-1), clean_values, bad)
    assert torch.equal(spoiled.output, readout.output)
    for name, call in SCORE_EDITS.items():
        assert_same(call(spoiled, edit), call(readout, clean_edit), name)
    for name, call in VALUE_EDITS.items():
        if name != "restoration_response":  # which refuses masked keys
            assert_same(call(spoiled, values), call(readout, clean_values), name)


def assert_same(found: object, expected: object, name: str) -> None:
    """Equal to the last bit, and finite."""
    if isinstance(found, Tensor) and isinstance(expected, Tensor):
        assert torch.equal(found, expected), name
        assert bool(torch.isfinite(found).all()), name
        return
    assert type(found) is type(expected)
    assert vars(found)
    for field, part in vars(found).items():
        assert_same(part, getattr(expected, field), f"{name}.{field}")


def test_assert_same_refuses_a_last_bit_and_a_nan():
    x = draw(3)
    with pytest.raises(AssertionError):
        assert_same(x, torch.nextafter(x, x.new_tensor(INF)), "bit")
    with pytest.raises(AssertionError):
        assert_same(holding(NAN, 3), holding(NAN, 3), "nan")


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_effective_weights_ignore_nan_and_infinity_at_masked_keys(bad: float):
    mask = torch.tensor([True, True, False, True, False])
    query, features, values = draw(MODEL), draw(KEYS, MODEL), draw(KEYS, WIDTH)
    clean = fc.effective_weights(query, features, values, mask=mask)
    spoiled = fc.effective_weights(
        query,
        torch.where(mask.unsqueeze(-1), features, bad),
        torch.where(mask.unsqueeze(-1), values, bad),
        mask=mask,
    )
    assert_same(spoiled.matrix, clean.matrix, "matrix")
    assert_same(spoiled.output, clean.output, "output")
    assert_same(spoiled.coefficients, clean.coefficients, "coefficients")


def test_an_infeasible_request_is_answered_with_its_true_residual():
    # Keys 0, 1 and 2 on a line: a₁ is the middle, so log p₀/p₁ and log p₁/p₂ are always equal.
    features = torch.zeros(3, MODEL, dtype=torch.float64)
    features[:, 0] = torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64)
    query, pairs = draw(MODEL), torch.tensor([[0, 1], [1, 2]])
    requested = torch.tensor([1.0, 3.0], dtype=torch.float64)
    answer = fc.control_query(query, features, pairs, requested)
    edited = query + torch.cat([answer.edit, torch.zeros(1, dtype=torch.float64)])
    probs = torch.softmax(features @ edited, -1)
    achieved = torch.log(probs[:-1] / probs[1:])
    # Two logarithms of quotients of probabilities near 1/3 differ by a few units of rounding.
    slack = 64 * torch.finfo(torch.float64).eps
    assert answer.feasible is False
    assert answer.rank == 1
    assert bool(((answer.residual - (requested - achieved)).abs() <= slack).all())
    # Least squares meets the two equal ratios half way: 2 and 2, residual −1 and +1.
    halfway = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    assert bool(((answer.residual - halfway).abs() <= slack).all())


def test_a_feasible_request_is_answered_as_feasible():
    answer = control([[0, 1], [1, 2], [0, 2]], [1.0, -2.0, -1.0])
    assert answer.feasible is True
    assert float(answer.residual.abs().max()) <= answer.accuracy


def test_consistent_repetitions_and_closed_cycles_are_not_refused():
    twice = control([[0, 1], [0, 1]], [1.0, 1.0])
    reverse = control([[0, 1], [1, 0]], [1.0, -1.0])
    cycle = control([[0, 1], [1, 2], [2, 0]], [0.1, 0.2, -(0.1 + 0.2)])
    assert twice.feasible
    assert reverse.feasible
    assert cycle.feasible


def test_the_reference_key_gauge_cures_the_overflow_of_the_original_gauge():
    query, features, values = low_scores()
    gauge = fc.reference_key_gauge(features, 0)
    cured = fc.effective_weights(query, features, values, gauge=gauge)
    expected = fc.freeze(features.squeeze(-1), values).output
    # Three terms of size at most max|v|, each with a handful of roundings.
    slack = 32 * torch.finfo(torch.float64).eps * float(values.abs().max())
    assert bool(torch.isfinite(cured.matrix).all())
    assert bool(((cured.output - expected).abs() <= slack).all())


def test_no_budget_pays_for_an_eviction_that_would_leave_a_head_nothing():
    singles = torch.eye(KEYS, dtype=torch.bool)
    for budget in (1e300, INF):
        assert fc.select_evictions(heads(), true(1, KEYS), projection(), budget).evicted == ()
        plan = fc.select_evictions(heads(), singles, projection(), budget)
        assert len(plan.evicted) == KEYS - 1
        assert all(distortion < INF for distortion in plan.distortions)


def test_no_groups_make_an_empty_plan():
    plan = fc.select_evictions(heads(), false(0, KEYS), projection(), 1.0)
    assert plan == fc.EvictionPlan((), (), 1.0)
