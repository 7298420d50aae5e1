"""Effective weights at their edges: masks, extreme scores, biases, bounds and ranks."""

import math

import pytest
import torch

import finite_calculus as fc
from finite_calculus import _anchor
from proofs.references import effective as of_affine
from proofs.references.numbers import distance, prove
from tests.helpers.tensors import draw

KEYS, INPUTS, WIDTH = 5, 4, 3
MASK = torch.tensor([False, True, True, False, True])
EPS = torch.finfo(torch.float64).eps


def scored(*scores: float, **options) -> fc.EffectiveWeights:
    """Weights whose keys have the given scores."""
    features = torch.tensor(scores, dtype=torch.float64).unsqueeze(-1)
    return fc.effective_weights(
        torch.ones(1, dtype=torch.float64), features, draw(len(scores), 2), **options
    )


def test_nothing_of_a_masked_key_is_left():
    weights = fc.effective_weights(
        draw(INPUTS), draw(KEYS, INPUTS, seed=1), draw(KEYS, WIDTH), mask=MASK
    )
    for part in (weights.features, weights.centred, weights.coefficients):
        assert int(part[~MASK].count_nonzero()) == 0
        assert int(part[MASK].count_nonzero()) == part[MASK].numel()


def test_a_masked_key_does_not_hide_an_overflow():
    attended = torch.tensor([False, True])
    assert bool(torch.isfinite(scored(5.0, -700.0, mask=attended).coefficients).all())
    with pytest.raises(ValueError, match="the largest score is -716"):
        scored(5.0, -716.0, mask=attended)


@pytest.mark.parametrize(
    "scores", [(0.0, -800.0), (800.0, 0.0), (800.0, -800.0, 1.0), (1e3, 999.0)]
)
def test_coefficients_have_finite_gradients_however_far_apart_the_scores(scores):
    features = torch.tensor(scores, dtype=torch.float64).unsqueeze(-1).requires_grad_()
    weights = fc.effective_weights(
        torch.ones(1, dtype=torch.float64), features, draw(len(scores), 2)
    )
    (gradient,) = torch.autograd.grad(weights.matrix.sum(), features)
    assert bool(torch.isfinite(weights.coefficients).all())
    assert bool(torch.isfinite(gradient).all())


def test_the_residual_write_adds_the_output_and_the_bias():
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    zeros = torch.zeros(2, 1, dtype=torch.float64)
    weights = fc.effective_weights(zeros[0], zeros, values)  # equal scores: the mean value
    residual, bias = torch.tensor([[10.0, 20.0, 30.0], [1.0, 2.0, 4.0]], dtype=torch.float64)
    projection = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]], dtype=torch.float64)
    assert fc.residual_write(residual, weights, projection).tolist() == [12.0, 23.0, 37.0]
    assert fc.residual_write(residual, weights, projection, bias).tolist() == [13.0, 25.0, 41.0]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_far_anchor_is_bounded_by_the_product_of_norms(dtype: torch.dtype):
    features, values = draw(2, 7, 60, seed=1).to(dtype), draw(2, 7, 40, seed=2).to(dtype)
    here, there = (
        fc.effective_weights(draw(2, 60, seed=s).to(dtype), features, values) for s in (3, 4)
    )
    spectral = torch.linalg.svdvals((here.matrix - there.matrix).double()).amax(-1)
    expected = torch.linalg.vector_norm(here.query_input.double(), dim=-1) * spectral
    bound = fc.anchor_bound(here, there).double()
    assert bound.shape == (2,)
    # Scores are sums of sixty products of order one: a coefficient may be off by sixty roundings of
    # sixty, its own and those of Z, for either query.
    eps = torch.finfo(dtype).eps
    assert bool((bound <= expected * (1 + 4 * 60 * 60 * eps)).all())
    assert bool((bound >= expected * (1 - 8 * 100 * eps)).all())


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-30, 1e-85])
@pytest.mark.parametrize("seed", range(10))
def test_an_anchor_one_rounding_away_is_bounded_by_its_distance(seed: int, scale: float):
    query, features = scale * draw(3, seed=seed), scale * draw(4, 3, seed=seed + 50)
    values = draw(4, 2, seed=seed + 100)
    beside = torch.nextafter(query, torch.full_like(query, torch.inf))
    here, there = (fc.effective_weights(u, features, values) for u in (query, beside))
    bound = float(fc.anchor_bound(here, there))
    case = {"query_input": query, "anchor_input": beside, "features": features, "values": values}
    arguments = {name: part.tolist() for name, part in case.items()} | {"mask": [True] * 4}
    exact, _ = prove(of_affine.anchor_error, arguments)
    error = math.hypot(*[distance(0.0, ball) for ball in exact])
    assert 0 < error <= bound
    # Norms and largest changes stand for four keys of either sign: far from 1, but no rounding of ΔM.
    assert bound <= 1e4 * error


def test_anchors_are_bounded_only_at_one_bank():
    weights = fc.effective_weights(draw(INPUTS), draw(KEYS, INPUTS, seed=1), draw(KEYS, WIDTH))
    with pytest.raises(ValueError, match="`anchor` must share the features and values"):
        fc.anchor_bound(weights, scored(1.0, 2.0))


def test_a_large_position_is_not_rounded():
    rotary = fc.Rotary(torch.tensor([1.0, 0.5], dtype=torch.float64), 4)
    weight, keys = draw(1, 4), draw(KEYS, 4, seed=1)
    exact = torch.tensor(16777217.0, dtype=torch.float64)
    for position in (16777217.0, 16777217, exact):
        features = fc.affine_features(rotary, weight, None, keys, position)
        assert torch.equal(features, fc.affine_features(rotary, weight, None, keys, exact))
        turned = fc.rotate(rotary, keys, -exact)
        assert torch.equal(features[:, 0], (turned @ weight.mT).squeeze(-1) * 0.5)
    assert fc.affine_features(rotary, weight, None, keys, exact).shape == (KEYS, 2)


@pytest.mark.parametrize("shape", [(2, 0, 3), (0, 3), (4, 3, 0)])
def test_a_matrix_without_rows_or_columns_has_rank_zero(shape: tuple[int, ...]):
    rank, _ = fc.numerical_rank(torch.zeros(*shape, dtype=torch.float64))
    assert rank.shape == shape[:-2]
    assert int(rank.sum()) == 0


def test_the_tolerance_of_a_rank_does_not_depend_on_the_batch():
    assert fc.numerical_rank(draw(9, 2, 3))[1] == 3 * EPS


def test_a_score_far_below_the_others_has_finite_gradients():
    scores = torch.tensor([0.5, -800.0, 3.0], dtype=torch.float64, requires_grad=True)
    attended = torch.ones(3, dtype=torch.bool)
    coefficients = _anchor.score_coefficients(scores, attended)
    (gradient,) = torch.autograd.grad(coefficients.square().sum(), scores)
    assert bool(torch.isfinite(gradient).all())
    assert bool(gradient.any())


def test_no_gradient_flows_through_the_largest_score():
    scores = torch.tensor([0.5, -1.0, 3.0], dtype=torch.float64, requires_grad=True)
    coefficients = _anchor.score_coefficients(scores, torch.ones(3, dtype=torch.bool))
    visited, waiting = set(), [coefficients.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in visited:
            visited.add(node)
            waiting += [following for following, _ in node.next_functions]
    names = {type(node).__name__ for node in visited}
    assert any(name.startswith("Exp") for name in names)
    assert not any(name.startswith("Amax") for name in names)
