"""On both sides of every switch of algorithm the project's promise holds.

A running error bound grows with the error of a badly chosen formula; here accuracy itself is asked for,
relative to the largest entry of the result, on cases that only one side of a switch serves well.
"""

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from finite_calculus import bands, joint, response
from proofs.references import bank
from tests.helpers.accuracy import PROMISE, relative_error
from tests.helpers.tensors import draw

KEYS = 8
Edits = tuple[Tensor, Tensor, Tensor]  # scores and two edits of them


def strengths() -> Iterator[Edits]:
    """Weak and strong edits, alone and together, with and without a dominant key."""
    for seed in range(8):
        for lead in (0.0, 5.0, 30.0):
            for first, second in ((1e-3, 1e-3), (1, 1), (5, 5), (20, 1e-2), (1e-2, 20), (20, 20)):
                scores = draw(KEYS, seed=seed)
                scores[3] += lead
                yield scores, first * draw(KEYS, seed=seed + 2), second * draw(KEYS, seed=seed + 3)


def rare_keys() -> Iterator[Edits]:
    """A key of tiny probability that both edits raise: little mass moves, and yet they couple."""
    for seed in range(5):
        for depth in (10.0, 20.0, 30.0):
            for share in (0.5, 0.8, 0.93, 0.97):
                scores, first, second = draw(3, KEYS, seed=seed) * torch.tensor(
                    [[0.3], [0.01], [0.01]]
                )
                scores[0], first[0], second[0] = -depth, share * depth, share * depth
                yield scores, first, second


def deep_keys() -> Iterator[Edits]:
    """A key that is hardly a number, raised by both edits, which leave the others alone."""
    for rises in ((340.0, 341.0), (360.0, 361.0), (369.0, 370.0), (720.0, 10.0), (10.0, 720.0)):
        scores, first, second = torch.zeros(3, KEYS, dtype=torch.float64)
        scores[0], first[0], second[0] = -740.0, *rises
        yield scores, first, second


@pytest.mark.parametrize("family", [strengths, rare_keys, deep_keys])
def test_interactions_of_bands_keep_their_digits_however_strong(family):
    for number, (scores, first, second) in enumerate(family()):
        values = draw(KEYS, 3, seed=number)
        interaction = fc.band_interaction(fc.freeze(scores, values), first, second)
        case = {"scores": scores, "values": values, "score_delta": first, "second_delta": second}
        error = relative_error(interaction, bank.band_interaction, mask=[True] * KEYS, **case)
        assert error <= PROMISE


@pytest.mark.parametrize("rise", [360.0, 700.0, 730.0])
def test_interactions_of_bands_have_finite_gradients_however_rare_the_key(rise: float):
    scores, first, second = torch.zeros(3, KEYS, dtype=torch.float64)
    scores[0], first[0], second[0] = -740.0, rise, rise
    leaves = [part.requires_grad_() for part in (scores, first, second)]
    result = fc.band_interaction(fc.freeze(leaves[0], draw(KEYS, 3, seed=1)), *leaves[1:])
    for gradient in torch.autograd.grad(result.sum(), leaves):
        assert bool(torch.isfinite(gradient).all())


@pytest.mark.parametrize("common", [1e4, -1e8])
@pytest.mark.parametrize("function", [fc.interaction, fc.quadratic_interaction])
def test_interactions_lose_no_digits_to_a_common_part_of_the_value_edits(function, common: float):
    reference = getattr(bank, function.__name__)
    for seed in range(5):
        scores, score_delta = draw(2, KEYS, seed=seed)
        values, value_delta = draw(2, KEYS, 3, seed=seed + 50)
        value_delta = (value_delta * 2**20).round() / 2**20 + common  # exact: nothing lost here
        interaction = function(fc.freeze(scores, values), score_delta, value_delta)
        case = {"scores": scores, "values": values, "mask": [True] * KEYS}
        edits = {"score_delta": score_delta, "value_delta": value_delta}
        assert relative_error(interaction, reference, **case, **edits) <= PROMISE


@pytest.mark.parametrize("rise", [720.0, 740.5, 800.0])
@pytest.mark.parametrize("function", [fc.remainder_weights, fc.log_ratio, fc.probability_change])
def test_a_key_that_rises_from_nothing_has_finite_gradients(function, rise: float):
    scores = torch.tensor([0.0, -740.0, -1.0], dtype=torch.float64, requires_grad=True)
    score_delta = torch.tensor([0.0, rise, 0.5], dtype=torch.float64, requires_grad=True)
    result = function(fc.freeze(scores, draw(3, 2, seed=1)), score_delta)
    gradients = torch.autograd.grad(result.sum() + (result * result).sum(), [scores, score_delta])
    assert bool(torch.isfinite(result).all())
    for gradient in gradients:
        assert bool(torch.isfinite(gradient).all())


def test_strong_interactions_of_a_batch_are_those_of_its_parts():
    readout = fc.freeze(draw(2, KEYS, seed=1), draw(2, KEYS, 3, seed=2))
    first, second = 5 * draw(4, 1, KEYS, seed=3), 5 * draw(2, KEYS, seed=4)
    whole = fc.band_interaction(readout, first, second)
    assert whole.shape == (4, 2, 3)
    for index in range(4):
        part = fc.band_interaction(readout, first[index].expand(2, KEYS), second)
        assert float((whole[index] - part).abs().max()) <= PROMISE * float(part.abs().max())


