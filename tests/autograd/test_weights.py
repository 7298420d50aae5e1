"""Effective weights, polynomial and rational functions have right gradients; choices accept them."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

import finite_calculus as fc
from tests.autograd.functions import HEADS, KEYS, MODEL, REMOVED, WIDTH, leaf, planes
from tests.helpers.tensors import draw


@pytest.mark.parametrize("offset", [0.0, 30.0, -30.0])
@pytest.mark.parametrize("gauged", [False, True])
def test_effective_weights_have_right_gradients(offset: float, gauged: bool):
    query, features, values = draw(MODEL), draw(KEYS, MODEL, seed=1), draw(KEYS, WIDTH, seed=2)
    features[1] += offset * query / (query * query).sum()  # one score leads, or trails, by 30

    def function(query, features, values):
        gauge = fc.mean_key_gauge(features) if gauged else None
        weights = fc.effective_weights(query, features, values, gauge=gauge)
        return weights.matrix, weights.output

    assert gradcheck(function, [leaf(query), leaf(features), leaf(values)])


def test_effective_weights_agree_with_the_readout_they_represent_in_their_gradients_too():
    query, features, values = draw(MODEL), draw(KEYS, MODEL, seed=1), draw(KEYS, WIDTH, seed=2)

    def gradients(output: Callable[[Tensor, Tensor], Tensor]) -> list[Tensor]:
        leaves = [leaf(query), leaf(values)]
        return list(torch.autograd.grad(output(*leaves).sum(), leaves))

    represented = gradients(lambda u, v: fc.effective_weights(u, features, v).output)
    direct = gradients(lambda u, v: fc.freeze(features @ u, v).output)
    # A few dozen roundings of quantities no larger than features times values.
    slack = 256 * torch.finfo(torch.float64).eps * float(features.abs().max() * values.abs().max())
    for one, other in zip(represented, direct, strict=True):
        assert float((one - other).abs().max()) <= slack


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (fc.restoration_benefit, [(MODEL,), (KEYS, MODEL)]),
        (fc.project, [(3, HEADS, WIDTH), (HEADS, WIDTH, MODEL)]),
        (fc.contract, [(3, HEADS, WIDTH), (HEADS, WIDTH, MODEL), (MODEL,)]),
        (fc.head_gradient, [(HEADS, WIDTH, MODEL), (MODEL,)]),
        (fc.regression_step, [(3, 4, WIDTH), (3, 4)]),
        (fc.key_shift_gauge, [(MODEL, WIDTH), (3, WIDTH)]),
        (fc.augment, [(3, MODEL)]),
        (lambda f, h: fc.aligned_rate(f + h, h), [(5,), (5,)]),
        (lambda *cells: tuple(vars(fc.phase_context(*cells)).values()), [(MODEL,)] * 4),
        (
            lambda *cells: tuple(fc.signed_projections(fc.phase_context(*cells)).values()),
            [(MODEL,)] * 4,
        ),
        (lambda u, a: fc.log_ratios(u, a, torch.tensor([[0, 1], [2, 0]])), [(MODEL,), (3, MODEL)]),
        (lambda u, a: fc.curvature(u, a, 1), [(MODEL,), (3, MODEL)]),
    ],
    ids=[
        "restoration_benefit",
        "project",
        "contract",
        "head_gradient",
        "regression_step",
        "key_shift_gauge",
        "augment",
        "aligned_rate",
        "phase_context",
        "signed_projections",
        "log_ratios",
        "curvature",
    ],
)
def test_polynomial_and_rational_functions_have_right_gradients(
    function: Callable, shapes: list[tuple[int, ...]]
):
    assert gradcheck(function, [leaf(draw(*shape, seed=i)) for i, shape in enumerate(shapes)])


def test_affine_features_and_the_residual_write_have_right_gradients():
    rotary, _ = planes("half", None)

    def function(weight, bias, keys, inputs, values, projection):
        features = fc.affine_features(rotary, weight, bias, keys, 3.0)
        weights = fc.effective_weights(fc.augment(inputs), features, values)
        return features, fc.residual_write(inputs, weights, projection)

    shapes = [(MODEL, 6), (6,), (2, 6), (MODEL,), (2, WIDTH), (WIDTH, MODEL)]
    assert gradcheck(function, [leaf(draw(*shape, seed=i)) for i, shape in enumerate(shapes)])


def test_discrete_choices_accept_inputs_that_require_grad():
    scores, values = leaf(draw(HEADS, KEYS)), leaf(draw(HEADS, KEYS, WIDTH, seed=1))
    originals = draw(HEADS, KEYS, seed=2), draw(HEADS, KEYS, WIDTH, seed=3)
    projection = leaf(draw(HEADS, WIDTH, MODEL))
    plan = fc.select_evictions(fc.freeze(scores, values), REMOVED, projection, 10.0)
    restored = fc.restore_greedily(fc.CachePair(scores, values, *originals), projection, 2)
    query, features = leaf(draw(MODEL)), leaf(draw(KEYS, MODEL))
    control = fc.control_query(query, features, torch.tensor([[0, 1]]), leaf(draw(1)))
    assert len(plan.evicted) == len(REMOVED)
    assert len(restored.restored) == 2
    assert control.feasible
