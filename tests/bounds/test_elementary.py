"""Elementary functions are charged what their argument may have moved, and their budget in last places."""

import math
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch

import finite_calculus as fc
from finite_calculus import _elementary_rules, rotary, rounding
from tests.helpers.exact_bounds import (
    F64,
    INF,
    assert_bounds,
    both,
    each,
    errors_like,
    exact,
    operands,
    ulp,
    unit,
)
from tests.helpers.tensors import draw

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


def budget(name: str, value: Fraction, dtype: torch.dtype) -> Fraction:
    """The exact result may lie in the next binade, if the computed one is close to it."""
    return Fraction(BUDGETS[name]) * ulp(Fraction(float(abs(value)) * (1 + 1e-6)), dtype)


@both
def test_the_hypotenuse_moves_with_both_sides(dtype):
    for errors in (False, True):
        x, y, e, f = operands(dtype, errors)
        lengths = torch.hypot(fc.track(x, e), fc.track(y, f))
        rows = each(e, f, fc.value_of(lengths))
        assert_bounds(lengths, [e + f + budget("hypot", z, dtype) for e, f, z in rows])


def log_spread(room: Fraction, e: float) -> float:
    return math.log1p(e / float(room))


ELEMENTARY: dict[str, tuple[Callable, Callable[[float, float, float], float]]] = {
    "exp": (torch.exp, lambda x, e, f: math.exp(x) * (1 + 1e-6) * math.expm1(e)),
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
    "sin_minus_angle": (
        rotary.sin_minus_angle,
        lambda x, e, f: e * min(2, (abs(x) + e) ** 2 / 2),
    ),
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
    result = call(fc.track(x, e))
    assert torch.equal(fc.value_of(result), call(x))
    rows = zip(x.tolist(), e.tolist(), fc.value_of(result).tolist(), strict=True)
    formula = [Fraction(spread(x, e, f)) + budget(name, Fraction(f), dtype) for x, e, f in rows]
    assert_bounds(result, formula)


@pytest.mark.parametrize(("below", "next_binade"), [(1.5e-6, False), (0.7e-6, True)])
def test_a_result_just_below_a_binade_is_charged_the_unit_of_the_next(below, next_binade):
    x = torch.log(torch.tensor([4 * (1 - below)], dtype=F64))
    result = torch.exp(fc.track(x))
    assert fc.value_of(result).item() < 4
    unit_in_last_place = 2.0**-50 if next_binade else 2.0**-51
    assert_bounds(result, [Fraction(unit_in_last_place)])


@both
@pytest.mark.parametrize("name", ["sin", "cos", "tanh"])
def test_a_bounded_function_of_something_unknown_is_within_two(name: str, dtype):
    x = torch.zeros(1, dtype=dtype)
    result = getattr(torch, name)(fc.track(x, torch.tensor([1e3], dtype=F64)))
    assert_bounds(result, [Fraction(2)])


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
def test_logarithms_and_exponentials_are_charged_what_their_arguments_may_have_moved(
    dtype: torch.dtype,
) -> None:
    x, e = draw(20, dtype=dtype).abs() + 1, draw(20, seed=1).abs() / 8
    margin, inside = 1 + Fraction(1e-6), 1 - 2 * unit(torch.float64)

    def grown(x: Fraction, e: Fraction, f: Fraction) -> Fraction:
        return Fraction(math.exp(x)) * margin * Fraction(math.expm1(e))

    cases = {
        "exp": (torch.exp, grown),
        "expm1": (torch.expm1, grown),
        "log": (torch.log, lambda x, e, f: Fraction(math.log1p(e / (x - e)))),
        "log1p": (torch.log1p, lambda x, e, f: Fraction(math.log1p(e / ((1 + x) * inside - e)))),
    }
    for name, (function, spread) in cases.items():
        result = function(fc.track(x, e))
        rows = zip(exact(x), exact(e), exact(fc.value_of(result)), strict=True)
        formula = [
            spread(a, b, z) + Fraction(rounding.ULPS[name]) * ulp(abs(z) * margin, dtype)
            for a, b, z in rows
        ]
        assert_bounds(result, formula)
    zeros = torch.zeros(2, dtype=dtype)
    assert fc.error_of(torch.log(fc.track(zeros))).tolist() == [math.inf] * 2


def test_an_elementary_rule_adds_the_budget_to_what_is_propagated() -> None:
    rule = _elementary_rules._elementary("sin", lambda x, e, f: 3 * e)
    x, e = draw(20), draw(20, seed=1).abs()
    result = rule(torch.sin, (fc.track(x, e),), {})
    rows = zip(exact(e), exact(torch.sin(x)), strict=True)
    margin = 1 + Fraction(1e-6)
    assert_bounds(result, [3 * b + ulp(abs(z) * margin, torch.float64) for b, z in rows])


def test_the_argument_of_log1p_is_taken_two_roundings_smaller() -> None:
    zero, e = torch.zeros(1, dtype=torch.float64), 1 - 2.0**-50
    result = torch.log1p(fc.track(zero, torch.tensor([e], dtype=torch.float64)))
    assert_bounds(result, [Fraction(math.log1p(e / ((1 - 2.0**-52) - e)))])
