"""The running error analysis itself: budgets measured, rules proved wrong when they should be."""

import math
from fractions import Fraction

import flint
import numpy as np
import pytest
import torch

import finite_calculus as fc
from finite_calculus import rotary, rounding
from proofs.references.numbers import arb_precision
from tests.helpers.exact_bounds import (
    assert_bounds,
    both,
    exact,
    growth,
    tiny,
    ulp,
    unit,
)
from tests.helpers.tensors import draw

TORCH = {
    "exp": (torch.exp, lambda x: x.exp(), (-700, 700)),
    "expm1": (torch.expm1, lambda x: x.expm1(), (-60, 700)),
    "log": (torch.log, lambda x: x.log(), (1e-300, 1e300)),
    "log1p": (torch.log1p, lambda x: x.log1p(), (-0.999999, 1e6)),
    "sin": (torch.sin, lambda x: x.sin(), (-1e6, 1e6)),
    "cos": (torch.cos, lambda x: x.cos(), (-1e6, 1e6)),
    "tanh": (torch.tanh, lambda x: x.tanh(), (-40, 40)),
    "phi1": (fc.phi1, lambda x: x.expm1() / x, (-700, 715)),
    "phi2": (fc.phi2, lambda x: (x.expm1() - x) / (x * x), (-700, 715)),
    "sin_minus_angle": (rotary.sin_minus_angle, lambda x: x.sin() - x, (-1e3, 1e3)),
}


def points(low: float, high: float, dtype: torch.dtype, count: int) -> torch.Tensor:
    """Uniform and log-uniform points of [low, high], tiny ones among them."""
    rng = np.random.default_rng(7)
    limit = 1e37 if dtype is torch.float32 else math.inf
    low, high = max(low, -limit), min(high, limit)
    reach = min(
        max(abs(low), abs(high)), 80.0 if dtype is torch.float32 and high < 1e4 else math.inf
    )
    smallest = -300 if dtype is torch.float64 else -36
    spread = 10.0 ** rng.uniform(smallest, math.log10(reach), count)
    spread *= np.where(rng.random(count) < 0.5, 1, -1)
    uniform = rng.uniform(max(low, -reach), min(high, reach), count)
    both = np.concatenate([spread, uniform])
    chosen = torch.from_numpy(both[(both >= low) & (both <= high) & (both != 0)]).to(dtype)
    return chosen[chosen != 0]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("vectorised", [True, False])
@pytest.mark.parametrize("name", TORCH)
def test_no_elementary_function_exceeds_its_budget_here(name, dtype, vectorised) -> None:
    function, exact, (low, high) = TORCH[name]
    x = points(low, high, dtype, 1500 if vectorised else 150)
    results = function(x) if vectorised else torch.stack([function(one) for one in x])
    info = torch.finfo(dtype)
    worst = 0.0
    with arb_precision(2200):
        for point, value in zip(x.tolist(), results.tolist(), strict=True):
            true = exact(flint.arb(point))
            if abs(float(true.mid())) < info.smallest_normal or not math.isfinite(value):
                continue
            unit = info.eps * 2.0 ** math.floor(math.log2(abs(float(true.mid()))))
            worst = max(worst, float(abs(flint.arb(value) - true).mid()) / unit)
    assert 0 < worst <= rounding.ULPS[name]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", sorted(set(TORCH) - {"log"}))
def test_every_elementary_function_is_exact_at_zero(name, dtype) -> None:
    at_zero = {"exp": 1.0, "cos": 1.0, "phi1": 1.0, "phi2": 0.5}
    function, *_ = TORCH[name]
    zeros = torch.zeros(33, dtype=dtype)
    assert torch.equal(function(zeros), zeros + at_zero.get(name, 0.0))
    assert float(function(zeros[0])) == at_zero.get(name, 0.0)
    assert float(fc.error_of(function(fc.track(zeros)))[0]) < torch.finfo(dtype).smallest_normal


def test_every_budget_is_measured() -> None:
    assert set(rounding.ULPS) == set(TORCH) | {"hypot"}


