"""Sums of many terms, matrix products, norms, extrema and softmax are charged for any order of summation."""

import math
from fractions import Fraction

import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from finite_calculus import rounding
from tests.helpers.exact_bounds import (
    F64,
    assert_bounds,
    both,
    each,
    errors_like,
    exact,
    growth,
    tiny,
    ulp,
    unit,
)
from tests.helpers.tensors import draw


@both
@pytest.mark.parametrize("errors", [False, True])
@pytest.mark.parametrize("terms", [0, 1, 2, 3, 4, 4096])
def test_sums_of_n_terms_are_charged_for_any_order(terms: int, errors: bool, dtype):
    count = max(terms, 6)
    x = draw(2, count, 3, seed=terms, dtype=dtype)
    x[:, terms:] = 0.0  # adding zeros is exact
    e = errors_like(x, 1) if errors else torch.zeros_like(x, dtype=F64)
    sums = fc.track(x, e).sum(1, keepdim=True)
    assert torch.equal(fc.value_of(sums), x.sum(1, keepdim=True))
    formula = []
    for index, total in enumerate(exact(fc.value_of(sums))):
        column = (index // 3, slice(None), index % 3)
        sizes = sum(map(abs, exact(x[column])))
        own = growth(max(terms - 2, 0), dtype) * sizes
        own += ulp(total, dtype) / 2 if terms > 1 else 0
        formula.append((sum(exact(e[column])) + own) * (1 + 2 * count * unit(F64)))
    assert_bounds(sums, formula)


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

    def formula(total: Fraction, row: int, column: int) -> Fraction:
        parts = each(x[row], y[:, column], e[row], f[:, column])
        own = growth(max(terms - 1, 0), dtype) * sum(abs(x * y) for x, y, _, _ in parts)
        own += ulp(total, dtype) / 2
        moved = sum(abs(x) * f + e * (abs(y) + f) for x, y, e, f in parts)
        return (moved + own) * (1 + 4 * count * unit(F64)) + count * tiny(dtype)

    products = torch.matmul(fc.track(x, e), fc.track(y, f))
    totals = enumerate(exact(fc.value_of(products)))
    assert_bounds(products, [formula(total, *divmod(index, 3)) for index, total in totals])
    one = torch.dot(fc.track(x[1], e[1]), fc.track(y[:, 2], f[:, 2]))
    assert torch.equal(fc.value_of(one), torch.dot(x[1], y[:, 2]))
    assert_bounds(one, [formula(total, 1, 2) for total in exact(fc.value_of(one))])


@both
def test_extrema_move_by_the_largest_error(dtype):
    x, e = draw(4, 6, dtype=dtype), errors_like(draw(4, 6), 1)
    y, f = draw(6, seed=2, dtype=dtype), errors_like(draw(6), 3)
    for reduce in (Tensor.amax, Tensor.amin):
        extrema = reduce(fc.track(x, e), -1, keepdim=True)
        assert torch.equal(fc.value_of(extrema), reduce(x, -1, keepdim=True))
        assert torch.equal(fc.error_of(extrema), e.amax(-1, keepdim=True))
    for one, other in ((fc.track(x, e), fc.track(y, f)), (fc.track(y, f), fc.track(x, e))):
        extrema = torch.maximum(one, other)
        assert torch.equal(fc.value_of(extrema), torch.maximum(x, y))
        assert torch.equal(fc.error_of(extrema), torch.maximum(e, f.expand(4, 6)))


@both
@pytest.mark.parametrize("errors", [False, True])
def test_a_norm_is_charged_for_its_squares(errors: bool, dtype):
    count = 4096
    x = draw(3, count, dtype=dtype)
    x[1] = 0.0
    x[2] = float(tiny(dtype))  # squares of these are lost
    e = errors_like(x, 1) if errors else 0 * x.double()
    norms = torch.linalg.vector_norm(fc.track(x, e), dim=-1)
    lengths = torch.linalg.vector_norm(e, dim=-1)  # within a few units of its exact value
    normal = Fraction(torch.finfo(dtype).smallest_normal)
    lost = 2 * Fraction(float(count * normal) ** 0.5)
    formula = [
        e * (1 + 2 * count * unit(F64)) + (count + 2) * unit(dtype) * abs(z) + lost
        for e, z in each(lengths, fc.value_of(norms))
    ]
    assert_bounds(norms, formula)
    assert fc.error_of(torch.linalg.vector_norm(fc.track(draw(0, dtype=dtype)))).item() > 0


@both
def test_the_bound_of_a_softmax_is_the_one_its_derivation_states(dtype: torch.dtype) -> None:
    u, narrow = unit(dtype), dtype is torch.float32
    for count, size in ((1, 0.0), (2, 0.0), (3, 0.01), (9, 0.2), (512, 1e-9)):
        x = draw(2, count, dtype=dtype) * (3 if narrow else 1)
        e = size * torch.rand(2, count, generator=torch.Generator().manual_seed(1)).double()
        softmax = torch.softmax(fc.track(x, e), -1)
        formula = []
        for row, errors, probs in zip(x, e, fc.value_of(softmax), strict=True):
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
        assert_bounds(softmax, formula)


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
    bounds = fc.error_of(fc.track(x, e).sum(0))
    raised = e[0] * (1 + 2.0**-52) * (1 + 2.0**-40) + 4 * float(tiny(torch.float64))
    assert torch.equal(bounds, raised)
    assert_bounds(
        torch.matmul(fc.track(x[:, :1]), fc.track(x[:1, :1])),
        [
            ulp(Fraction(float(x[0, 0] ** 2)), torch.float64) / 2 * (1 + 4 * unit(torch.float64))
            + tiny(torch.float64)
        ],
    )


@pytest.mark.parametrize("error", [0.6, 0.8, 3.0, 1e3])
def test_a_softmax_of_scores_that_are_not_known_has_no_bound(error: float) -> None:
    x = torch.tensor([0.0, -1.0, -2000.0], dtype=torch.float64)  # the last weight is zero
    bounds = fc.error_of(torch.softmax(fc.track(x, torch.full_like(x, error)), -1))
    assert bounds.tolist() == [math.inf] * 3


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
    for norms, errors, count in (
        (torch.linalg.vector_norm(fc.track(x, e), dim=-1), e.squeeze(-1), 1),
        (torch.linalg.vector_norm(fc.track(x, e)), torch.linalg.vector_norm(e), 6),
    ):
        lost = 2 * Fraction((count * normal) ** 0.5)
        rows = zip(exact(errors), exact(fc.value_of(norms)), strict=True)
        wide = 1 + 2 * count * unit(torch.float64)
        assert_bounds(norms, [e * wide + (count + 2) * unit(dtype) * z + lost for e, z in rows])
    none = torch.linalg.vector_norm(fc.track(draw(0, dtype=dtype)))
    assert_bounds(none, [2 * Fraction(normal**0.5)])
    assert torch.linalg.vector_norm(fc.track(draw(0, 3, dtype=dtype)), dim=-1).shape == (0,)


def test_a_softmax_has_the_budget_of_its_exponentials(monkeypatch: pytest.MonkeyPatch) -> None:
    x = fc.track(draw(6))
    before = fc.error_of(torch.softmax(x, -1))
    monkeypatch.setitem(rounding.ULPS, "exp", 2.0)
    assert bool((fc.error_of(torch.softmax(x, -1)) > before).all())
