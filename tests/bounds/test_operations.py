"""Sums, differences, products and quotients are charged the exact residual of their rounding."""

from collections.abc import Callable
from fractions import Fraction

import pytest
import torch

import finite_calculus as fc
from finite_calculus import _arithmetic_rules
from finite_calculus._units import sum_remainder
from tests.helpers.exact_bounds import (
    F32,
    F64,
    INF,
    assert_bounds,
    both,
    each,
    exact,
    operands,
    tiny,
    ulp,
)
from tests.helpers.tensors import draw


def test_assert_bounds_refuses_a_bound_that_is_a_little_off():
    value, derived = draw(1), [Fraction(1)]
    bound = 1 + 2.0**-40
    assert_bounds(fc.track(value, torch.tensor([bound], dtype=F64)), derived)
    for wrong in (bound + 2.0**-46, bound - 2.0**-46, 1 + 2.0**-39, 1 + 2.0**-41):
        with pytest.raises(AssertionError):
            assert_bounds(fc.track(value, torch.tensor([wrong], dtype=F64)), derived)


SUMS: dict[str, tuple[Callable, int, int]] = {
    "x + y": (lambda x, y: x + y, 1, 1),
    "x - y": (lambda x, y: x - y, 1, -1),
    "torch.add": (torch.add, 1, 1),
    "torch.sub": (torch.sub, 1, -1),
    "torch.rsub": (torch.rsub, -1, 1),
}


@both
@pytest.mark.parametrize("errors", [False, True])
@pytest.mark.parametrize("name", SUMS)
def test_sums_of_two_are_charged_their_exact_residual(name: str, errors: bool, dtype):
    call, first, second = SUMS[name]
    x, y, e, f = operands(dtype, errors)
    sums = call(fc.track(x, e), fc.track(y, f))
    assert torch.equal(fc.value_of(sums), call(x, y))
    rows = each(x, y, e, f, fc.value_of(sums))
    assert_bounds(sums, [e + f + abs(first * x + second * y - z) for x, y, e, f, z in rows])


@both
@pytest.mark.parametrize("errors", [False, True])
def test_what_rounding_takes_from_a_sum_has_the_error_of_its_terms_alone(errors: bool, dtype):
    x, y, e, f = operands(dtype, errors)
    lost = sum_remainder(fc.track(x, e), fc.track(y, f), x + y)
    rows = list(each(x, y, x + y, fc.value_of(lost), e, f))
    assert all(x + y == total + rest for x, y, total, rest, *_ in rows)
    for bound, (*_, e, f) in zip(exact(fc.error_of(lost)), rows, strict=True):
        assert e + f <= bound <= (e + f) * (1 + Fraction(1, 2**39))


@both
@pytest.mark.parametrize("number", [0.1, -3.0, 7])
def test_a_number_is_charged_what_rounding_it_to_the_type_costs(number: float, dtype):
    x, _, e, _ = operands(dtype, errors=False)
    entering = Fraction(torch.tensor(number, dtype=dtype).item())
    lost = abs(entering - Fraction(number))
    for call, combine in (
        (lambda x: x + number, lambda x: x + entering),
        (lambda x: number + x, lambda x: x + entering),
        (lambda x: x - number, lambda x: x - entering),
        (lambda x: number - x, lambda x: entering - x),
    ):
        result = call(fc.track(x, e))
        rows = each(x, fc.value_of(result))
        assert_bounds(result, [lost + abs(combine(x) - z) for x, z in rows])
    for call in (lambda x: x * number, lambda x: number * x):
        result = call(fc.track(x, e))
        rows = each(x, fc.value_of(result))
        assert_bounds(result, [abs(x) * lost + abs(x * entering - z) for x, z in rows])
    result = fc.track(x, e) / number
    size = abs(entering)
    assert_bounds(
        result,
        [
            (abs(z) * (1 + Fraction(1e-6)) + tiny(dtype)) * lost / (size - lost)
            + abs(x / entering - z)
            for x, z in each(x, fc.value_of(result))
        ],
    )


