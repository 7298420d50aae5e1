"""Mistakes in projections, cells of a reordering and steps of a regression."""

import torch

import finite_calculus as fc
from tests.bad_input.inputs import HEADS, MODEL, WIDTH, projection
from tests.bad_input.refusal import TYPE, VALUE, Refusal
from tests.helpers.tensors import draw

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