def test_hypot_stays_within_its_budget() -> None:
    x, y = points(-1e6, 1e6, torch.float64, 500)[:800], points(-1e6, 1e6, torch.float64, 500)[-800:]
    size = min(len(x), len(y))
    values = torch.hypot(x[:size], y[:size])
    worst = 0.0
    with arb_precision(300):
        for a, b, value in zip(x.tolist(), y.tolist(), values.tolist(), strict=False):
            true = (flint.arb(a) ** 2 + flint.arb(b) ** 2).sqrt()
            if value >= 1e-290:
                worst = max(worst, float(abs(flint.arb(value) - true).mid()) / math.ulp(value))
    assert 0 < worst <= rounding.ULPS["hypot"]


def test_a_sum_is_bounded_in_any_order() -> None:
    rng = np.random.default_rng(3)
    terms = torch.from_numpy(rng.normal(size=1000) * 10.0 ** rng.uniform(-8, 8, 1000))
    bound = float(fc.error_of(fc.track(terms).sum()))
    exact = math.fsum(terms.tolist())
    orders = [terms[torch.from_numpy(rng.permutation(1000))].sum() for _ in range(20)]
    assert max(abs(float(order) - exact) for order in orders) <= bound


def test_a_matrix_product_is_within_its_bound() -> None:
    rng = np.random.default_rng(4)
    x, y = torch.from_numpy(rng.normal(size=(5, 300))), torch.from_numpy(rng.normal(size=(300, 4)))
    product = torch.matmul(fc.track(x.float()), fc.track(y.float()))
    exact = torch.matmul(x.float().double(), y.float().double())
    gap = (fc.value_of(product).double() - exact).abs()
    assert (gap <= fc.error_of(product)).all()
    assert gap.max() > 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("keys", [1, 2, 9, 130])
