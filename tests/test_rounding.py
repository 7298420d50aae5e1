"""The running error analysis itself: budgets measured, rules proved wrong when they should be."""

import math

import flint
import numpy as np
import pytest
import torch

import finite_calculus as fc
from finite_calculus import _arithmetic_rules, _elementary_rules, _tracked, rotary, rounding
from proofs.references.numbers import arb_precision

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
    inside = torch.from_numpy(both[(both >= low) & (both <= high) & (both != 0)]).to(dtype)
    return inside[inside != 0]


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
        for row, values, bounds in zip(
            x.tolist(), fc.value_of(probs).tolist(), fc.error_of(probs).tolist(), strict=True
        ):
            weights = [flint.arb(score).exp() for score in row]
            total = sum(weights, flint.arb(0))
            for weight, value, bound in zip(weights, values, bounds, strict=True):
                assert float(abs(flint.arb(value) - weight / total).mid()) <= bound
    # The budget of a few roundings each of n terms, where the scores are close to each other.
    loose = fc.error_of(probs)[:3] / fc.value_of(probs)[:3]
    assert float(loose.amax()) <= 4 * (keys + 8) * torch.finfo(dtype).eps


def test_a_softmax_carries_the_errors_of_its_inputs() -> None:
    x, error = torch.tensor([1.0, 0.0]).double(), torch.tensor([1e-3, 0.0]).double()
    change = torch.softmax(x + error, -1) - torch.softmax(x, -1)
    assert bool((fc.error_of(torch.softmax(fc.track(x, error), -1)) >= change.abs()).all())
    bounds = fc.error_of(torch.softmax(fc.track(x, torch.full_like(x, 3.0)), dim=-1))
    assert bool(torch.isinf(bounds).all())


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
    upper = fc.upper(fc.track(value, error))
    assert upper.dtype is torch.float32
    assert (upper.double() >= value.double() + error).all()


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
    for result in (2.0 + x, 2.0 - x, 2.0 * x, x / 2.0, 2.0 / x, x.__rdiv__(2.0), x.double()):
        assert isinstance(result, fc.Tracked)
        assert bool((fc.error_of(result) < 1e-15).all())
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
    assert torch.finfo(torch.float64).eps / 2 == _tracked.WIDE
    one = torch.tensor([1 - 1.5e-6, 1 - 0.5e-6], dtype=torch.float64)
    eps = torch.finfo(torch.float64).eps
    assert _elementary_rules._budget("exp", one).tolist() == [eps / 2, eps]
    x = torch.tensor([1.5e-280, 0.9e-280, 0.7e-280], dtype=torch.float64)
    _, exact = _arithmetic_rules._product_residual(x, torch.full_like(x, 1.1), 1.1 * x)
    assert exact.tolist() == [True, False, False]


def test_what_is_split_into_nothing_or_read_as_integers_carries_no_error() -> None:
    assert fc.track(torch.zeros(0, 3)).unbind(0) == ()
    bits = fc.track(torch.ones(2, dtype=torch.float64)).view(torch.int64)
    assert not isinstance(bits, fc.Tracked)
    assert bits.dtype is torch.int64
