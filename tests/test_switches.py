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
