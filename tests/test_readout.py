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
        other = getattr(readout, name)
        assert other is part is None or torch.equal(other, part), name


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


@pytest.mark.parametrize("size", [1e-3, 1.0, 40.0, 1e4])
def test_the_gradients_of_normaliser_and_probabilities_are_those_of_softmax(size: float):
    """∂ log D/∂d = p' and ∂p'_k/∂d_j = p'_k(δ − p'_j): no anchor and no largest exponent shows in them."""
    readout = fc.freeze(draw(50, 7), draw(50, 7, WIDTH, seed=1))
    leaf = (size * draw(50, 7, seed=2)).requires_grad_()
    moved = response.reallocate(readout, leaf)
    (gradient,) = torch.autograd.grad(fc.log_normaliser(readout, leaf).sum(), leaf)
    edited = moved.probs.detach()
    few = 32 * torch.finfo(torch.float64).eps
    assert float((gradient - edited).abs().max()) <= few
    (gradient,) = torch.autograd.grad(moved.probs[:, 3].sum(), leaf)
    own = torch.arange(7) == 3
    assert float((gradient - edited[:, 3:4] * (own.double() - edited)).abs().max()) <= few
