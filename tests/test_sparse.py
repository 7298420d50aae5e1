"""Groups that hold nearly all the mass, or all of it, and forms that are not used but have gradients."""

import pytest
import torch

import finite_calculus as fc
from finite_calculus import bands
from proofs.references import bank
from tests.helpers.accuracy import PROMISE, relative_error
from tests.helpers.tensors import draw

KEYS = 8


@pytest.mark.parametrize("increments", [[5.0, 5.0, 6.0], [-30.0, -30.0, -30.0], [-7.0, -7.0, 1.0]])
def test_heavy_groups_keep_their_digits(increments: list[float]):
    scores, values = draw(KEYS, seed=1) - 30, draw(KEYS, 3, seed=2)
    scores[:2] = torch.tensor([0.0, 0.3])
    for members in ([0, 1, 2], [1, 0, 3]):
        keys = torch.tensor([members])
        score_delta = torch.tensor([increments], dtype=torch.float64)
        result = fc.prepare(fc.freeze(scores, values), keys).response(score_delta)
        spread = torch.zeros(KEYS).double().index_copy(0, keys[0], score_delta[0])
        error = relative_error(
            result,
            bank.finite_response,
            scores=scores,
            values=values,
            score_delta=spread,
            value_delta=torch.zeros(KEYS, 3).double(),
            mask=[True] * KEYS,
        )
        assert error <= PROMISE


def test_a_group_that_holds_everything_is_edited_as_the_whole_bank():
    scores, values, score_delta = draw(3, seed=1), draw(3, 2, seed=2), draw(3, seed=3)
    readout = fc.freeze(fc.track(scores), fc.track(values))
    groups = fc.prepare(readout, torch.tensor([[0, 1, 2]]))
    assert fc.value_of(groups.rest).tolist() == [[0.0]]
    result = groups.response(fc.track(score_delta.unsqueeze(0)))[0]
    whole = fc.finite_response(readout, fc.track(score_delta))
    gap = (fc.value_of(result) - fc.value_of(whole)).abs()
    assert bool((gap <= fc.error_of(result) + fc.error_of(whole)).all())


def test_edits_that_leave_nothing_in_common_have_finite_gradients(monkeypatch: pytest.MonkeyPatch):
    readout = fc.freeze(torch.zeros(2).double(), draw(2, 3, seed=1))
    leaves = [
        edit.requires_grad_() for edit in torch.diag(torch.full((2,), 50.0)).double().unbind()
    ]
    # The coupling of such edits is −1 up to rounding; here exactly.
    opposed = torch.tensor([1.0, 0.0], dtype=torch.float64)
    monkeypatch.setattr(bands, "_crossed", lambda first, second: 0 * first.change - opposed)
    result = fc.band_interaction(readout, *leaves)
    for gradient in torch.autograd.grad(result.sum(), leaves):
        assert bool(torch.isfinite(gradient).all())
