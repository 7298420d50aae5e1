"""The scalar kernels where they change their algorithm, at zero, and where they overflow."""

import math
from collections.abc import Callable
from fractions import Fraction

import flint
import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from finite_calculus import phi, rotary, rounding
from proofs.references.numbers import arb_precision

INF = math.inf


def phi1(x: flint.arb) -> flint.arb:
    return x.expm1() / x


def phi2(x: flint.arb) -> flint.arb:
    return (x.expm1() - x) / (x * x)


def lag(x: flint.arb) -> flint.arb:
    return x.sin() - x


def worst_ulps(function: Callable[[Tensor], Tensor], exact: Callable, x: Tensor) -> float:
    """The largest error in units in the last place of the exact results."""
    worst = 0.0
    with arb_precision(2200):
        for point, value in zip(x.tolist(), function(x).tolist(), strict=True):
            true = exact(flint.arb(point))
            worst = max(
                worst, float(abs(flint.arb(value) - true).mid()) / math.ulp(float(true.mid()))
            )
    return worst


def between(low: float, high: float, count: int = 1000) -> Tensor:
    return torch.linspace(low, high, count, dtype=torch.float64)


# Each switch of algorithm with the stretch around it where a wrong one would show.
SWITCHES = {
    "phi1": [(0.9, 1.1), (-1.1, -0.9), (690, 710), (-710, -690)],
    "phi2": [(0.9, 1.1), (-1.1, -0.9), (690, 710), (-710, -690)],
    "sin_minus_angle": [(0.4, 2.2), (-2.2, -0.4), (-0.1, 0.2)],
}
KERNELS = {"phi1": (fc.phi1, phi1), "phi2": (fc.phi2, phi2)}
KERNELS["sin_minus_angle"] = (rotary.sin_minus_angle, lag)


@pytest.mark.parametrize("name", SWITCHES)
def test_no_kernel_exceeds_its_budget_where_it_changes_its_algorithm(name: str):
    stretches = torch.cat([between(*stretch) for stretch in SWITCHES[name]])
    assert 0 < worst_ulps(*KERNELS[name], stretches) <= rounding.ULPS[name]


@pytest.mark.parametrize("name", ["phi1", "phi2"])
def test_the_series_have_converged_where_they_are_used(name: str):
    # Truncation would show at the ends: two units are left to rounding alone.
    ends = torch.cat([between(-1, -0.9), between(0.9, 1)])
    assert worst_ulps(*KERNELS[name], ends) <= 2


@pytest.mark.parametrize("order", [1, 2, 5, 9])
def test_the_series_holds_for_every_order_up_to_one(order: int):
    """Where the recurrence would lose some two bits an order."""
    x = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    for value, argument in zip(phi._phi(x, order).tolist(), (-1, 1), strict=True):
        terms = [Fraction(argument**n, math.factorial(n + order)) for n in range(30)]
        # A product and a sum for each term, and its own rounding.
        roundings = 3 * phi._SERIES_TERMS * Fraction(torch.finfo(x.dtype).eps) / 2
        assert abs(Fraction(value) - sum(terms)) <= roundings * sum(map(abs, terms))


@pytest.mark.parametrize(("name", "last"), [("phi1", 716.3), ("phi2", 722.8)])
def test_divided_differences_overflow_only_where_their_values_do(name: str, last: float):
    function, exact = KERNELS[name]
    assert worst_ulps(function, exact, between(700, last)) <= rounding.ULPS[name]
    beyond = torch.tensor([last + 0.2, 1e3, 3e3, 1e300, INF], dtype=torch.float64)
    assert function(beyond).tolist() == [INF] * 5


@pytest.mark.parametrize(("name", "limit"), [("phi1", 1.0), ("phi2", 0.5)])
def test_divided_differences_at_zero_at_the_far_left_and_at_nan(name: str, limit: float):
    function, _ = KERNELS[name]
    x = torch.tensor([0.0, -0.0, 5e-324, -INF, -1e300, math.nan], dtype=torch.float64)
    values = function(x).tolist()
    assert values[:3] == [limit] * 3
    assert values[3] == 0.0
    assert 0 <= values[4] <= 1e-299
    assert math.isnan(values[5])


@pytest.mark.parametrize("name", SWITCHES)
def test_float32_is_the_result_of_float64_rounded_once(name: str):
    function, _ = KERNELS[name]
    x = torch.cat([between(*stretch) for stretch in SWITCHES[name]] + [between(-3, 3)]).float()
    x = x[x.abs() <= 80]
    assert torch.equal(function(x), function(x.double()).float())


@pytest.mark.parametrize(("name", "order"), [("phi1", 1), ("phi2", 2)])
def test_beyond_the_last_switch_the_exponential_is_taken_in_two_halves(name: str, order: int):
    function, _ = KERNELS[name]
    x = between(700, 716)[1:]
    half = torch.exp(x / 2)
    assert torch.equal(function(x), half / x**order * half)


def test_up_to_the_last_switch_the_first_divided_difference_is_its_quotient():
    x = torch.cat([between(1.001, 700), between(-700, -1.001)])
    assert torch.equal(fc.phi1(x), torch.expm1(x) / x)


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kernels_keep_the_type_and_the_shape(name: str, dtype: torch.dtype):
    function, _ = KERNELS[name]
    x = torch.tensor([[-3.0, 0.5, 2.0]], dtype=dtype)
    assert function(x).dtype is dtype
    assert function(x).shape == (1, 3)
