"""Sums over sets of keys, taken on their own: from their own largest score, empty ones as zero."""

import math

import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from finite_calculus import _complement as complement, spans
from tests.helpers.tensors import draw


def test_a_set_is_summed_from_its_own_largest_score():
    scores = torch.tensor([0.0, -800.0, -800.0, -900.0], dtype=torch.float64)
    included = torch.tensor([[False, True, True, False], [True, False, False, False]])
    weights, log_mass, present = complement.normalised(scores, included)
    assert weights.tolist() == [[0.0, 0.5, 0.5, 0.0], [1.0, 0.0, 0.0, 0.0]]
    assert log_mass.tolist() == [math.log(2) - 800, 0.0]
    assert present.tolist() == [True, True]


def test_an_empty_set_has_neither_weight_nor_mass():
    scores, included = draw(2, 3, 4), torch.zeros(3, 4, dtype=torch.bool)
    weights, log_mass, present = complement.normalised(scores, included)
    assert weights.shape == (2, 3, 4)
    assert not weights.any()
    assert log_mass.tolist() == [[0.0] * 3] * 2
    assert not present.any()
    assert present.shape == (3,)


def test_scores_of_other_keys_leave_no_trace_in_the_gradients():
    scores = torch.tensor([900.0, 1.0, 0.5, -900.0], dtype=torch.float64, requires_grad=True)
    included = torch.tensor([False, True, True, False])
    weights, log_mass, _ = complement.normalised(scores, included)
    (gradient,) = torch.autograd.grad(log_mass + weights[1], scores)
    assert bool(torch.isfinite(gradient).all())
    assert gradient[~included].tolist() == [0.0, 0.0]


def test_no_gradient_flows_through_the_largest_score():
    scores = draw(50, 7).requires_grad_()
    _, log_mass, _ = complement.normalised(scores, torch.ones(7, dtype=torch.bool))
    (gradient,) = torch.autograd.grad(log_mass.sum(), scores)
    weights = torch.exp(scores.detach() - scores.detach().amax(-1, keepdim=True))
    assert torch.equal(gradient, 1 / weights.sum(-1, keepdim=True) * weights)


