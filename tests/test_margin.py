"""Lengths of projected writes, whatever their size."""

import pytest
import torch

import finite_calculus as fc
from finite_calculus.margin import norm

DTYPES = [torch.float64, torch.float32]
SMALL = {torch.float64: -1000, torch.float32: -120}  # squares underflow
LARGE = {torch.float64: 1000, torch.float32: 120}  # squares overflow


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exponents", [SMALL, LARGE])
def test_squares_that_underflow_or_overflow_do_not_matter(dtype, exponents) -> None:
    exponent = exponents[dtype]
    sides = torch.tensor([[3.0, 4.0], [-5.0, 12.0], [0.0, -1.0]], dtype=dtype)
    norms = norm(torch.ldexp(sides, torch.tensor(exponent)))
    lengths = torch.tensor([5.0, 13.0, 1.0], dtype=dtype)
    assert torch.equal(torch.ldexp(norms, torch.tensor(-exponent)), lengths)
    assert not norm(torch.zeros(2, 3, dtype=dtype)).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_digit_of_an_ordinary_length_is_changed(dtype) -> None:
    sides = torch.randn(500, 7, generator=torch.Generator().manual_seed(0), dtype=dtype)
    assert torch.equal(norm(sides), torch.linalg.vector_norm(sides, dim=-1))


def test_the_smallest_and_the_largest_numbers_have_a_length() -> None:
    for dtype in DTYPES:
        info = torch.finfo(dtype)
        sides = torch.tensor([[info.smallest_normal * info.eps, 0.0], [info.max, 0.0]], dtype=dtype)
        assert torch.equal(norm(sides), sides[:, 0])


def test_the_bound_of_a_small_write_is_in_proportion_to_it() -> None:
    sides = torch.tensor([3e-200, 4e-200], dtype=torch.float64)
    length = norm(fc.track(sides))
    assert 0 < float(fc.error_of(length)) <= 16 * torch.finfo(torch.float64).eps * 5e-200
    assert float(fc.error_of(torch.linalg.vector_norm(fc.track(sides)))) > 1e-160


def test_a_write_that_overflowed_is_infinitely_long() -> None:
    sides = torch.tensor([[torch.inf, 1.0], [3.0, -torch.inf], [3.0, 4.0]], dtype=torch.float64)
    assert norm(sides).tolist() == [torch.inf, torch.inf, 5.0]
    assert bool(norm(sides * torch.nan).isnan().all())


def test_the_gradient_is_the_direction() -> None:
    sides = torch.tensor([[3.0, 4.0]], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(norm(sides).sum(), sides)
    assert bool(((gradient - sides.detach() / 5).abs() <= 4 * torch.finfo(torch.float64).eps).all())
    assert torch.autograd.gradcheck(norm, sides)


@pytest.mark.parametrize("dtype", DTYPES)
def test_evictions_are_ranked_although_their_distortions_have_no_squares(dtype) -> None:
    depth = 400.0 if dtype is torch.float64 else 60.0
    scores = torch.tensor([[0.0, -depth, -depth - 4, -depth - 2]], dtype=dtype)
    values = torch.eye(4, dtype=dtype).unsqueeze(0)
    groups = torch.eye(4, dtype=torch.bool)[1:]
    plan = fc.select_evictions(fc.freeze(scores, values), groups, torch.eye(4).to(dtype)[None], 1.0)
    assert plan.evicted == (1, 2, 0)
    assert 0 < plan.distortions[0] < plan.distortions[1] < plan.distortions[2]


@pytest.mark.parametrize("dtype", DTYPES)
def test_restorations_are_ranked_although_their_weighed_values_have_no_squares(dtype) -> None:
    depth = 400.0 if dtype is torch.float64 else 60.0
    scores = torch.tensor([[0.0, -depth, -depth + 2]], dtype=dtype)
    values = torch.eye(3, dtype=dtype).unsqueeze(0)
    values[:, 0] = 0
    cache = fc.CachePair(scores, values, scores, values)
    ranked = fc.restoration_scores(cache, torch.eye(3).to(dtype)[None], "value-norm")
    assert float(ranked[0]) == 0 < float(ranked[1]) < float(ranked[2])