def test_weights_of_the_remainder_are_summed_as_a_series_up_to_a_log_ratio_of_one(
    monkeypatch: pytest.MonkeyPatch,
):
    readout = fc.freeze(draw(3, seed=1), draw(3, 2, seed=2))
    t = torch.tensor([1.0, 1.0 - 2.0**-53, 1.0 + 2.0**-52], dtype=torch.float64)
    # Edited probabilities that do not belong to the log ratios tell which form was used.
    moved = response.Reallocation(t / 2, torch.zeros(3).double(), torch.zeros(3).double())
    monkeypatch.setattr(joint, "reallocate", lambda *_: moved)
    weights = fc.remainder_weights(readout, torch.zeros(3).double())
    assert (weights > 0).tolist() == [True, True, False]


def test_opposed_interactions_of_bands_have_finite_gradients():
    edits = torch.zeros(2, KEYS, dtype=torch.float64)
    edits[0, 0] = edits[1, 1] = 50.0  # each takes all the mass, for another key
    leaves = [part.requires_grad_() for part in (torch.zeros(KEYS).double(), *edits.unbind())]
    result = fc.band_interaction(fc.freeze(leaves[0], draw(KEYS, 3, seed=1)), *leaves[1:])
    for gradient in torch.autograd.grad(result.sum(), leaves):
        assert bool(torch.isfinite(gradient).all())


MASS, COUPLING = bands._MOVED, bands._COUPLED


@pytest.mark.parametrize(
    ("masses", "coupling", "closed"),
    [
        ((MASS, 0.0), 0.0, True),
        ((0.0, MASS), 0.0, True),
        ((math.nextafter(MASS, 1), 0.0), 0.0, False),
        ((0.0, math.nextafter(MASS, 1)), 0.0, False),
        ((0.0, 0.0), COUPLING, True),
        ((0.0, 0.0), -COUPLING, True),
        ((0.0, 0.0), math.nextafter(COUPLING, 1), False),
        ((0.0, 0.0), -math.nextafter(COUPLING, 1), False),
        ((MASS, MASS), COUPLING, True),
    ],
)
def test_the_closed_form_serves_while_little_mass_moves_and_the_coupling_is_small(
    masses: tuple[float, float], coupling: float, closed: bool, monkeypatch: pytest.MonkeyPatch
):
    readout = fc.freeze(torch.zeros(2).double(), draw(2, 3, seed=1))
    zeros = torch.zeros(2).double()
    moves = [
        response.Reallocation(zeros, zeros, torch.tensor([m, -m], dtype=torch.float64))
        for m in masses
    ]
    crossed = torch.tensor([coupling, 0.0], dtype=torch.float64)
    monkeypatch.setattr(bands, "reallocate", lambda *_: moves.pop(0))
    monkeypatch.setattr(bands, "_crossed", lambda *_: crossed)
    # The other form would be a difference of these, which no number can be.
    monkeypatch.setattr(bands, "key_response", lambda *_: torch.full((3,), torch.nan).double())
    interaction = fc.band_interaction(readout, zeros, zeros)
    assert bool(torch.isfinite(interaction).all()) == closed


def test_the_closed_form_serves_up_to_a_quarter_of_the_mass_and_a_coupling_of_a_half():
    assert (MASS, COUPLING) == (0.25, 0.5)


@pytest.mark.parametrize(
    ("increment", "near"),
    [
        (math.log(16) - 1e-9, True),
        (math.log(16) + 1e-9, False),
        (-math.log(2.25) + 1e-9, True),
        (-math.log(2.25) - 1e-9, False),
    ],
)
def test_the_normaliser_is_a_sum_of_small_terms_near_one(
    increment: float, near: bool, monkeypatch: pytest.MonkeyPatch
):
    """A key with p = 0.9 is the anchor, and D = 0.9 + 0.1 e^d; or with p = 0.1, and D = 0.1 + 0.9 e^d."""
    scores = torch.zeros(101).double()
    scores[0] = math.log(900) if increment > 0 else math.log(100 / 9)
    increments = torch.full((101,), increment, dtype=torch.float64)
    increments[0] = 0
    readout = fc.freeze(scores, draw(101, 3, seed=1))
    monkeypatch.setattr(response, "_excess", lambda _, relative, __: relative * torch.nan)
    assert bool(torch.isnan(fc.log_normaliser(readout, increments)).all()) == near


def test_a_rise_is_taken_by_logarithms_beyond_an_increment_of_one():
    readout = fc.freeze(torch.zeros(4).double(), draw(4, 3, seed=1))
    relative = torch.tensor([-2.0, 1e-9, 1.0, 1 + 2.0**-52], dtype=torch.float64)
    # Exponents that do not belong to the increments tell which form was used.
    rise = response._excess(readout, relative, torch.full((4,), 5.0).double())
    assert (rise > 100).tolist() == [False, False, False, True]
    assert torch.equal(rise[:3], torch.expm1(relative)[:3] / 4)
