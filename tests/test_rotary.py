"""Rotary planes: numbers of any kind as a shift, bands by size of frequency, and series of known length."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from finite_calculus import phi, rotary
from tests.helpers.tensors import draw
from tests.helpers.watched import Watched

F64 = torch.float64
PLAIN = torch.zeros(0, dtype=F64)  # no vectors, and no errors to follow


def planes(frequencies: list[float], width: int, dtype: torch.dtype = F64) -> fc.Rotary:
    return fc.Rotary(torch.tensor(frequencies, dtype=dtype), width)


def test_a_shift_is_taken_as_a_number_of_float64():
    turning = planes([1.0, 0.3], 4)
    exact = torch.tensor([0.1, 0.1 * 0.3], dtype=F64)
    assert torch.equal(rotary.plane_angles(turning, 0.1, None, PLAIN), exact)
    assert torch.equal(
        rotary.plane_angles(turning, torch.tensor(0.1, dtype=F64), None, PLAIN), exact
    )
    large = 2**24 + 1
    assert rotary.plane_angles(turning, large, None, PLAIN)[0] == large
    narrow = torch.tensor([0.1])
    assert rotary.plane_angles(turning, narrow, None, PLAIN)[0, 0] == float(narrow)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_planes_that_start_later_turn_as_those_of_the_end_alone(layout: Any):
    frequencies, vectors = torch.tensor([1.0, 0.3], dtype=F64), draw(2, 3, 9)
    later = fc.Rotary(frequencies, 9, layout, 3)
    alone, end = fc.Rotary(frequencies, 6, layout), vectors[..., 3:]
    for turn in (fc.rotate, fc.phi1_rotary):
        turned = turn(later, vectors, 2.5)
        assert torch.equal(turned[..., :3], vectors[..., :3])
        assert torch.equal(turned[..., 3:], turn(alone, end, 2.5))
    for move in (fc.displacement, fc.tangent):
        moved = move(later, vectors, 2.5)
        assert not moved[..., :3].any()
        assert torch.equal(moved[..., 3:], move(alone, end, 2.5))
    assert torch.equal(fc.chord_norm(later, vectors, 2.5), fc.chord_norm(alone, end, 2.5))
    query, keys = vectors[0], vectors[1]
    assert torch.equal(
        fc.key_shift_scores(later, query[0], keys, 2.5, scaling=1.0),
        fc.key_shift_scores(alone, query[0, 3:], keys[:, 3:], 2.5, scaling=1.0),
    )


@pytest.mark.parametrize("start", [-1, 6])
def test_a_start_without_room_for_the_planes_is_refused(start: int):
    with pytest.raises(ValueError, match="`start` must leave room for 2 planes in 9 coordinates"):
        fc.Rotary(torch.tensor([1.0, 0.3], dtype=F64), 9, start=start)


def test_bands_go_by_the_size_of_a_frequency():
    turning = planes([-1.0, 0.5, 0.1, -0.7], 8)
    fast, slow = fc.frequency_bands(turning, (2, 2))
    assert fast.tolist() == [True, False, False, True]
    assert slow.tolist() == [False, True, True, False]


def test_planes_of_equal_frequency_keep_their_order():
    turning = planes([0.5] * 200 + [1.0] * 200, 800)
    first, second, rest = fc.frequency_bands(turning, (250, 50, 100))
    assert first.nonzero().flatten().tolist() == [*range(50), *range(200, 400)]
    assert second.nonzero().flatten().tolist() == [*range(50, 100)]
    assert rest.nonzero().flatten().tolist() == [*range(100, 200)]


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_the_generator_holds_the_frequencies_in_float64(dtype: torch.dtype):
    turning = planes([0.1, 0.3], 5, dtype)
    first, second = turning.frequencies.tolist()
    matrix = fc.generator(turning)
    assert matrix.dtype is F64
    expected = torch.zeros(5, 5, dtype=F64)
    expected[2, 0], expected[0, 2], expected[3, 1], expected[1, 3] = first, -first, second, -second
    assert torch.equal(matrix, expected)


MOVES: dict[str, Callable[..., Tensor]] = {
    "rotate": fc.rotate,
    "displacement": fc.displacement,
    "tangent": fc.tangent,
    "phi1_rotary": fc.phi1_rotary,
}


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("name", MOVES)
def test_one_vector_is_moved_by_many_shifts(name: str, layout: Any):
    turning = fc.Rotary(torch.tensor([1.0, 0.3, 0.0], dtype=F64), 8, layout)
    vector, shifts = draw(8), draw(4, 2, seed=1)
    moves = MOVES[name](turning, vector, shifts)
    assert moves.shape == (4, 2, 8)
    for index in range(4):
        for other in range(2):
            alone = MOVES[name](turning, vector, shifts[index, other])
            assert torch.equal(moves[index, other], alone)


def test_a_band_is_brought_to_the_device_of_the_frequencies():
    turning = planes([1.0, 0.3], 4)
    Watched.requests.clear()
    band = torch.tensor([True, False]).as_subclass(Watched)
    assert rotary.plane_angles(turning, 2.0, band, PLAIN).tolist() == [2.0, 0.0]
    assert Watched.requests == [(turning.frequencies.device,)]


def test_the_cosine_in_float32_is_that_of_float64_rounded_once():
    angle = torch.linspace(-3, 3, 2001)
    cosines = rotary.cos_minus_one(angle)
    assert cosines.dtype is torch.float32
    assert torch.equal(cosines, rotary.cos_minus_one(angle.double()).float())


def test_the_series_stop_where_the_next_term_does_not_count():
    """The first term that is dropped is below 2^-62 and 2^-56 of the sum; the last one kept is not."""
    terms = rotary._SERIES_TERMS
    dropped, last = (Fraction(6, math.factorial(2 * n + 1)) for n in (terms + 1, terms))
    assert dropped < Fraction(1, 2**62) <= last
    terms = phi._SERIES_TERMS
    dropped, last = (Fraction(1, math.factorial(n)) for n in (terms + 1, terms))
    assert dropped < Fraction(1, 2**56) <= last


@pytest.mark.parametrize("terms", [1, 2, 3])
def test_the_series_of_the_sine_serves_up_to_one_with_as_many_terms_as_it_says(
    terms: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(rotary, "_SERIES_TERMS", terms)
    for point in (1.0, -0.5):
        value = Fraction(float(rotary.sin_minus_angle(torch.tensor(point, dtype=F64))))
        exact = sum(
            Fraction(point) ** (2 * n + 1) * (-1) ** n / math.factorial(2 * n + 1)
            for n in range(1, terms + 1)
        )
        assert abs(value - exact) <= 4 * Fraction(math.ulp(float(exact)))


def test_the_sine_has_right_gradients_at_every_angle():
    angle = torch.tensor([0.0, 0.5, 1.0, 2.0, 1e3, 1e30, 1e100, 1e300], dtype=F64)
    leaf = angle.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(rotary.sin_minus_angle(leaf).sum(), leaf)
    far = slice(3, None)
    assert torch.equal(gradient[far], torch.cos(angle[far]) - 1)
    assert bool((gradient[: far.start] <= 0).all())
