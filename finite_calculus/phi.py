"""The exponential divided differences of Appendix B (eq:rho), accurate at every argument.

φ1(x) = (eˣ − 1)/x is the divided difference that the whole calculus rests on; φ2 is the one that
a stable KL divergence needs. Both come with derivatives of every order that lose no digits anywhere
(`_phi_derivatives`): differentiating the quotient would lose all of them near zero, and the rule
φk' = φk − k·φ(k+1) those of every order far to the left. Matrix arguments are not treated here: on
rotary planes see `rotary.phi1_rotary`.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function_unary

from finite_calculus import _checks
from finite_calculus._phi_derivatives import derivative

# Inside |x| <= 1 the series converges below one unit of roundoff in this many terms: 1/19! < 2^-56.
_SERIES_TERMS = 18
# Beyond this argument the terms that φk drops from eˣ/xᵏ are below e^-600 of it.
_TAIL = 700.0


def phi1(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """First divided difference of the exponential at 0 and x (eq:rho).

    φ1(x) = ∫₀¹ e^{tx} dt = (eˣ − 1)/x, and 1 at x = 0. Positive for every real x; overflows to
    infinity where eˣ/x does.
    """
    if has_torch_function_unary(x):
        return handle_torch_function(phi1, (x,), x)
    _checks.floating("x", x)
    return _phi(x, 1)


def phi2(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Second divided difference of the exponential: φ2(x) = (eˣ − 1 − x)/x², and 1/2 at x = 0.

    KL(p‖p') = Σ p t² φ2(t) is a sum of positive terms, where log D − Σ p d cancels.
    """
    if has_torch_function_unary(x):
        return handle_torch_function(phi2, (x,), x)
    _checks.floating("x", x)
    return _phi(x, 2)


class _ReversePhi(torch.autograd.Function):
    """The n-th derivative of φk; its own derivative is the next one."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, order, times):
        return _evaluate(x, order) if times == 0 else derivative(x, order, times)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.order, ctx.times = inputs
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)

    @staticmethod
    def backward(ctx, *grad_outputs):
        (x,) = ctx.saved_tensors
        return grad_outputs[0] * _phi(x, ctx.order, ctx.times + 1), None, None


class _Phi(_ReversePhi):
    """The same in forward mode too, which torch.compile refuses to trace."""

    @staticmethod
    def jvp(ctx, *grad_inputs):
        (x,) = ctx.saved_tensors
        return grad_inputs[0] * _phi(x, ctx.order, ctx.times + 1)


def _phi(x: Tensor, order: int, times: int = 0) -> Tensor:
    function = _ReversePhi if torch.compiler.is_compiling() else _Phi
    return function.apply(x, order, times)


def _evaluate(x: Tensor, order: int) -> Tensor:
    # Float32 is evaluated in float64, so that its kernels are right to the last bit but one.
    wide = x.double()
    middle = torch.where(wide.abs() <= 1, _series(wide, order), _recurrence(wide, order))
    return torch.where(wide > _TAIL, _tail(wide, order), middle).to(x.dtype)


def _series(x: Tensor, order: int) -> Tensor:
    """Σ xⁿ/(n + order)! by Horner, for |x| <= 1 (what larger arguments give is not used)."""
    total = torch.zeros_like(x)
    for n in reversed(range(_SERIES_TERMS)):
        total = total * x + 1 / math.factorial(n + order)
    return total


def _recurrence(x: Tensor, order: int) -> Tensor:
    """φ(k+1) = (φk − 1/k!)/x from φ1, for 1 < |x| <= _TAIL (what smaller ones give is not used)."""
    value = torch.expm1(x) / x
    for k in range(1, order):
        value = (value - 1 / math.factorial(k)) / x
    return value


def _tail(x: Tensor, order: int) -> Tensor:
    """eˣ/xᵏ in two halves, so that it overflows only where the quotient does."""
    x = x.clamp(_TAIL, 3 * _TAIL)
    half = torch.exp(x / 2)
    return half / x**order * half
