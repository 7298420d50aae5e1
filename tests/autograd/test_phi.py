"""φ1 and φ2 have right derivatives from the far left to the overflow."""

import math
from collections.abc import Callable

import flint
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import finite_calculus as fc
from proofs.references.numbers import arb_precision, distance
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
    # φk(x) = Σ xⁿ/(n + k)!, so that the n-th derivative at zero is n!/(n + k)!.
    for n in range(6):
        exact = math.factorial(n) / math.factorial(n + order)
        assert abs(float(value.detach()) - exact) <= torch.finfo(torch.float64).eps * exact
        (value,) = torch.autograd.grad(value, x, create_graph=True)


def exact_derivative(order: int, times: int, x: float) -> flint.arb:
    """n!/(n + k)! · M(n + 1, n + k + 1, x), the n-th derivative of φk, in Arb."""
    with arb_precision(2000):
        argument = flint.arb(x)
        confluent = argument.hypgeom_1f1(flint.arb(times + 1), flint.arb(times + order + 1))
        return confluent * math.factorial(times) / math.factorial(times + order)


# From the far left over both switches of every order, 2(n + 1) and 2(n + 1)k, to the overflow.
POINTS = [
    *(-(10.0**e) for e in (40, 15, 8, 5, 3)),
    *(sign * x for x in (300.0, 50.0, 9.0, 1e-3, 1e-300) for sign in (-1.0, 1.0)),
    *(sign * (x + gap) for x in (4, 6, 8, 12, 16, 24) for gap in (-1e-9, 1e-9) for sign in (-1, 1)),
    *(0.0, 600.0, 699.0, 701.0),
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("order", "phi"), [(1, fc.phi1), (2, fc.phi2)])
def test_derivatives_of_phi_lose_no_digits_anywhere(
    order: int, phi: Callable[[Tensor], Tensor], dtype: torch.dtype
):
    info = torch.finfo(dtype)
    points = [x for x in POINTS if abs(x) <= 80 or dtype is torch.float64 or -1e6 < x < 0]
    x = leaf(torch.tensor(points, dtype=dtype))
    value = phi(x)
    for times in range(6):
        for argument, computed in zip(x.tolist(), value.tolist(), strict=True):
            exact = exact_derivative(order, times, argument)
            # Positive terms throughout: few roundings, however far the argument, beside underflow.
            allowed = 8 * info.eps * float(exact) + info.smallest_normal * info.eps
            assert distance(computed, exact) <= allowed, (times, argument)
        (value,) = torch.autograd.grad(value.sum(), x, create_graph=True)


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # torch's own, in jvp
@pytest.mark.parametrize("phi", [fc.phi1, fc.phi2])
def test_phi_passes_through_the_transforms_of_torch(phi: Callable[[Tensor], Tensor]):
    x = torch.tensor([-40.0, -1.5, 0.0, 0.3, 30.0], dtype=torch.float64)
    (slope,) = torch.autograd.grad(phi(point := leaf(x)).sum(), point)
    assert torch.equal(torch.func.vmap(phi)(x), phi(x))
    assert torch.equal(torch.func.vmap(torch.func.grad(phi))(x), slope)
    assert torch.equal(torch.func.jvp(phi, (x,), (torch.ones_like(x),))[1], slope)
    assert torch.equal(torch.func.jacrev(phi)(x).diag(), slope)


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
