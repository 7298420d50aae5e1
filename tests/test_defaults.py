"""An argument left out has the value that the documentation gives it, bit by bit."""

import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from tests.helpers.tensors import draw

HEADS, KEYS, WIDTH, MODEL = 2, 5, 3, 4
EPS = torch.finfo(torch.float64).eps


@pytest.mark.parametrize("width", [6, 9])
@pytest.mark.parametrize(
    "function",
    [fc.key_shift_scores, fc.key_shift_scores_linear, fc.key_shift_scores_remainder],
)
def test_scores_are_divided_by_the_root_of_the_head_width(function, width: int):
    rotary = fc.Rotary(draw(3), width)
    arguments = (rotary, draw(1, width), draw(KEYS, width, seed=1), 1.5)
    assert torch.equal(function(*arguments), function(*arguments, scaling=1 / width**0.5))
    # A power of two scales without rounding.
    assert torch.equal(function(*arguments, scaling=0.5), function(*arguments, scaling=1.0) / 2)


def test_features_are_divided_by_the_root_of_the_head_width_and_have_no_bias():
    rotary = fc.Rotary(draw(3), 9)
    weight, keys = draw(MODEL, 9), draw(KEYS, 9, seed=1)
    bare = fc.affine_features(rotary, weight, None, keys, 2.0)
    without = torch.zeros(9, dtype=torch.float64)
    assert torch.equal(bare, fc.affine_features(rotary, weight, without, keys, 2.0, scaling=1 / 3))
    assert int(bare[:, -1].count_nonzero()) == 0


def test_planes_pair_by_halves_over_the_whole_head():
    plain = fc.Rotary.from_base(100.0, 6)
    assert plain.layout == "half" == fc.Rotary(draw(2), 6).layout
    assert plain.frequencies.tolist() == [1.0, 100.0 ** (-1 / 3), 100.0 ** (-2 / 3)]
    part = fc.Rotary.from_base(100.0, 7, rotary_width=4, layout="interleaved")
    assert (part.planes, part.head_width, part.layout) == (2, 7, "interleaved")
    assert part.frequencies.tolist() == [1.0, 0.1]
    assert fc.Rotary.from_base(100.0, 7, rotary_width=0).planes == 0
    assert fc.Rotary.from_base(1e-3, 2, rotary_width=2).planes == 1


def test_tolerances_of_ranks_are_the_larger_side_times_eps():
    assert fc.numerical_rank(draw(2, 7, 3))[1] == 7 * EPS
    assert fc.numerical_rank(draw(3, 7).float())[1] == 7 * torch.finfo(torch.float32).eps
    assert fc.preserving_directions(draw(6, 4)).tolerance == 6 * EPS
    assert fc.preserving_directions(draw(3, 9)).tolerance == 8 * EPS
    pairs = torch.tensor([[0, 1], [1, 2]])
    control = fc.control_query(draw(9), draw(3, 9), pairs, draw(2))
    assert control.tolerance == 8 * EPS
    many = torch.tensor([[0, 1]] * 12)
    assert fc.control_query(draw(9), draw(3, 9), many, draw(1).expand(12)).tolerance == 12 * EPS


def test_a_given_tolerance_is_relative_to_the_largest_singular_value_and_exclusive():
    diagonal = torch.diag(torch.tensor([8.0, 4.0, 2.0, 0.0], dtype=torch.float64))
    for tolerance, rank in ((0.0, 3), (0.125, 3), (0.25, 2), (0.5, 1), (0.75, 1)):
        computed, threshold = fc.numerical_rank(diagonal, tolerance=tolerance)
        assert (int(computed), threshold) == (rank, tolerance)
        features = torch.cat([torch.zeros(1, 5, dtype=torch.float64), _with_bias(diagonal)])
        directions = fc.preserving_directions(features, tolerance=tolerance)
        assert (directions.rank, directions.tolerance) == (rank, tolerance)
        assert directions.basis.shape == (4, 4 - rank)


def _with_bias(rows: Tensor) -> Tensor:
    return torch.cat([rows, torch.ones_like(rows[:, :1])], -1)


def cache() -> fc.CachePair:
    return fc.CachePair(
        draw(HEADS, KEYS),
        draw(HEADS, KEYS, WIDTH, seed=1),
        draw(HEADS, KEYS) + draw(HEADS, KEYS, seed=2),
        draw(HEADS, KEYS, WIDTH, seed=3),
    )


def test_restoration_is_exact_rescored_and_free_to_choose():
    projection = draw(HEADS, WIDTH, MODEL, seed=4)
    everything = torch.ones(KEYS, dtype=torch.bool)
    plain = fc.restore_greedily(cache(), projection, 3)
    spelled = fc.restore_greedily(
        cache(), projection, 3, method="exact", rescore=True, candidates=everything
    )
    once = fc.restore_greedily(cache(), projection, 3, rescore=False)
    assert all(torch.equal(part, vars(spelled)[name]) for name, part in vars(plain).items())
    assert not torch.equal(plain.scores, once.scores)
    first = fc.restoration_scores(cache(), projection, "exact")
    assert torch.equal(once.restored, first.argsort(descending=True)[:3])
    assert torch.equal(once.scores, first[once.restored])


def test_a_readout_attends_every_key_and_effective_weights_have_no_gauge():
    readout = fc.freeze(draw(HEADS, KEYS), draw(HEADS, KEYS, WIDTH))
    assert bool(readout.attended.all())
    query, features, values = draw(MODEL), draw(KEYS, MODEL, seed=1), draw(KEYS, WIDTH, seed=2)
    still = torch.zeros(MODEL, dtype=torch.float64)
    bare = fc.effective_weights(query, features, values)
    gauged = fc.effective_weights(query, features, values, gauge=still)
    assert torch.equal(bare.matrix, gauged.matrix)
    assert torch.equal(bare.features, features)