@both
@pytest.mark.parametrize("errors", [False, True])
def test_products_are_charged_their_exact_residual(errors: bool, dtype):
    x, y, e, f = operands(dtype, errors)
    products = fc.track(x, e) * fc.track(y, f)
    rows = each(x, y, e, f, fc.value_of(products))
    assert_bounds(
        products, [abs(x) * f + abs(y) * e + e * f + abs(x * y - z) for x, y, e, f, z in rows]
    )


@pytest.mark.parametrize(
    ("x", "y", "within_reach"),
    [
        (1.5e-280, 1.1, True),
        (1e-280, 1.0, True),  # a power of two only scales
        (0.9e-280, 1.1, False),
        (0.7e-280, 1.1, False),
        (-1.5e-140, 1.1e-140, True),
        (-1.1e-140, 0.7e-140, False),
        (1.6e308, 1.1, False),
        (1e150, 1.1e158, True),
        (1e299, 1.1, True),
    ],
)
def test_products_beyond_the_reach_of_splitting_are_charged_half_a_unit(x, y, within_reach: bool):
    tracked = fc.track(torch.tensor([x], dtype=F64)) * fc.track(torch.tensor([y], dtype=F64))
    product = Fraction(fc.value_of(tracked).item())
    residual = abs(Fraction(x) * Fraction(y) - product)
    assert residual < ulp(product, F64) / 2
    assert_bounds(tracked, [residual if within_reach else ulp(product, F64) / 2])


def quotient_bound(x, y, e, f, z, dtype, *, residual=None) -> Fraction:
    size = abs(z) * (1 + Fraction(1e-6)) + tiny(dtype)
    return (e + size * f) / (abs(y) - f) + (abs(x / y - z) if residual is None else residual)


@both
@pytest.mark.parametrize("errors", [False, True])
def test_quotients_are_charged_their_exact_residual(errors: bool, dtype):
    x, y, e, f = operands(dtype, errors)
    quotients = fc.track(x, e) / fc.track(y, f)
    rows = each(x, y, e, f, fc.value_of(quotients))
    assert_bounds(quotients, [quotient_bound(*row, dtype) for row in rows])
    # A quotient that underflows to zero still moves with its divisor.
    small = torch.full((1,), 2 * float(tiny(dtype)), dtype=F64).to(dtype)
    large, slack = torch.full((1,), 64.0, dtype=dtype), torch.full((1,), 32.0, dtype=F64)
    quotients = fc.track(small) / fc.track(large, slack)
    assert fc.value_of(quotients).item() == 0
    assert float(fc.error_of(quotients)) >= float(tiny(dtype))


@pytest.mark.parametrize(("x", "y"), [(0.7e-280, 1.1), (1e-290, 3.0), (1.6e308, 1.1), (1e308, 1e5)])
def test_quotients_beyond_the_reach_of_splitting_are_charged_half_a_unit(x: float, y: float):
    quotient = fc.track(torch.tensor([x], dtype=F64)) / fc.track(torch.tensor([y], dtype=F64))
    assert_bounds(quotient, [ulp(Fraction(fc.value_of(quotient).item()), F64) / 2])


@pytest.mark.parametrize(("value", "error"), [(1.0, 1.0), (-2.0, 2.0), (0.5, 1.0)])
def test_a_divisor_that_may_be_zero_leaves_no_bound(value: float, error: float):
    y = fc.track(torch.tensor([value]).double(), torch.tensor([error]).double())
    one = torch.ones(1, dtype=F64)
    assert float(fc.error_of(fc.track(one) / y)) == INF
    assert float(fc.error_of(1 / y)) == INF


@both
@pytest.mark.parametrize("errors", [False, True])
def test_reciprocals_are_charged_their_exact_residual(errors: bool, dtype):
    _, y, _, f = operands(dtype, errors)
    reciprocals = fc.track(y, f).reciprocal()
    assert torch.equal(fc.value_of(reciprocals), y.reciprocal())
    rows = each(torch.ones_like(y), y, 0 * f, f, fc.value_of(reciprocals))
    assert_bounds(reciprocals, [quotient_bound(*row, dtype) for row in rows])


