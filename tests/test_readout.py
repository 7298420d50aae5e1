"""Freezing a readout: batches of scores, values and masks meet, and each argument is named if it cannot."""

import itertools
import math
import re

import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from finite_calculus import response
from finite_calculus.readout import relative_scores
from tests.helpers.tensors import draw

KEYS, WIDTH = 3, 2
BATCHES = [(), (4,), (2, 1), (2, 4)]


def mask_of(*shape: int) -> Tensor:
    mask = torch.rand(*shape, generator=torch.Generator().manual_seed(3)) < 0.5
    mask[..., 1] = True
    return mask


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("batches", list(itertools.product(BATCHES, repeat=3)), ids=str)
def test_batches_of_scores_values_and_masks_are_broadcast(batches: tuple[tuple[int, ...], ...]):
    first, second, third = batches
    scores, values, mask = draw(*first, KEYS), draw(*second, KEYS, WIDTH), mask_of(*third, KEYS)
    batch = torch.broadcast_shapes(*batches)
    readout = fc.freeze(scores, values, mask=mask)
    assert readout.batch == batch
    full = fc.freeze(
        scores.expand(*batch, KEYS).contiguous(),
        values.expand(*batch, KEYS, WIDTH).contiguous(),
        mask=mask.expand(*batch, KEYS).contiguous(),
    )
    for name, part in vars(full).items():
        assert torch.equal(getattr(readout, name), part), name


@pytest.mark.usefixtures("unchecked_shapes")
def test_batches_that_do_not_meet_are_refused_by_name():
    says = "The batch dimensions (2,) of `mask` must broadcast with the readout's (3,)"
    for scores, values in (
        (draw(3, KEYS), draw(KEYS, WIDTH)),
        (draw(KEYS), draw(3, KEYS, WIDTH)),
        (draw(1, KEYS), draw(3, KEYS, WIDTH)),
    ):
        with pytest.raises(ValueError, match=re.escape(says)):
            fc.freeze(scores, values, mask=mask_of(2, KEYS))
    says = "The batch dimensions (2,) of `values` must broadcast with the readout's (3,)"
    with pytest.raises(ValueError, match=re.escape(says)):
        fc.freeze(draw(3, KEYS), draw(2, KEYS, WIDTH))


@pytest.mark.usefixtures("unchecked_shapes")
def test_scores_and_values_share_one_type():
    for scores, values in (
        (draw(KEYS), draw(KEYS, WIDTH).float()),
        (draw(KEYS).float(), draw(KEYS, WIDTH)),
        (draw(KEYS), draw(KEYS, WIDTH).half()),
        (draw(KEYS).half(), draw(KEYS, WIDTH)),
    ):
        with pytest.raises(TypeError, match=r"must (share one dtype|be float64 or float32)"):
            fc.freeze(scores, values)


@pytest.mark.parametrize("garbage", [5.0, -5.0, 1e300, torch.nan, torch.inf])
def test_a_key_that_is_not_attended_is_zero_in_every_part(garbage: float):
    scores = torch.tensor([[0.5, garbage, 0.5], [garbage, 0.0, -800.0]], dtype=torch.float64)
    values = torch.tensor([[[3.0], [garbage], [7.0]], [[garbage], [2.0], [1.0]]]).double()
    mask = torch.tensor([[True, False, True], [False, True, True]])
    readout = fc.freeze(scores, values, mask=mask)
    half = -math.log(2)
    assert readout.reference.tolist() == [[0], [1]]
    assert readout.scores.tolist() == [[0.5, 0.0, 0.5], [0.0, 0.0, -800.0]]
    assert readout.probs.tolist() == [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]
    assert readout.log_probs.tolist() == [[half, half, half], [0.0, 0.0, -800.0]]
    assert readout.values.squeeze(-1).tolist() == [[3.0, 0.0, 7.0], [0.0, 2.0, 1.0]]
    assert readout.offsets.squeeze(-1).tolist() == [[0.0, 0.0, 4.0], [0.0, 0.0, -1.0]]
    assert readout.mean_offset.tolist() == [[2.0], [0.0]]
    assert readout.output.tolist() == [[5.0], [2.0]]
    assert readout.centred.squeeze(-1).tolist() == [[-2.0, -2.0, 2.0], [0.0, 0.0, -1.0]]
    assert relative_scores(readout).tolist() == [[0.0, 0.0, 0.0], [0.0, 0.0, -800.0]]
    assert readout.keys == 3


def test_increments_of_keys_that_are_not_attended_are_zero():
    mask = torch.tensor([True, False, True])
    readout = fc.freeze(draw(KEYS), draw(KEYS, WIDTH, seed=1), mask=mask)
    assert response.relative_increments(readout, draw(KEYS, seed=2))[1] == 0
    assert not response.attended_value_delta(readout, draw(KEYS, WIDTH, seed=3))[1].any()


def test_no_gradient_flows_through_the_largest_exponent():
    readout = fc.freeze(draw(50, 7), draw(50, 7, WIDTH, seed=1))
    relative = draw(50, 7, seed=2)
    relative[:, 3] = 40.0
    leaf = relative.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(response._log_normaliser(readout, leaf).sum(), leaf)
    exponents = readout.log_probs + relative
    terms = torch.exp(exponents - exponents.amax(-1, keepdim=True))
    assert torch.equal(gradient, 1 / terms.sum(-1, keepdim=True) * terms)
    leaf = relative.clone().requires_grad_()
    (gradient,) = torch.autograd.grad((response._edited_probs(readout, leaf)[:, 3]).sum(), leaf)
    edited = relative_scores(readout) + relative
    weights = torch.exp(edited - edited.amax(-1, keepdim=True)).requires_grad_()
    (outer,) = torch.autograd.grad((weights / weights.sum(-1, keepdim=True))[:, 3].sum(), weights)
    assert torch.equal(gradient, outer * weights.detach())
