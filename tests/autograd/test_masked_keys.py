"""Garbage at masked keys leaves all gradients right, and zero there."""

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

import finite_calculus as fc
from tests.autograd.functions import INF, KEYS, MASK, MODEL, NAN, RESPONSES, WIDTH, leaf, ordinary
from tests.autograd.masked import assert_quiet_at_masked_keys, fitted, spread
from tests.helpers.tensors import draw


@pytest.mark.parametrize("name", RESPONSES)
def test_garbage_at_masked_keys_leaves_gradients_right_and_zero_there(name: str):
    scores, values, score_delta, value_delta = (
        spread(part, garbage)
        for part, garbage in zip(ordinary(), (-INF, NAN, INF, NAN), strict=True)
    )

    def function(*attended: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Of the attended entries alone; those at masked keys stay what they are."""
        filled = [
            torch.where(fitted(MASK, whole), part, whole)
            for part, whole in zip(
                attended, (scores, values, score_delta, value_delta), strict=True
            )
        ]
        readout = fc.freeze(filled[0], filled[1], mask=MASK)
        return RESPONSES[name](readout, filled[2], filled[3])

    assert gradcheck(function, [leaf(spread(part, 0.0)) for part in ordinary()])
    leaves = [leaf(part) for part in (scores, values, score_delta, value_delta)]
    results = RESPONSES[name](fc.freeze(leaves[0], leaves[1], mask=MASK), leaves[2], leaves[3])
    for result in results if isinstance(results, tuple) else (results,):
        assert bool(torch.isfinite(result).all())
    assert_quiet_at_masked_keys(results, leaves)


def test_prepared_groups_ignore_garbage_at_masked_keys():
    parts = zip(ordinary(), (-INF, NAN, INF, NAN), strict=True)
    scores, values, score_delta, value_delta = (leaf(spread(part, bad)) for part, bad in parts)
    groups = torch.tensor([[0, 1], [3, 4]])  # each with one masked key
    prepared = fc.prepare(fc.freeze(scores, values, mask=MASK), groups)
    results = (
        prepared.response(score_delta[groups], value_delta[groups]),
        prepared.deletion(),
        prepared.divergence(score_delta[groups]),
        prepared.total_variation(score_delta[groups]),
    )
    assert_quiet_at_masked_keys(results, [scores, values, score_delta, value_delta])


def test_deletion_ignores_garbage_at_masked_keys():
    scores, values = (
        leaf(spread(part, bad)) for part, bad in zip(ordinary()[:2], (INF, NAN), strict=True)
    )
    readout = fc.freeze(scores, values, mask=MASK)
    removed = torch.tensor([[True, True, False, False, False, False], [False] * 3 + [True] * 3])
    assert_quiet_at_masked_keys(fc.deletion_response(readout, removed), [scores, values])


def test_assert_quiet_refuses_gradients_at_masked_keys():
    loud = leaf(draw(len(MASK)))
    with pytest.raises(AssertionError):
        assert_quiet_at_masked_keys(loud * loud, [loud])
    with pytest.raises(AssertionError):
        assert_quiet_at_masked_keys(torch.where(MASK, loud / 0, 0.0), [loud])


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_effective_weights_have_quiet_gradients_at_masked_keys(bad: float):
    query = leaf(draw(MODEL))
    features = leaf(spread(draw(KEYS, MODEL, seed=1), bad))
    values = leaf(spread(draw(KEYS, WIDTH, seed=2), bad))
    weights = fc.effective_weights(query, features, values, mask=MASK)
    (slope,) = torch.autograd.grad(weights.output.sum(), query, retain_graph=True)
    assert bool(torch.isfinite(slope).all())
    assert_quiet_at_masked_keys((weights.output, weights.matrix), [features, values])
