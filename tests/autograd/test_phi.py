"""φ1 and φ2 have right derivatives from the far left to the overflow."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import finite_calculus as fc
from tests.autograd.functions import leaf


@pytest.mark.parametrize("phi", [fc.phi1, fc.phi2])
@pytest.mark.parametrize(
    "x", [0.0, 1e-9, -1e-9, 1e-3, 0.999, 1.0, -1.0, 1.001, -3.0, -50.0, 20.0, 600.0, 705.0]
)
def test_phi_has_right_first_and_second_derivatives(phi: Callable[[Tensor], Tensor], x: float):
    point = leaf(torch.tensor([x], dtype=torch.float64))
    # Scaled by e^-x, so that finite differences of a steep function are not all rounding.
    scale = torch.exp(-point.detach().clamp(min=0))
    assert gradcheck(lambda z: phi(z) * scale, [point])
    assert gradgradcheck(lambda z: phi(z) * scale, [point])


@pytest.mark.parametrize(("order", "phi"), [(1, fc.phi1), (2, fc.phi2)])
def test_derivatives_of_phi_at_zero_are_those_of_its_series(
    order: int, phi: Callable[[Tensor], Tensor]
):
    x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    value = phi(x)
    # φk(x) = Σ xⁿ/(n + k)!, so that the n-th derivative at zero is n!/(n + k)!. The rule
    # φk' = φk − k·φ(k+1), applied n times, adds 2ⁿ terms with coefficients up to (n + k)!.
    for n in range(6):
        exact = math.factorial(n) / math.factorial(n + order)
        slack = 2**n * math.factorial(n + order) * torch.finfo(torch.float64).eps
        assert abs(float(value.detach()) - exact) <= slack
        (value,) = torch.autograd.grad(value, x, create_graph=True)


@pytest.mark.parametrize("phi", [fc.phi1, fc.phi2])
def test_phi_has_finite_gradients_from_the_far_left_to_the_overflow(
    phi: Callable[[Tensor], Tensor],
):
    x = leaf(
        torch.tensor([-1e300, -1e3, -700.0, -1.0, 0.0, 1.0, 699.0, 700.0, 701.0, 709.0]).double()
    )
    (gradient,) = torch.autograd.grad(phi(x).sum(), x)
    assert bool(torch.isfinite(gradient).all())
    assert bool((gradient[1:] > 0).all())