def test_a_softmax_is_within_its_bound(keys: int, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(keys)
    # From equal scores to some whose weights are below the smallest normal number.
    scale = np.array([0.0, 1e-6, 1.0, 30.0, 100.0, 300.0, 1000.0])[:, None]
    x = torch.from_numpy(rng.normal(size=(7, keys)) * scale + 17.3).to(dtype)
    probs = torch.softmax(fc.track(x), -1)
    with arb_precision(300):
        for row, found, bounds in zip(
            x.tolist(), fc.value_of(probs).tolist(), fc.error_of(probs).tolist(), strict=True
        ):
            weights = [flint.arb(score).exp() for score in row]
            total = sum(weights, flint.arb(0))
            for weight, value, bound in zip(weights, found, bounds, strict=True):
                assert float(abs(flint.arb(value) - weight / total).mid()) <= bound
    # The budget of a few roundings each of n terms, where the scores are close to each other.
    loose = fc.error_of(probs)[:3] / fc.value_of(probs)[:3]
    assert float(loose.amax()) <= 4 * (keys + 8) * torch.finfo(dtype).eps


def test_a_softmax_carries_the_errors_of_its_inputs() -> None:
    x, error = torch.tensor([1.0, 0.0]).double(), torch.tensor([1e-3, 0.0]).double()
    moved = torch.softmax(x + error, -1) - torch.softmax(x, -1)
    assert bool((fc.error_of(torch.softmax(fc.track(x, error), -1)) >= moved.abs()).all())
    lost = fc.error_of(torch.softmax(fc.track(x, torch.full_like(x, 3.0)), dim=-1))
    assert bool(torch.isinf(lost).all())


def test_errors_of_inputs_are_carried_through() -> None:
    x = fc.track(
        torch.tensor([2.0], dtype=torch.float64), torch.tensor([1e-3], dtype=torch.float64)
    )
    product = x * x
    assert 4e-3 <= float(fc.error_of(product)) <= 4.1e-3
    assert float(fc.error_of(torch.exp(x))) >= math.exp(2.0) * 1e-3
    assert float(fc.error_of(torch.log(x))) >= 0.5e-3
    assert float(fc.error_of(1 / x)) >= 0.25e-3


def test_a_division_by_something_that_may_vanish_has_no_bound() -> None:
    x = fc.track(
        torch.tensor([1e-3], dtype=torch.float64), torch.tensor([1e-2], dtype=torch.float64)
    )
    assert math.isinf(float(fc.error_of(1 / x)))
    assert math.isinf(float(fc.error_of(torch.log(x))))


def test_upper_is_never_below_value_plus_error() -> None:
    value = torch.tensor([1.0, -3.0, 1e-30], dtype=torch.float32)
    error = torch.tensor([1e-12, 0.0, 1e-3], dtype=torch.float64)
    raised = fc.upper(fc.track(value, error))
    assert raised.dtype is torch.float32
    assert (raised.double() >= value.double() + error).all()


def test_an_operation_without_a_rule_is_refused() -> None:
    with pytest.raises(TypeError, match="has no error rule"):
        torch.erf(fc.track(torch.ones(2)))


def test_tracked_and_plain_inputs_compute_the_same_bits() -> None:
    rng = np.random.default_rng(5)
    scores, values, delta = (torch.from_numpy(rng.normal(size=s)) for s in ((6,), (6, 2), (6,)))
    plain = fc.finite_response(fc.freeze(scores, values), delta)
    tracked = fc.finite_response(fc.freeze(fc.track(scores), fc.track(values)), fc.track(delta))
    assert torch.equal(plain, fc.value_of(tracked))


def test_every_spelling_of_an_operation_has_its_rule() -> None:
    x = fc.track(torch.tensor([1.5, -2.0], dtype=torch.float64))
    for found in (2.0 + x, 2.0 - x, 2.0 * x, x / 2.0, 2.0 / x, x.__rdiv__(2.0), x.double()):
        assert isinstance(found, fc.Tracked)
        assert bool((fc.error_of(found) < 1e-15).all())
    assert fc.value_of(x.float()).dtype is torch.float32
    assert (float(x[0]), int(x[1])) == (1.5, -2)


def test_an_operation_with_a_keyword_or_in_place_is_another_one() -> None:
    def x() -> torch.Tensor:
        return fc.track(torch.tensor([1.5, -2.0], dtype=torch.float64))

    room = torch.zeros(2, dtype=torch.float64)
    for call in (
        lambda: torch.add(x(), x(), alpha=2),
        lambda: torch.add(x(), 2, x()),
        lambda: torch.sub(x(), x(), alpha=2),
        lambda: torch.rsub(x(), x(), alpha=2),
        lambda: torch.mul(x(), x(), out=room),
        lambda: torch.div(x(), x(), rounding_mode="floor"),
        lambda: x().add_(1.0),
        lambda: x().mul_(2.0),
        lambda: x().clamp_(min=0),
        lambda: x().neg_(),
    ):
        with pytest.raises(TypeError, match="has no error rule"):
            call()


def test_constants_of_the_analysis_are_what_their_comments_say() -> None:
    assert torch.finfo(torch.float64).eps / 2 == rounding._WIDE
    one = torch.tensor([1 - 1.5e-6, 1 - 0.5e-6], dtype=torch.float64)
    eps = torch.finfo(torch.float64).eps
    assert rounding._budget("exp", one).tolist() == [eps / 2, eps]
    x = torch.tensor([1.5e-280, 1e-280, 0.7e-280], dtype=torch.float64)
    _, exact = rounding._product_residual(x, torch.ones_like(x), x)
    assert exact.tolist() == [True, False, False]


@both
def test_the_bound_of_a_softmax_is_the_one_its_derivation_states(dtype: torch.dtype) -> None:
    u, narrow = unit(dtype), dtype is torch.float32
    for count, size in ((1, 0.0), (2, 0.0), (3, 0.01), (9, 0.2), (512, 1e-9)):
        x = draw(2, count, dtype=dtype) * (3 if narrow else 1)
        e = size * torch.rand(2, count, generator=torch.Generator().manual_seed(1)).double()
        found = torch.softmax(fc.track(x, e), -1)
        formula = []
        for row, errors, probs in zip(x, e, fc.value_of(found), strict=True):
            top = max(exact(row))
            lost = exact(row - row.max())
            rho = []
            for score, error, moved in zip(exact(row), exact(errors), lost, strict=True):
                grown = Fraction(math.expm1(error + abs(score - top - moved)))
                rho.append(grown + 2 * u * (1 + grown))
            order, most = growth(count - 1, dtype), max(rho)
            mean = sum(p * r for p, r in zip(exact(probs), rho, strict=True))
            room = (1 - most) * (1 - 3 * u)
            shift = (1 + order) * mean / room
            room *= 1 - shift
            formula += [
                p * (r + order + shift + 3 * u) / room * (1 + 4 * count * unit(torch.float64))
                for p, r in zip(exact(probs), rho, strict=True)
            ]
        assert_bounds(found, formula)


@both
def test_long_sums_are_charged_for_the_rounding_of_their_bounds(dtype: torch.dtype) -> None:
    count, wide = 2**12, unit(torch.float64)
    x = draw(count, dtype=dtype)
    own = growth(count - 2, dtype) * sum(map(abs, exact(x)))
    whole = fc.track(x).sum()
    half = ulp(Fraction(fc.value_of(whole).item()), dtype) / 2
    assert_bounds(whole, [(own + half) * (1 + 2 * count * wide)])
    y = draw(count, seed=1, dtype=dtype)
    y[::2], y[1::4] = 0.0, 1.0  # zeros are no terms, ones are
    product = torch.matmul(fc.track(x.reshape(1, 1, count)), fc.track(y.reshape(1, count, 1)))
    own = growth(count // 2 - 1, dtype) * sum(
        abs(a * b) for a, b in zip(exact(x), exact(y), strict=True)
    )
    half = ulp(Fraction(fc.value_of(product).item()), dtype) / 2
    charged = (own + half) * (1 + 4 * count * wide) + count * tiny(dtype)
    assert_bounds(product, [charged])


def test_a_sum_of_one_term_is_exact_but_for_its_bound() -> None:
    x, e = draw(1, 20), draw(1, 20, seed=1).abs()
    found = fc.error_of(fc.track(x, e).sum(0))
    raised = e[0] * (1 + 2.0**-52) * (1 + 2.0**-40) + 4 * float(tiny(torch.float64))
    assert torch.equal(found, raised)
    assert_bounds(
        torch.matmul(fc.track(x[:, :1]), fc.track(x[:1, :1])),
        [
            ulp(Fraction(float(x[0, 0] ** 2)), torch.float64) / 2 * (1 + 4 * unit(torch.float64))
            + tiny(torch.float64)
        ],
    )


def test_residuals_of_products_are_exact() -> None:
    x, y = draw(3000), draw(3000, seed=1)
    residual, known = rounding._product_residual(x, y, x * y)
    assert bool(known.all())
    for a, b, z, r in zip(exact(x), exact(y), exact(x * y), exact(residual), strict=True):
        assert a * b - z == r
    large = torch.tensor([1.6e308], dtype=torch.float64)
    _, known = rounding._product_residual(large, large / large * 1.1, large * 1.1)
    assert not known.any()


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
    found = fc.track(scalar) * fc.track(x)
    rows = zip(exact(x), exact(fc.value_of(found)), strict=True)
    assert_bounds(found, [abs(Fraction(scalar.item()) * a - z) for a, z in rows])


def test_what_is_split_into_nothing_or_read_as_integers_carries_no_error() -> None:
    assert fc.track(torch.zeros(0, 3)).unbind(0) == ()
    bits = fc.track(torch.ones(2, dtype=torch.float64)).view(torch.int64)
    assert not isinstance(bits, fc.Tracked)
    assert bits.dtype is torch.int64


@pytest.mark.parametrize("error", [0.6, 0.8, 3.0, 1e3])
def test_a_softmax_of_scores_that_are_not_known_has_no_bound(error: float) -> None:
    x = torch.tensor([0.0, -1.0, -2000.0], dtype=torch.float64)  # the last weight is zero
    found = fc.error_of(torch.softmax(fc.track(x, torch.full_like(x, error)), -1))
    assert found.tolist() == [math.inf] * 3


def test_a_norm_may_be_given_its_order_and_axis_by_place() -> None:
    x = fc.track(draw(3, 4), draw(3, 4, seed=1).abs())
    named = torch.linalg.vector_norm(x, ord=2, dim=-1)
    placed = torch.linalg.vector_norm(x, 2, -1)
    assert torch.equal(fc.value_of(named), fc.value_of(placed))
    assert torch.equal(fc.error_of(named), fc.error_of(placed))


@both
def test_norms_of_one_number_of_all_and_of_none_have_their_bounds(dtype: torch.dtype) -> None:
    normal = torch.finfo(dtype).smallest_normal
    x, e = draw(6, 1, dtype=dtype), draw(6, 1, seed=1).abs()
    for found, errors, count in (
        (torch.linalg.vector_norm(fc.track(x, e), dim=-1), e.squeeze(-1), 1),
        (torch.linalg.vector_norm(fc.track(x, e)), torch.linalg.vector_norm(e), 6),
    ):
        lost = 2 * Fraction((count * normal) ** 0.5)
        rows = zip(exact(errors), exact(fc.value_of(found)), strict=True)
        wide = 1 + 2 * count * unit(torch.float64)
        assert_bounds(found, [e * wide + (count + 2) * unit(dtype) * z + lost for e, z in rows])
    none = torch.linalg.vector_norm(fc.track(draw(0, dtype=dtype)))
    assert_bounds(none, [2 * Fraction(normal**0.5)])
    assert torch.linalg.vector_norm(fc.track(draw(0, 3, dtype=dtype)), dim=-1).shape == (0,)


@both
def test_logarithms_and_exponentials_are_charged_what_their_arguments_may_have_moved(
    dtype: torch.dtype,
) -> None:
    x, e = draw(20, dtype=dtype).abs() + 1, draw(20, seed=1).abs() / 8
    margin, inside = 1 + Fraction(1e-6), 1 - 2 * unit(torch.float64)
    cases = {
        "exp": (torch.exp, lambda x, e, f: f * margin * Fraction(math.expm1(e))),
        "expm1": (
            torch.expm1,
            lambda x, e, f: Fraction(math.exp(x)) * margin * Fraction(math.expm1(e)),
        ),
        "log": (torch.log, lambda x, e, f: Fraction(math.log1p(e / (x - e)))),
        "log1p": (torch.log1p, lambda x, e, f: Fraction(math.log1p(e / ((1 + x) * inside - e)))),
    }
    for name, (function, spread) in cases.items():
        found = function(fc.track(x, e))
        rows = zip(exact(x), exact(e), exact(fc.value_of(found)), strict=True)
        formula = [
            spread(a, b, z) + Fraction(rounding.ULPS[name]) * ulp(abs(z) * margin, dtype)
            for a, b, z in rows
        ]
        assert_bounds(found, formula)
    zeros = torch.zeros(2, dtype=dtype)
    assert fc.error_of(torch.log(fc.track(zeros))).tolist() == [math.inf] * 2


def test_an_elementary_rule_adds_the_budget_to_what_is_propagated() -> None:
    rule = rounding._elementary("sin", lambda x, e, f: 3 * e)
    x, e = draw(20), draw(20, seed=1).abs()
    found = rule(torch.sin, (fc.track(x, e),), {})
    rows = zip(exact(e), exact(torch.sin(x)), strict=True)
    margin = 1 + Fraction(1e-6)
    assert_bounds(found, [3 * b + ulp(abs(z) * margin, torch.float64) for b, z in rows])


def test_a_softmax_has_the_budget_of_its_exponentials(monkeypatch: pytest.MonkeyPatch) -> None:
    x = fc.track(draw(6))
    before = fc.error_of(torch.softmax(x, -1))
    monkeypatch.setitem(rounding.ULPS, "exp", 2.0)
    assert bool((fc.error_of(torch.softmax(x, -1)) > before).all())


def test_the_argument_of_log1p_is_taken_two_roundings_smaller() -> None:
    zero, e = torch.zeros(1, dtype=torch.float64), 1 - 2.0**-50
    found = torch.log1p(fc.track(zero, torch.tensor([e], dtype=torch.float64)))
    assert_bounds(found, [Fraction(math.log1p(e / ((1 - 2.0**-52) - e)))])
