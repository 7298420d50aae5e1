"""Mistakes in features, gauges and anchors of effective weights."""

import torch

import finite_calculus as fc
from tests.bad_input.inputs import (
    INF,
    KEYS,
    MODEL,
    NAN,
    WIDTH,
    false,
    holding,
    low_scores,
    rotary,
    true,
    weights,
)
from tests.bad_input.refusal import TYPE, VALUE, Refusal
from tests.helpers.tensors import draw

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
        "gauge of other width",
        lambda: weights(gauge=draw(1)),
        VALUE,
        "`gauge` … (4), that is (..., inputs) … got (1,)",
    ),
    Refusal(
        "gauge of other type",
        lambda: weights(gauge=draw(MODEL).float()),
        TYPE,
        "share one dtype … `gauge` is torch.float32",
    ),
    Refusal(
        "gauge of another batch",
        lambda: fc.effective_weights(
            draw(2, MODEL), draw(2, KEYS, MODEL), draw(2, KEYS, WIDTH), gauge=draw(3, MODEL)
        ),
        VALUE,
        "batch dimensions (3,) of `gauge` … (2,)",
    ),
    Refusal(
        "gauge that is not a tensor",
        lambda: weights(gauge=[0.0] * MODEL),
        TYPE,
        "`gauge` must be a torch.Tensor; got list",
    ),
    *(
        Refusal(
            f"{bad} in the gauge",
            lambda bad=bad: weights(gauge=holding(bad, MODEL)),
            VALUE,
            "`gauge` must be finite … got 1 NaN or infinite of 4",
        )
        for bad in (NAN, INF)
    ),
    Refusal(
        "effective weights with a mask of another batch",
        lambda: fc.effective_weights(
            draw(2, MODEL), draw(2, KEYS, MODEL), draw(2, KEYS, WIDTH), mask=true(3, KEYS)
        ),
        VALUE,
        "batch dimensions (3,) of `mask` … (2,)",
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
        "output projection of other width",
        lambda: fc.residual_write(draw(MODEL), weights(), draw(WIDTH + 1, MODEL)),
        VALUE,
        "`output_projection` … (3, 4) … got (4, 4)",
    ),
    Refusal(
        "output bias of other width",
        lambda: fc.residual_write(draw(MODEL), weights(), draw(WIDTH, MODEL), draw(1)),
        VALUE,
        "`output_bias` … (4) … got (1,)",
    ),
    Refusal(
        "output bias of other type",
        lambda: fc.residual_write(draw(MODEL), weights(), draw(WIDTH, MODEL), draw(MODEL).float()),
        TYPE,
        "share one dtype … `output_bias` is torch.float32",
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
