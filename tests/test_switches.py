"""On both sides of every switch of algorithm the project's promise holds.

A running error bound grows with the error of a badly chosen formula; here accuracy itself is asked for,
relative to the largest entry of the result, on cases that only one side of a switch serves well.
"""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from proofs.references import bank
from tests.test_regimes import PROMISE, numbers, relative_error

KEYS = 8
Edits = tuple[Tensor, Tensor, Tensor]  # scores and two edits of them


def strengths() -> Iterator[Edits]:
    """Weak and strong edits, alone and together, with and without a dominant key."""
    for seed in range(8):
        for lead in (0.0, 5.0, 30.0):
            for first, second in ((1e-3, 1e-3), (1, 1), (5, 5), (20, 1e-2), (1e-2, 20), (20, 20)):
                scores = numbers(seed, KEYS)
                scores[3] += lead
                yield scores, first * numbers(seed + 2, KEYS), second * numbers(seed + 3, KEYS)


def rare_keys() -> Iterator[Edits]:
    """A key of tiny probability that both edits raise: little mass moves, and yet they couple."""
    for seed in range(5):
        for depth in (10.0, 20.0, 30.0):
            for share in (0.5, 0.8, 0.93, 0.97):
                scores, first, second = numbers(seed, 3, KEYS) * torch.tensor(
                    [[0.3], [0.01], [0.01]]
                )
                scores[0], first[0], second[0] = -depth, share * depth, share * depth
                yield scores, first, second


def deep_keys() -> Iterator[Edits]:
    """A key that is hardly a number, raised by both edits, which leave the others alone."""
    for rise in (340.0, 360.0, 369.0):
        scores, first, second = torch.zeros(3, KEYS, dtype=torch.float64)
        scores[0], first[0], second[0] = -740.0, rise, rise + 1
        yield scores, first, second


@pytest.mark.parametrize("family", [strengths, rare_keys, deep_keys])
def test_interactions_of_bands_keep_their_digits_however_strong(family):
    for number, (scores, first, second) in enumerate(family()):
        values = numbers(number, KEYS, 3)
        found = fc.band_interaction(fc.freeze(scores, values), first, second)
        case = {"scores": scores, "values": values, "score_delta": first, "second_delta": second}
        error = relative_error(found, bank.band_interaction, mask=[True] * KEYS, **case)
        assert error <= PROMISE


@pytest.mark.parametrize("rise", [360.0, 700.0, 730.0])
def test_interactions_of_bands_have_finite_gradients_however_rare_the_key(rise: float):
    scores, first, second = torch.zeros(3, KEYS, dtype=torch.float64)
    scores[0], first[0], second[0] = -740.0, rise, rise
    leaves = [part.requires_grad_() for part in (scores, first, second)]
    response = fc.band_interaction(fc.freeze(leaves[0], numbers(1, KEYS, 3)), *leaves[1:])
    for gradient in torch.autograd.grad(response.sum(), leaves):
        assert bool(torch.isfinite(gradient).all())


@pytest.mark.parametrize("common", [1e4, -1e8])
@pytest.mark.parametrize("function", [fc.interaction, fc.quadratic_interaction])
def test_interactions_lose_no_digits_to_a_common_part_of_the_value_edits(function, common: float):
    reference = getattr(bank, function.__name__)
    for seed in range(5):
        scores, score_delta = numbers(seed, 2, KEYS)
        values, value_delta = numbers(seed + 50, 2, KEYS, 3)
        value_delta = (value_delta * 2**20).round() / 2**20 + common  # exact: nothing lost here
        found = function(fc.freeze(scores, values), score_delta, value_delta)
        case = {"scores": scores, "values": values, "mask": [True] * KEYS}
        edits = {"score_delta": score_delta, "value_delta": value_delta}
        assert relative_error(found, reference, **case, **edits) <= PROMISE


@pytest.mark.parametrize("rise", [720.0, 740.5, 800.0])
@pytest.mark.parametrize("function", [fc.remainder_weights, fc.log_ratio, fc.probability_change])
def test_a_key_that_rises_from_nothing_has_finite_gradients(function, rise: float):
    scores = torch.tensor([0.0, -740.0, -1.0], dtype=torch.float64, requires_grad=True)
    score_delta = torch.tensor([0.0, rise, 0.5], dtype=torch.float64, requires_grad=True)
    result = function(fc.freeze(scores, numbers(1, 3, 2)), score_delta)
    gradients = torch.autograd.grad(result.sum() + (result * result).sum(), [scores, score_delta])
    assert bool(torch.isfinite(result).all())
    for gradient in gradients:
        assert bool(torch.isfinite(gradient).all())


def test_strong_interactions_of_a_batch_are_those_of_its_parts():
    readout = fc.freeze(numbers(1, 2, KEYS), numbers(2, 2, KEYS, 3))
    first, second = 5 * numbers(3, 4, 1, KEYS), 5 * numbers(4, 2, KEYS)
    whole = fc.band_interaction(readout, first, second)
    assert whole.shape == (4, 2, 3)
    for index in range(4):
        part = fc.band_interaction(readout, first[index].expand(2, KEYS), second)
        assert float((whole[index] - part).abs().max()) <= PROMISE * float(part.abs().max())