@both
@pytest.mark.parametrize("number", [1, 0.1, -3.7])
def test_a_number_over_a_tensor_is_charged_for_both_of_its_roundings(number: float, dtype):
    _, y, _, f = operands(dtype, True)
    entering = Fraction(torch.tensor(number, dtype=dtype).item())
    lost = abs(entering - Fraction(number))
    inverse = fc.track(y, f).reciprocal()
    for quotients in (number / fc.track(y, f), fc.track(y, f).__rdiv__(number)):
        assert torch.equal(fc.value_of(quotients), number / y)
        rows = each(fc.value_of(inverse), fc.error_of(inverse), fc.value_of(quotients))
        formula = [
            abs(r) * lost + abs(entering) * e + e * lost + abs(r * entering - z) for r, e, z in rows
        ]
        assert_bounds(quotients, formula)


def test_a_number_over_a_tensor_is_within_its_bound():
    # 0.1 is not a float32, and its quotient is rounded twice.
    quotients = 0.1 / fc.track(torch.tensor([3.0, 7.0, 1.1], dtype=F32))
    divisors = exact(torch.tensor([3.0, 7.0, 1.1], dtype=F32))
    rows = zip(exact(fc.value_of(quotients)), exact(fc.error_of(quotients)), divisors, strict=True)
    for value, bound, divisor in rows:
        assert 0 < abs(value - Fraction(0.1) / divisor) <= bound


@both
def test_where_nothing_can_be_derived_the_bound_is_infinite(dtype):
    largest = torch.tensor([torch.finfo(dtype).max], dtype=dtype)
    zero, one = torch.zeros(1, dtype=dtype), torch.ones(1, dtype=dtype)
    x, unknown = fc.track(largest), fc.track(zero, torch.full((1,), INF, dtype=F64))
    for result in (
        x + x,
        x * x,
        fc.track(one) / fc.track(zero),
        fc.track(zero) / fc.track(zero),
        1 / fc.track(zero),
        (x * 2) - (x * 2),
        fc.track(zero) * unknown,
        torch.cat([x, x]).sum(0, keepdim=True),
        torch.stack([x, x], -1) @ torch.stack([x, x], -2),
        torch.exp(x),
    ):
        assert fc.error_of(result).flatten().tolist() == [INF]


def test_residuals_of_products_are_exact() -> None:
    x, y = draw(3000), draw(3000, seed=1)
    residual, is_exact = _arithmetic_rules._product_residual(x, y, x * y)
    assert bool(is_exact.all())
    for a, b, z, r in zip(exact(x), exact(y), exact(x * y), exact(residual), strict=True):
        assert a * b - z == r
    large = torch.tensor([1.6e308], dtype=torch.float64)
    _, is_exact = _arithmetic_rules._product_residual(large, large / large * 1.1, large * 1.1)
    assert not is_exact.any()


def test_a_number_that_is_rounded_down_is_charged_as_well() -> None:
    x = fc.track(torch.ones(1))
    for number in (0.1, 0.7, -0.1, -0.7):
        lost = abs(float(torch.tensor(number)) - number)
        assert lost > 1e-9
        assert float(fc.error_of(x * number)) >= lost
    tenth = 0.1 / fc.track(torch.ones(1, dtype=torch.float64))
    assert fc.value_of(tenth).tolist() == [0.1]


def test_a_scalar_tensor_meets_a_longer_one_with_its_exact_residual() -> None:
    scalar, x = torch.tensor(0.1), draw(50, dtype=torch.float32)
    products = fc.track(scalar) * fc.track(x)
    rows = zip(exact(x), exact(fc.value_of(products)), strict=True)
    assert_bounds(products, [abs(Fraction(scalar.item()) * a - z) for a, z in rows])