def test_a_chunk_holds_as_much_as_it_may_and_at_least_one_set():
    most = complement._CHUNK
    for entries in (1, 2, 3, most // 3, most // 2, most - 1, most):
        assert complement.chunk(entries) == most // entries
    assert complement.chunk(most + 1) == complement.chunk(10 * most) == 1
    assert complement.chunk(0) == most


def test_one_part_is_joined_without_a_copy():
    readout = fc.freeze(draw(4), draw(4, 2, seed=1))
    part = complement.total_of(readout, torch.eye(4, dtype=torch.bool))
    assert complement.joined([part]) is part
    doubled = complement.joined([part, part])
    assert torch.equal(doubled.mean, torch.cat([part.mean, part.mean]))
    assert torch.equal(doubled.log_mass, torch.cat([part.log_mass, part.log_mass]))


@pytest.mark.parametrize("lead", [0.0, 30.0, 800.0])
def test_the_total_of_a_set_is_its_softmax_sum(lead: float):
    scores, values = draw(2, 3, 5), draw(2, 3, 5, 2, seed=1)
    scores[..., 1] += lead
    readout = fc.freeze(fc.track(scores), fc.track(values))
    sets = torch.tensor([[True, False, True, True, False], [False, True, False, False, True]])
    total = complement.total_of(readout, sets)
    for index, members in enumerate(sets):
        alone = fc.freeze(fc.track(scores[..., members]), fc.track(values[..., members, :]))
        pivot = fc.track(torch.take_along_dim(values, readout.reference.unsqueeze(-1), -2))
        expected = alone.output - pivot.squeeze(-2)
        mean = total.mean[..., index, :]
        gap = (fc.value_of(mean) - fc.value_of(expected)).abs()
        assert bool((gap <= fc.error_of(mean) + fc.error_of(expected)).all())
        assert bool((fc.error_of(mean) <= 1e-9).all())


def assert_agree(one: Tensor, other: Tensor) -> None:
    """Within the running error bounds of both, which are small themselves."""
    bound = fc.error_of(one) + fc.error_of(other)
    assert one.shape == other.shape
    assert bool(((fc.value_of(one) - fc.value_of(other)).abs() <= bound).all())
    assert bool((bound <= 1e-9).all())


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
@pytest.mark.parametrize("keys", [1, 2, 3, 4, 5, 9, 10, 17])
def test_blocks_leave_to_a_span_what_the_keys_outside_it_are(keys: int, batch: tuple[int, ...]):
    scores, values = draw(*batch, keys), draw(*batch, keys, 2, seed=1)
    scores[..., keys // 2] += 20
    mask = torch.ones(*batch, keys, dtype=torch.bool)
    mask[..., ::3] = False
    mask[..., keys // 2] = True
    for attended in (None, mask):
        bank = fc.read_bank(fc.track(scores), fc.track(values), mask=attended)
        for width in sorted({1, keys // 2, keys - 1, keys} - {0}):
            starts = torch.arange(keys - width + 1)
            outside = torch.ones(len(starts), keys, dtype=torch.bool)
            outside.scatter_(1, starts.unsqueeze(-1) + torch.arange(width), False)
            total = spans._outside(bank, starts, width)
            expected = complement.total_of(bank.readout, outside)
            assert torch.equal(total.present, expected.present)
            assert_agree(total.log_mass, expected.log_mass)
            assert_agree(total.mean, expected.mean)


@pytest.mark.parametrize("keys", [1, 2, 4, 5, 9, 10, 16, 17, 100])
def test_a_bank_is_cut_into_about_as_many_blocks_as_each_has_keys(keys: int):
    blocks = spans._cut(fc.freeze(draw(3, keys), draw(3, keys, 2, seed=1)))
    assert (blocks.length - 1) ** 2 < keys <= blocks.length**2
    count = blocks.total.present.shape[-1]
    assert (count - 1) * blocks.length < keys <= count * blocks.length == blocks.scores.shape[-1]
    assert blocks.attended.sum(-1).tolist() == [keys] * 3
    assert blocks.total.present.all()


def test_a_bank_without_a_mask_is_read_as_it_is():
    scores, values = draw(2, 5), draw(2, 5, 3, seed=1)
    bank, readout = fc.read_bank(scores, values), fc.freeze(scores, values)
    assert bank.scores is scores
    assert bank.values is values
    assert bank.attended is None
    assert torch.equal(bank.probs, torch.softmax(scores, -1))
    assert torch.equal(bank.pivot, torch.take_along_dim(values, readout.reference[..., None], -2))
    masked = fc.read_bank(scores, values, mask=torch.ones(5, dtype=torch.bool))
    assert masked.attended is None
    assert torch.equal(masked.probs, readout.probs)
    assert torch.equal(masked.pivot, bank.pivot)
    some = torch.tensor([True, True, False, True, True])
    attended = fc.read_bank(scores, values, mask=some).attended
    assert attended is not None
    assert torch.equal(attended, some.expand(2, 5))


@pytest.mark.usefixtures("unchecked_shapes")
def test_only_banks_that_need_no_change_are_read_as_they_are():
    scores, values = draw(2, 5), draw(2, 5, 3, seed=1)
    assert spans._simple(scores, values) is True
    assert spans._simple(scores.float(), values.float()) is True
    assert spans._simple(scores.clone().requires_grad_(), values.clone().requires_grad_()) is True
    for bad_scores, bad_values in (
        (scores[0], values),
        (scores, values[0]),
        (scores.float(), values),
        (scores.half(), values.half()),
        (scores[:, :0], values[:, :0]),
        (scores + torch.nan, values),
        (scores, values - torch.inf),
    ):
        assert spans._simple(bad_scores, bad_values) is False


def test_a_chunk_of_spans_counts_two_blocks_of_keys_and_as_many_whole_blocks_as_one_has_keys():
    keys, width = 50, 3
    for batch, rows in (((), 1), ((2,), 2), ((2, 5), 10)):
        blocks = spans._cut(fc.freeze(draw(*batch, keys), draw(*batch, keys, width, seed=1)))
        gathered, whole = 2 * blocks.length * (1 + width), blocks.length
        assert blocks.chunk == complement.chunk(rows * (gathered + whole))


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("batch", [(), (1,), (2,), (1, 2), (2, 1, 1)])
def test_a_bank_has_the_output_of_its_readout(batch: tuple[int, ...], width: int):
    bank = fc.read_bank(fc.track(draw(*batch, 4)), fc.track(draw(*batch, 4, width, seed=1)))
    assert bank.output.shape == (*batch, width)
    assert_agree(bank.output, bank.readout.output)
