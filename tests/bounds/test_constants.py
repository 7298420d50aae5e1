"""Constants that are rounded themselves are charged for it: 1/√width, numbers in float32, counts."""

import math
from collections.abc import Callable
from fractions import Fraction

import flint
import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from finite_calculus.rotary import score_scaling
from proofs.references.numbers import arb_precision
from tests.helpers.exact_bounds import F32, F64, both, exact
from tests.helpers.tensors import draw

WIDTHS = [2, 3, 5, 6, 7, 10, 12, 20, 24, 40, 48, 80, 96, 112, 128, 160, 192]


def still(width: int) -> fc.Rotary:
    """Planes that do not turn."""
    return fc.Rotary(torch.zeros(0, dtype=F64), width)


@both
@pytest.mark.parametrize("width", WIDTHS)
def test_the_default_scale_is_charged_its_rounding(width: int, dtype):
    like = fc.track(torch.ones(1, dtype=dtype))
    scale = score_scaling(still(width), None, like)
    assert isinstance(scale, Tensor)
    with arb_precision(300):
        gap = abs(flint.arb(fc.value_of(scale).item()) - 1 / flint.arb(width).sqrt())
        bound = flint.arb(float(fc.error_of(scale)))
        assert 0 < gap <= bound <= 3 * gap + flint.arb(2) ** -60


@pytest.mark.parametrize("width", [1, 4, 16, 64, 256])
def test_a_scale_that_is_a_power_of_two_is_exact(width: int):
    scale = score_scaling(still(width), None, fc.track(draw(2)))
    assert float(fc.error_of(torch.as_tensor(scale))) == 0


def test_a_scale_that_is_given_is_taken_as_given():
    assert score_scaling(still(3), 0.1, fc.track(draw(2))) == 0.1
    assert score_scaling(still(3), None, draw(2)) == 1 / math.sqrt(3)


@both
def test_features_with_the_default_scale_are_within_their_bound(dtype):
    violations = 0
    for width in WIDTHS:
        key, weight = torch.zeros(1, width, dtype=dtype), torch.zeros(1, width, dtype=dtype)
        key[0, 0] = weight[0, 0] = 1.0  # so that the scale is all there is to round
        features = fc.affine_features(still(width), fc.track(weight), None, fc.track(key), 0.0)
        with arb_precision(300):
            gap = abs(flint.arb(features[0, 0].item()) - 1 / flint.arb(width).sqrt())
            violations += not gap <= flint.arb(float(fc.error_of(features)[0, 0]))
    assert violations == 0


TENTH = torch.tensor(0.1, dtype=F64)
ENTERING: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Fraction], Fraction]]] = {
    "where": (lambda x: torch.where(x > 1e30, x, 0.1), lambda x: Fraction(0.1)),
    "where, method": (lambda x: x.where(x > 1e30, TENTH), lambda x: Fraction(0.1)),
    "clamp": (lambda x: x.clamp(max=0.1), lambda x: min(x, Fraction(0.1))),
    "clamp, tensor": (lambda x: x.clamp(min=TENTH), lambda x: max(x, Fraction(0.1))),
    "maximum": (lambda x: torch.maximum(x, TENTH), lambda x: max(x, Fraction(0.1))),
    "sum": (lambda x: x + TENTH, lambda x: x + Fraction(0.1)),
    "difference": (lambda x: TENTH - x, lambda x: Fraction(0.1) - x),
    "product": (lambda x: x * TENTH, lambda x: x * Fraction(0.1)),
    "quotient": (lambda x: x / TENTH, lambda x: x / Fraction(0.1)),
    "number over": (lambda x: 0.1 / x, lambda x: Fraction(0.1) / x),
    "count": (lambda x: x / torch.tensor(2**24 + 1), lambda x: x / (2**24 + 1)),
    "large count": (lambda x: x * torch.tensor(2**62 + 1), lambda x: x * (2**62 + 1)),
}


@pytest.mark.parametrize("name", ENTERING)
def test_what_is_rounded_to_float32_on_its_way_in_is_charged(name: str):
    call, formula = ENTERING[name]
    x = draw(40, dtype=F32)
    result = call(fc.track(x))
    assert torch.equal(fc.value_of(result), call(x))
    assert result.dtype is F32
    rows = zip(exact(x), exact(fc.value_of(result)), exact(fc.error_of(result)), strict=True)
    assert all(abs(value - formula(number)) <= bound for number, value, bound in rows)


def test_a_limit_moves_what_it_limits_by_its_own_error():
    limit = fc.track(torch.zeros((), dtype=F64), torch.tensor(0.25, dtype=F64))
    for result in (fc.track(draw(5)).clamp(max=limit), draw(5).clamp(max=limit)):
        assert fc.error_of(result).tolist() == [0.25] * 5
    # The value below is beyond the limit, which it moves with.
    unknown = fc.track(torch.ones(1, dtype=F64), torch.full((1,), 0.5, dtype=F64))
    assert fc.error_of(unknown.clamp(max=limit)).tolist() == [0.25]


def test_a_choice_of_an_integer_has_no_error():
    for other in (-5, torch.tensor(-5)):
        chosen = torch.where(torch.tensor([True, False]), fc.track(draw(2)), other)
        assert fc.error_of(chosen).tolist() == [0.0, 0.0]


def test_a_number_beyond_float32_leaves_no_bound():
    assert fc.error_of(fc.track(torch.ones(1)) * 1e300).tolist() == [torch.inf]
