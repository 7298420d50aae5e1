"""Each rule of the running error analysis gives the bound it derives: no smaller and no looser."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from finite_calculus import rotary, rounding
from tests.helpers.exact_bounds import (
    F32,
    F64,
    INF,
    assert_bounds,
    both,
    each,
    errors_like,
    exact,
    growth,
    operands,
    tiny,
    ulp,
    unit,
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
    found = call(fc.track(x, e), fc.track(y, f))
    assert torch.equal(fc.value_of(found), call(x, y))
    rows = each(x, y, e, f, fc.value_of(found))
    assert_bounds(found, [e + f + abs(first * x + second * y - z) for x, y, e, f, z in rows])


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
        found = call(fc.track(x, e))
        rows = each(x, fc.value_of(found))
        assert_bounds(found, [lost + abs(combine(x) - z) for x, z in rows])
    for call in (lambda x: x * number, lambda x: number * x):
        found = call(fc.track(x, e))
        rows = each(x, fc.value_of(found))
        assert_bounds(found, [abs(x) * lost + abs(x * entering - z) for x, z in rows])
    found = fc.track(x, e) / number
    size = abs(entering)
    assert_bounds(
        found,
        [
            (abs(z) * (1 + Fraction(1e-6)) + tiny(dtype)) * lost / (size - lost)
            + abs(x / entering - z)
            for x, z in each(x, fc.value_of(found))
        ],
    )


@both
@pytest.mark.parametrize("errors", [False, True])
def test_products_are_charged_their_exact_residual(errors: bool, dtype):
    x, y, e, f = operands(dtype, errors)
    found = fc.track(x, e) * fc.track(y, f)
    rows = each(x, y, e, f, fc.value_of(found))
    assert_bounds(
        found, [abs(x) * f + abs(y) * e + e * f + abs(x * y - z) for x, y, e, f, z in rows]
    )


@pytest.mark.parametrize(
    ("x", "y", "known"),
    [
        (1.5e-280, 1.1, True),
        (1e-280, 1.0, False),
        (0.7e-280, 1.1, False),
        (-1.5e-140, 1.1e-140, True),
        (-1.1e-140, 0.7e-140, False),
        (1.6e308, 1.1, False),
        (1e150, 1.1e158, True),
        (1e299, 1.1, True),
    ],
)
def test_products_beyond_the_reach_of_splitting_are_charged_half_a_unit(x, y, known: bool):
    found = fc.track(torch.tensor([x], dtype=F64)) * fc.track(torch.tensor([y], dtype=F64))
    product = Fraction(fc.value_of(found).item())
    residual = abs(Fraction(x) * Fraction(y) - product)
    assert residual < ulp(product, F64) / 2
    assert_bounds(found, [residual if known else ulp(product, F64) / 2])


def quotient_bound(x, y, e, f, z, dtype, *, residual=None) -> Fraction:
    size = abs(z) * (1 + Fraction(1e-6)) + tiny(dtype)
    return (e + size * f) / (abs(y) - f) + (abs(x / y - z) if residual is None else residual)


@both
@pytest.mark.parametrize("errors", [False, True])
def test_quotients_are_charged_their_exact_residual(errors: bool, dtype):
    x, y, e, f = operands(dtype, errors)
    found = fc.track(x, e) / fc.track(y, f)
    rows = each(x, y, e, f, fc.value_of(found))
    assert_bounds(found, [quotient_bound(*row, dtype) for row in rows])
    # A quotient that underflows to zero still moves with its divisor.
    small = torch.full((1,), 2 * float(tiny(dtype)), dtype=F64).to(dtype)
    large, slack = torch.full((1,), 64.0, dtype=dtype), torch.full((1,), 32.0, dtype=F64)
    found = fc.track(small) / fc.track(large, slack)
    assert fc.value_of(found).item() == 0
    assert float(fc.error_of(found)) >= float(tiny(dtype))


@pytest.mark.parametrize(("x", "y"), [(0.7e-280, 1.1), (1e-290, 3.0), (1.6e308, 1.1), (1e308, 1e5)])
def test_quotients_beyond_the_reach_of_splitting_are_charged_half_a_unit(x: float, y: float):
    found = fc.track(torch.tensor([x], dtype=F64)) / fc.track(torch.tensor([y], dtype=F64))
    assert_bounds(found, [ulp(Fraction(fc.value_of(found).item()), F64) / 2])


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
    found = fc.track(y, f).reciprocal()
    assert torch.equal(fc.value_of(found), y.reciprocal())
    rows = each(torch.ones_like(y), y, 0 * f, f, fc.value_of(found))
    assert_bounds(found, [quotient_bound(*row, dtype) for row in rows])


@both
@pytest.mark.parametrize("number", [1, 0.1, -3.7])
def test_a_number_over_a_tensor_is_charged_for_both_of_its_roundings(number: float, dtype):
    _, y, _, f = operands(dtype, True)
    entering = Fraction(torch.tensor(number, dtype=dtype).item())
    lost = abs(entering - Fraction(number))
    inverse = fc.track(y, f).reciprocal()
    for found in (number / fc.track(y, f), fc.track(y, f).__rdiv__(number)):
        assert torch.equal(fc.value_of(found), number / y)
        rows = each(fc.value_of(inverse), fc.error_of(inverse), fc.value_of(found))
        formula = [
            abs(r) * lost + abs(entering) * e + e * lost + abs(r * entering - z) for r, e, z in rows
        ]
        assert_bounds(found, formula)


def test_a_number_over_a_tensor_is_within_its_bound():
    # 0.1 is not a float32, and its quotient is rounded twice.
    found = 0.1 / fc.track(torch.tensor([3.0, 7.0, 1.1], dtype=F32))
    divisors = exact(torch.tensor([3.0, 7.0, 1.1], dtype=F32))
    rows = zip(exact(fc.value_of(found)), exact(fc.error_of(found)), divisors, strict=True)
    for value, bound, divisor in rows:
        assert 0 < abs(value - Fraction(0.1) / divisor) <= bound


@both
def test_where_nothing_can_be_derived_the_bound_is_infinite(dtype):
    largest = torch.tensor([torch.finfo(dtype).max], dtype=dtype)
    zero, one = torch.zeros(1, dtype=dtype), torch.ones(1, dtype=dtype)
    x, unknown = fc.track(largest), fc.track(zero, torch.full((1,), INF, dtype=F64))
    for found in (
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
        assert fc.error_of(found).flatten().tolist() == [INF]


@both
@pytest.mark.parametrize("errors", [False, True])
@pytest.mark.parametrize("terms", [0, 1, 2, 3, 4, 4096])
def test_sums_of_n_terms_are_charged_for_any_order(terms: int, errors: bool, dtype):
    count = max(terms, 6)
    x = draw(2, count, 3, seed=terms, dtype=dtype)
    x[:, terms:] = 0.0  # adding zeros is exact
    e = errors_like(x, 1) if errors else torch.zeros_like(x, dtype=F64)
    found = fc.track(x, e).sum(1, keepdim=True)
    assert torch.equal(fc.value_of(found), x.sum(1, keepdim=True))
    formula = []
    for index, total in enumerate(exact(fc.value_of(found))):
        column = (index // 3, slice(None), index % 3)
        sizes = sum(map(abs, exact(x[column])))
        own = growth(max(terms - 2, 0), dtype) * sizes
        own += ulp(total, dtype) / 2 if terms > 1 else 0
        formula.append((sum(exact(e[column])) + own) * (1 + 2 * count * unit(F64)))
    assert_bounds(found, formula)


@both
def test_a_sum_over_nothing_or_over_everything_has_a_bound(dtype):
    none = fc.track(draw(0, 3, dtype=dtype)).sum(0)
    assert fc.value_of(none).tolist() == [0.0] * 3
    assert_bounds(none, [Fraction(0)] * 3)
    assert fc.track(draw(2, 0, dtype=dtype)).sum((0,)).shape == (0,)
    x = draw(4, 5, dtype=dtype)
    whole = fc.track(x).sum()
    sizes = sum(map(abs, exact(x)))
    own = growth(18, dtype) * sizes + ulp(Fraction(fc.value_of(whole).item()), dtype) / 2
    assert_bounds(whole, [own * (1 + 40 * unit(F64))])


@both
@pytest.mark.parametrize("errors", [False, True])
@pytest.mark.parametrize("terms", [0, 1, 2, 3, 4096])
def test_matrix_products_are_charged_for_any_order(terms: int, errors: bool, dtype):
    count = max(terms, 5)
    x, y = draw(2, count, dtype=dtype), draw(count, 3, seed=1, dtype=dtype)
    x[:, terms:] = 0.0
    e, f = (errors_like(x, 2), errors_like(y, 3)) if errors else (0 * x.double(), 0 * y.double())

    def derived(total: Fraction, row: int, column: int) -> Fraction:
        parts = each(x[row], y[:, column], e[row], f[:, column])
        own = growth(max(terms - 1, 0), dtype) * sum(abs(x * y) for x, y, _, _ in parts)
        own += ulp(total, dtype) / 2
        moved = sum(abs(x) * f + e * (abs(y) + f) for x, y, e, f in parts)
        return (moved + own) * (1 + 4 * count * unit(F64)) + count * tiny(dtype)

    found = torch.matmul(fc.track(x, e), fc.track(y, f))
    totals = enumerate(exact(fc.value_of(found)))
    assert_bounds(found, [derived(total, *divmod(index, 3)) for index, total in totals])
    one = torch.dot(fc.track(x[1], e[1]), fc.track(y[:, 2], f[:, 2]))
    assert torch.equal(fc.value_of(one), torch.dot(x[1], y[:, 2]))
    assert_bounds(one, [derived(total, 1, 2) for total in exact(fc.value_of(one))])


@both
def test_extrema_move_by_the_largest_error(dtype):
    x, e = draw(4, 6, dtype=dtype), errors_like(draw(4, 6), 1)
    y, f = draw(6, seed=2, dtype=dtype), errors_like(draw(6), 3)
    for reduce in (Tensor.amax, Tensor.amin):
        found = reduce(fc.track(x, e), -1, keepdim=True)
        assert torch.equal(fc.value_of(found), reduce(x, -1, keepdim=True))
        assert torch.equal(fc.error_of(found), e.amax(-1, keepdim=True))
    for one, other in ((fc.track(x, e), fc.track(y, f)), (fc.track(y, f), fc.track(x, e))):
        found = torch.maximum(one, other)
        assert torch.equal(fc.value_of(found), torch.maximum(x, y))
        assert torch.equal(fc.error_of(found), torch.maximum(e, f.expand(4, 6)))


@both
def test_clamping_and_absolute_values_keep_the_error(dtype):
    x, e = draw(20, dtype=dtype), errors_like(draw(20), 1)
    for call in (torch.abs, abs, lambda x: x.clamp(min=0), lambda x: x.clamp(-0.5, 0.5)):
        found = call(fc.track(x, e))
        assert torch.equal(fc.value_of(found), call(x))
        assert torch.equal(fc.error_of(found), e)


def test_only_a_conversion_to_a_narrower_type_costs_a_rounding():
    x, e = draw(20), errors_like(draw(20), 1)
    narrow = x.float()
    for call in (Tensor.double, lambda x: x.to(F64)):
        for given in (fc.track(x, e), fc.track(narrow, e)):
            found = call(given)
            assert found.dtype is F64
            assert torch.equal(fc.error_of(found), e)
    assert torch.equal(fc.error_of(fc.track(narrow, e).float()), e)
    for call in (Tensor.float, lambda x: x.to(F32)):
        found = call(fc.track(x, e))
        assert torch.equal(fc.value_of(found), narrow)
        assert_bounds(found, [e + ulp(z, F32) / 2 for e, z in each(e, narrow)])


@both
@pytest.mark.parametrize("errors", [False, True])
def test_a_norm_is_charged_for_its_squares(errors: bool, dtype):
    count = 4096
    x = draw(3, count, dtype=dtype)
    x[1] = 0.0
    x[2] = float(tiny(dtype))  # squares of these are lost
    e = errors_like(x, 1) if errors else 0 * x.double()
    found = torch.linalg.vector_norm(fc.track(x, e), dim=-1)
    lengths = torch.linalg.vector_norm(e, dim=-1)  # within a few units of its exact value
    normal = Fraction(torch.finfo(dtype).smallest_normal)
    lost = 2 * Fraction(float(count * normal) ** 0.5)
    formula = [
        e * (1 + 2 * count * unit(F64)) + (count + 2) * unit(dtype) * abs(z) + lost
        for e, z in each(lengths, fc.value_of(found))
    ]
    assert_bounds(found, formula)
    assert fc.error_of(torch.linalg.vector_norm(fc.track(draw(0, dtype=dtype)))).item() > 0


@both
def test_the_hypotenuse_moves_with_both_sides(dtype):
    for errors in (False, True):
        x, y, e, f = operands(dtype, errors)
        found = torch.hypot(fc.track(x, e), fc.track(y, f))
        rows = each(e, f, fc.value_of(found))
        assert_bounds(found, [e + f + budget("hypot", z, dtype) for e, f, z in rows])


# In units in the last place; tests/test_rounding.py measures that they suffice.
BUDGETS = {
    "exp": 1.0,
    "expm1": 1.5,
    "log": 1.0,
    "log1p": 1.0,
    "sin": 1.0,
    "cos": 1.0,
    "tanh": 1.5,
    "hypot": 1.5,
    "phi1": 3.0,
    "phi2": 5.0,
    "sin_minus_angle": 4.0,
}
MARGIN = 1 + Fraction(1e-6)


def budget(name: str, value: Fraction, dtype: torch.dtype) -> Fraction:
    """The exact result may lie in the next binade, if the computed one is close to it."""
    return Fraction(BUDGETS[name]) * ulp(Fraction(float(abs(value)) * (1 + 1e-6)), dtype)


def log_spread(room: Fraction, e: float) -> float:
    return math.log1p(e / float(room))


ELEMENTARY: dict[str, tuple[Callable, Callable[[float, float, float], float]]] = {
    "exp": (torch.exp, lambda x, e, f: f * (1 + 1e-6) * math.expm1(e)),
    "expm1": (torch.expm1, lambda x, e, f: math.exp(x) * (1 + 1e-6) * math.expm1(e)),
    "log": (torch.log, lambda x, e, f: log_spread(Fraction(x) - Fraction(e), e)),
    "log1p": (
        torch.log1p,
        lambda x, e, f: log_spread((1 + Fraction(x)) * (1 - 2 * unit(F64)) - Fraction(e), e),
    ),
    "sin": (torch.sin, lambda x, e, f: min(e, 2.0)),
    "cos": (torch.cos, lambda x, e, f: min(e, 2.0)),
    "tanh": (torch.tanh, lambda x, e, f: min(e, 2.0)),
    "phi1": (fc.phi1, lambda x, e, f: f * (1 + 1e-6) * math.expm1(e)),
    "phi2": (fc.phi2, lambda x, e, f: f * (1 + 1e-6) * math.expm1(e)),
    "sin_minus_angle": (rotary.sin_minus_angle, lambda x, e, f: 2 * e),
}


def test_the_budgets_are_the_stated_ones():
    assert BUDGETS == rounding.ULPS
    assert set(BUDGETS) == set(ELEMENTARY) | {"hypot"}


@both
@pytest.mark.parametrize("name", ELEMENTARY)
@pytest.mark.parametrize("errors", [False, True])
def test_elementary_functions_are_charged_what_they_spread_and_their_budget(name, errors, dtype):
    call, spread = ELEMENTARY[name]
    x = draw(60, dtype=dtype)
    x = x.abs() if name == "log" else x.clamp(min=-0.5) if name == "log1p" else x
    e = errors_like(x, 1) if errors else 0 * x.double()
    found = call(fc.track(x, e))
    assert torch.equal(fc.value_of(found), call(x))
    rows = zip(x.tolist(), e.tolist(), fc.value_of(found).tolist(), strict=True)
    formula = [Fraction(spread(x, e, f)) + budget(name, Fraction(f), dtype) for x, e, f in rows]
    assert_bounds(found, formula)


@pytest.mark.parametrize(("below", "next_binade"), [(1.5e-6, False), (0.7e-6, True)])
def test_a_result_just_below_a_binade_is_charged_the_unit_of_the_next(below, next_binade):
    x = torch.log(torch.tensor([4 * (1 - below)], dtype=F64))
    found = torch.exp(fc.track(x))
    assert fc.value_of(found).item() < 4
    unit_in_last_place = 2.0**-50 if next_binade else 2.0**-51
    assert_bounds(found, [Fraction(unit_in_last_place)])


@both
@pytest.mark.parametrize("name", ["sin", "cos", "tanh"])
def test_a_bounded_function_of_something_unknown_is_within_two(name: str, dtype):
    x = torch.zeros(1, dtype=dtype)
    found = getattr(torch, name)(fc.track(x, torch.tensor([1e3], dtype=F64)))
    assert_bounds(found, [Fraction(2)])


@pytest.mark.parametrize(
    ("call", "x", "e"),
    [
        (torch.log, 1.0, 1.0),
        (torch.log, 0.5, 2.0),
        (torch.log1p, 0.0, 1.0),
        (torch.log1p, 1.0, 3.0),
    ],
)
def test_a_logarithm_of_something_that_may_vanish_has_no_bound(call: Callable, x: float, e: float):
    tracked = fc.track(torch.tensor([x]).double(), torch.tensor([e]).double())
    assert float(fc.error_of(call(tracked))) == INF


@both
def test_upper_is_the_next_number_above_the_bound(dtype):
    x, e = draw(200, dtype=dtype), errors_like(draw(200), 1)
    e[:50] = 0.0
    raised = fc.upper(fc.track(x, e))
    assert raised.dtype is dtype
    assert not isinstance(raised, fc.Tracked)
    for value, error, found in zip(x.tolist(), e.tolist(), raised.tolist(), strict=True):
        needed = math.nextafter(value + error, INF)
        below = torch.nextafter(torch.tensor(found, dtype=dtype), torch.tensor(-INF, dtype=dtype))
        assert below.item() < needed <= found


INDEX = torch.tensor([[2, 0], [1, 1], [0, 2]])
STRUCTURAL: dict[str, Callable[[Tensor], Any]] = {
    "getitem": lambda x: x[1:, ::2],
    "reshape": lambda x: x.reshape(6, 2),
    "view": lambda x: x.view(2, 6),
    "expand": lambda x: x.expand(2, 3, 4),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x[:1].squeeze(0),
    "flatten": lambda x: x.flatten(),
    "movedim": lambda x: x.movedim(0, -1),
    "transpose": lambda x: x.transpose(0, 1),
    "take_along_dim": lambda x: torch.take_along_dim(x, INDEX, dim=-1),
    "gather": lambda x: x.gather(1, INDEX),
    "stack": lambda x: torch.stack([x, x[:1].expand(3, 4)], -2),
    "cat": lambda x: torch.cat([x, x[:, :2]], -1),
    "broadcast_to": lambda x: x.broadcast_to(2, 3, 4),
    "clone": lambda x: x.clone(),
    "contiguous": lambda x: x.mT.contiguous(),
    "flip": lambda x: x.flip(0),
    "index_select": lambda x: x.index_select(1, INDEX[0]),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "unbind": lambda x: x.unbind(0),
    "split": lambda x: x.split([1, 2]),
    "detach": lambda x: x.detach(),
    "mT": lambda x: x.mT,
}


@both
@pytest.mark.parametrize("name", STRUCTURAL)
def test_errors_go_where_their_numbers_go(name: str, dtype):
    x, e = draw(3, 4, dtype=dtype), errors_like(draw(3, 4), 1)
    move = STRUCTURAL[name]
    results, values, errors = move(fc.track(x, e)), move(x), move(e)
    assert type(results) is (fc.Tracked if isinstance(values, Tensor) else type(values))
    parts = (results, values, errors)
    columns = parts if isinstance(values, tuple) else ((part,) for part in parts)
    for result, value, error in zip(*columns, strict=True):
        assert torch.equal(fc.value_of(result), value)
        assert torch.equal(fc.error_of(result), error)


@both
def test_a_choice_takes_the_error_of_what_is_chosen(dtype):
    x, e = draw(3, 4, dtype=dtype), errors_like(draw(3, 4), 1)
    y, f = draw(3, 4, seed=2, dtype=dtype), errors_like(draw(3, 4), 3)
    chosen = draw(3, 4, seed=5) > 0
    for other, value, error in ((fc.track(y, f), y, f), (y, y, 0 * f), (2.5, 2.5, 0 * f)):
        found = torch.where(chosen, fc.track(x, e), other)
        assert torch.equal(fc.value_of(found), torch.where(chosen, x, value))
        assert torch.equal(fc.error_of(found), torch.where(chosen, e, error))
    assert torch.equal(fc.error_of(-fc.track(x, e)), e)
    assert torch.equal(fc.error_of(torch.neg(fc.track(x, e))), e)
    for blank in (torch.zeros_like, torch.ones_like):
        assert torch.equal(blank(fc.track(x, e)), blank(x))
        assert not isinstance(blank(fc.track(x, e)), fc.Tracked)


DISCRETE: dict[str, Callable[[Tensor], Any]] = {
    "lt": lambda x: x < 0.1,
    "le": lambda x: x <= 0.1,
    "gt": lambda x: x > x.flip(0),
    "ge": lambda x: x >= x.flip(0),
    "eq": lambda x: x == x,
    "ne": lambda x: x != x,
    "isfinite": torch.isfinite,
    "isnan": torch.isnan,
    "all": lambda x: x.all(-1),
    "any": lambda x: x.any(),
    "argmax": lambda x: x.argmax(-1),
    "argmin": lambda x: x.argmin(-1, keepdim=True),
    "is_floating_point": lambda x: x.is_floating_point(),
    "is_complex": lambda x: x.is_complex(),
    "size": lambda x: x.size(),
    "dim": lambda x: x.dim(),
    "numel": lambda x: x.numel(),
    "len": len,
    "bool": lambda x: bool(x[0, 0]),
    "ndimension": lambda x: x.ndimension(),
    "stride": lambda x: x.stride(),
    "is_contiguous": lambda x: x.mT.is_contiguous(),
    "tolist": lambda x: x.tolist(),
    "item": lambda x: (x[0, 0].item(), float(x[0, 0]), int(x[0, 0])),
    "equal": lambda x: torch.equal(x, x.clone()),
    "repr": repr,
    "format": lambda x: f"{x[0, 0]:.3f}",
    "shape": lambda x: (x.shape, x.ndim, x.dtype, x.device),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_what_is_no_floating_tensor_carries_no_error(name: str):
    x, e = draw(3, 4), errors_like(draw(3, 4), 1)
    found, plain = DISCRETE[name](fc.track(x, e)), DISCRETE[name](x)
    assert not isinstance(found, fc.Tracked)
    assert type(found) is type(plain)
    assert torch.equal(found, plain) if isinstance(plain, Tensor) else found == plain


def test_every_operation_without_arithmetic_is_tried():
    named = {*STRUCTURAL, "where", "neg", "zeros_like", "ones_like"} - {"mT"}
    assert named == rounding._STRUCTURAL
    assert set(DISCRETE) - {"shape"} == rounding._DISCRETE


def test_a_plain_tensor_has_no_error_and_a_tracked_one_no_graph():
    x = draw(3).requires_grad_()
    assert torch.equal(fc.error_of(x), torch.zeros(3, dtype=F64))
    assert torch.equal(fc.error_of(draw(3).float()), torch.zeros(3, dtype=F64))
    assert fc.error_of(fc.track(draw(3).float())).dtype is F64
    assert not fc.track(x).requires_grad
    assert type(fc.value_of(fc.track(x))) is Tensor
