"""Rotations and the scores of shifted keys have right gradients, at zero shift too."""

from collections.abc import Callable

import pytest
import torch
from torch.autograd import gradcheck

import finite_calculus as fc
from tests.autograd.functions import leaf, planes
from tests.helpers.tensors import draw

LAYOUTS = [("half", None), ("interleaved", None), ("half", "fast"), ("interleaved", "partial")]
ROTATIONS: dict[str, Callable] = {
    "rotate": fc.rotate,
    "displacement": fc.displacement,
    "tangent": fc.tangent,
    "phi1_rotary": fc.phi1_rotary,
    "chord_norm": lambda rotary, z, p, band: fc.chord_norm(rotary, z, p),
    "tangent_norm": lambda rotary, z, p, band: fc.tangent_norm(rotary, z, p),
}

KEY_SHIFTS: dict[str, Callable] = {
    "key_shift_scores": fc.key_shift_scores,
    "key_shift_scores_linear": fc.key_shift_scores_linear,
    "key_shift_scores_remainder": fc.key_shift_scores_remainder,
}


@pytest.mark.parametrize(("layout", "part"), LAYOUTS)
@pytest.mark.parametrize("name", ROTATIONS)
def test_rotations_have_right_gradients_in_the_vectors_and_the_shift(
    name: str, layout: str, part: str | None
):
    rotary, band = planes(layout, part)
    shifts = leaf(torch.tensor([0.3, -40.0], dtype=torch.float64))

    def function(vectors, amounts):
        return ROTATIONS[name](rotary, vectors, amounts, band=band)

    assert gradcheck(function, [leaf(draw(2, rotary.head_width)), shifts])


@pytest.mark.parametrize("name", ["rotate", "displacement", "tangent"])
def test_rotations_have_right_gradients_at_zero_shift(name: str):
    rotary, _ = planes("half", None)
    still = leaf(torch.zeros(2, dtype=torch.float64))
    assert gradcheck(lambda z, p: ROTATIONS[name](rotary, z, p), [leaf(draw(2, 6)), still])


def test_phi1_rotary_has_its_own_derivative_at_zero_shift():
    # φ1(δA) = I + δA/2 + …, so that its derivative at δ = 0 is Az/2.
    rotary, _ = planes("half", None)
    assert gradcheck(lambda p: fc.phi1_rotary(rotary, draw(6), p), [leaf(torch.zeros(()).double())])


@pytest.mark.parametrize(("layout", "part"), LAYOUTS)
@pytest.mark.parametrize("name", KEY_SHIFTS)
@pytest.mark.parametrize("shift", [0.0, 1e-3, 0.7, -40.0])
def test_key_shifts_have_right_gradients(name: str, layout: str, part: str | None, shift: float):
    rotary, band = planes(layout, part)
    width = rotary.head_width

    def function(query, keys, amount):
        return KEY_SHIFTS[name](rotary, query, keys, amount, band=band)

    amount = leaf(torch.tensor(shift, dtype=torch.float64))
    assert gradcheck(function, [leaf(draw(1, width)), leaf(draw(2, width, seed=1)), amount])
