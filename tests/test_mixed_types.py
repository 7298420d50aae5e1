"""One operand of another floating type is refused by name, never promoted unseen."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from tests.helpers.tensors import draw

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

HEADS, KEYS, WIDTH, MODEL, PLANES = 2, 5, 3, 4, 3
PAIRS = torch.tensor([[0, 1], [2, 0]])


def rotary() -> fc.Rotary:
    return fc.Rotary.from_base(1e4, 2 * PLANES)


def certified(scores: Tensor, values: Tensor, *edits: Tensor) -> fc.Certificate:
    *increments, remainder = edits
    return fc.certify(fc.freeze(scores, values), *increments, score_remainder=remainder)


def affine_features(query_weight: Tensor, keys: Tensor) -> Tensor:
    return fc.affine_features(rotary(), query_weight, None, keys, 2.0)


def residual_write(residual: Tensor, projection: Tensor) -> Tensor:
    weights = fc.effective_weights(draw(MODEL), draw(KEYS, MODEL), draw(KEYS, WIDTH))
    return fc.residual_write(residual, weights, projection)


def key_shifts(query: Tensor, keys: Tensor) -> Tensor:
    return fc.key_shift_scores(rotary(), query, keys, 1.0)


def responses(scores: Tensor, values: Tensor, score_delta: Tensor, value_delta: Tensor) -> Tensor:
    groups = torch.tensor([[0, 2], [3, 1]])
    prepared = fc.prepare(fc.freeze(scores, values), groups)
    return prepared.response(score_delta, value_delta)


# Functions of several tensors, and the shapes of these.
SHAPES: dict[Callable, list[tuple[int, ...]]] = {
    certified: [(KEYS,), (KEYS, WIDTH), (KEYS,), (KEYS, WIDTH), (WIDTH,), (KEYS,)],
    fc.project: [(HEADS, WIDTH), (HEADS, WIDTH, MODEL)],
    fc.contract: [(HEADS, WIDTH), (HEADS, WIDTH, MODEL), (MODEL,)],
    fc.head_gradient: [(HEADS, WIDTH, MODEL), (MODEL,)],
    fc.aligned_rate: [(KEYS,), (KEYS,)],
    fc.key_shift_gauge: [(MODEL, WIDTH), (WIDTH,)],
    affine_features: [(MODEL, 2 * PLANES), (KEYS, 2 * PLANES)],
    fc.effective_weights: [(MODEL,), (KEYS, MODEL), (KEYS, WIDTH)],
    residual_write: [(MODEL,), (WIDTH, MODEL)],
    key_shifts: [(1, 2 * PLANES), (KEYS, 2 * PLANES)],
    fc.regression_step: [(KEYS, WIDTH), (KEYS,)],
    fc.restoration_benefit: [(MODEL,), (KEYS, MODEL)],
    fc.phase_context: [(MODEL,)] * 4,
    responses: [(KEYS,), (KEYS, WIDTH), (2, 2), (2, 2, WIDTH)],
    lambda u, a: fc.log_ratios(u, a, PAIRS): [(MODEL,), (KEYS, MODEL)],
    lambda u, a, b: fc.control_query(u, a, PAIRS, b): [(MODEL,), (KEYS, MODEL), (2,)],
    lambda u, a: fc.curvature(u, a, 0): [(MODEL,), (KEYS, MODEL)],
    fc.CachePair: [(HEADS, KEYS), (HEADS, KEYS, WIDTH), (HEADS, KEYS), (HEADS, KEYS, WIDTH)],
}


@pytest.mark.parametrize("call", SHAPES, ids=lambda call: call.__name__)
def test_functions_refuse_an_operand_of_another_type(call: Callable):
    inputs = [draw(*shape, seed=seed) for seed, shape in enumerate(SHAPES[call])]
    call(*inputs)
    for index in range(len(inputs)):
        mixed = [x.float() if i == index else x for i, x in enumerate(inputs)]
        with pytest.raises(TypeError, match=r"must share one dtype; .* is torch.float32"):
            call(*mixed)
