"""Error rules of sums, products and quotients of two operands, and of what moves no further than they do.

The residual of one rounding is exact: by Knuth's two-sum, or by Dekker's splitting of a product.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from finite_calculus._tracked import (
    UPWARDS,
    WIDE,
    Tracked,
    bounded,
    error_in,
    half_ulp,
    map_tree,
    name_of,
    plain,
    size_of,
    tensor_of,
    tiny_of,
    unit_of,
    wrap,
)

# Below this size the low halves of a split product are not normal numbers.
_SPLITTABLE = 1e-280


def operands(args: tuple, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Values and errors of two operands in the type of the result."""
    (x, x_error), (y, y_error) = enter(args[0], dtype), enter(args[1], dtype)
    return x, y, x_error, y_error


def enter(operand: Any, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """An operand as torch rounds it to the type of the result, and its error with that rounding.

    Python numbers are rounded, and so are integers and scalar tensors, which do not widen the result.
    """
    if isinstance(operand, Tensor):
        value = plain(operand).to(dtype)
        if operand.dtype == dtype:
            return value, error_in(operand)
        wide = plain(operand).double()
        lost = (value.double() - wide).abs()
        # Beyond 2^53 an integer is no float64 either.
        lost = lost + torch.where(wide.abs() >= 1 / WIDE, wide.abs() * WIDE, 0.0)
        return value, error_in(operand) + lost
    value = torch.tensor(operand, dtype=dtype, device="cpu")
    return value, tensor_of(_number_lost(operand, value.item()))


def _number_lost(number: float | int, entering: float) -> float:
    if number == entering:
        return 0.0
    if not (math.isfinite(number) and math.isfinite(entering)):
        return math.inf
    return float(abs(Fraction(entering) - Fraction(number)))


def _add(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    value = func(*map_tree(plain, args))
    x, y, x_error, y_error = operands(args, value.dtype)
    if name_of(func) == "sub":
        y = -y
    elif name_of(func) == "rsub":
        x = -x
    return bounded(value, x_error + y_error + sum_residual(x, y, value))


def _mul(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    value = func(*map_tree(plain, args))
    x, y, x_error, y_error = operands(args, value.dtype)
    spread = size_of(x) * y_error + size_of(y) * x_error + x_error * y_error
    residual, exact = _product_residual(x, y, value)
    own = torch.where(exact, residual.double().abs(), half_ulp(value))
    return bounded(value, spread + own)


def _div(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    value = func(*map_tree(plain, args))
    x, y, x_error, y_error = operands(args, value.dtype)
    room = size_of(y) - y_error
    quotient = size_of(value) * (1 + 1e-6) + tiny_of(value.dtype)
    spread = torch.where(room > 0, (x_error + quotient * y_error) / room, torch.inf)
    return bounded(value, spread + _quotient_residual(x, y, value))


def _reciprocal(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    return _div(lambda one, x: func(x), (1.0, args[0]), kwargs)


def _reversed_div(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    """A number over a tensor, in the two roundings that torch makes of it."""
    return args[0].reciprocal() * args[1]


def _sum_remainder(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    """What a rounded sum lacks is itself a number: it moves as the sum does, and has no error of its own."""
    value = func(*map_tree(plain, args))
    *_, x_error, y_error = operands(args, value.dtype)
    return wrap(value, (x_error + y_error) * UPWARDS)


def sum_residual(x: Tensor, y: Tensor, total: Tensor) -> Tensor:
    """|x + y − fl(x + y)|, which the two-sum of Knuth gives exactly where it does not overflow itself.

    An infinite term absorbs the other.
    """
    part = total - x
    residual = ((x - (total - part)) + (y - part)).double().abs()
    residual = torch.where(torch.isfinite(residual), residual, half_ulp(total))
    return torch.where(torch.isinf(x) != torch.isinf(y), 0.0, residual)


def _product_residual(x: Tensor, y: Tensor, product: Tensor) -> tuple[Tensor, Tensor]:
    """xy − fl(xy), and where it is exact: all of float32 in float64, float64 by Dekker's splitting."""
    if product.dtype is torch.float32:
        residual = x.double() * y.double() - product.double()
        return residual, torch.isfinite(residual)
    (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)
    residual = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    # Splitting overflows for the largest numbers, and the low halves underflow for the smallest.
    exact = torch.isfinite(residual) & (product.abs() > _SPLITTABLE)
    scaled = torch.isfinite(product) & (product.abs() >= torch.finfo(product.dtype).smallest_normal)
    scaled = scaled & (_is_power_of_two(x) | _is_power_of_two(y))
    return torch.where(scaled, 0.0, residual), exact | scaled


def _is_power_of_two(x: Tensor) -> Tensor:
    return torch.frexp(x)[0].abs() == 0.5


def _quotient_residual(x: Tensor, y: Tensor, quotient: Tensor) -> Tensor:
    """|x/y − fl(x/y)| = |x − fl(x/y)·y|/|y|: the product is within a unit of x, so the gap is exact."""
    product = quotient * y
    residual, exact = _product_residual(quotient, y, product)
    gap = (x.double() - product.double() - residual.double()).abs() / size_of(y)
    return torch.where(exact, gap, half_ulp(quotient))


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """Veltkamp's split of a float64 into two halves of 26 bits, which multiply exactly."""
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    return high, x - high


def _pairwise_maximum(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    value = func(plain(args[0]), plain(args[1]))
    *_, x_error, y_error = operands(args, value.dtype)
    return wrap(value, torch.maximum(x_error, y_error))


def _absolute(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    """abs is non-expansive."""
    return wrap(func(plain(args[0])), error_in(args[0]))


def _clamp(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    """Clamping moves by no more than the tensor or a limit does.

    What surely lies beyond a limit moves with that alone.
    """
    limits = [limit for limit in (*args[1:], *kwargs.values()) if limit is not None]
    error = error_in(args[0])
    (x, *placed), named = map_tree(plain, args), map_tree(plain, kwargs)
    value = func(x, *placed, **named)
    moved = sum(enter(limit, value.dtype)[1] for limit in limits)
    reach = (error + x.double().abs() * WIDE) * UPWARDS
    ends = (func(x.double() + side * reach, *placed, **named) for side in (-1, 1))
    apart = torch.stack([(end - value.double()).abs() for end in ends]).amax(0) * UPWARDS
    apart = torch.where(apart.isnan(), torch.inf, apart)
    return wrap(value, torch.minimum(error, apart) + moved)


def _to(func: Callable, args: tuple, kwargs: dict) -> Tensor:
    value = func(*map_tree(plain, args), **map_tree(plain, kwargs))
    if not (value.is_floating_point() or value.is_complex()):
        return value
    if unit_of(value.dtype) <= unit_of(args[0].dtype):
        return wrap(value, error_in(args[0]).to(value.device))
    return bounded(value, error_in(args[0]).to(value.device) + half_ulp(value))


RULES: dict[str, Callable] = {
    "add": _add,
    "sub": _add,
    "rsub": _add,
    "mul": _mul,
    "div": _div,
    "rdiv": _reversed_div,
    "reciprocal": _reciprocal,
    "maximum": _pairwise_maximum,
    "clamp": _clamp,
    "abs": _absolute,
    "to": _to,
    "sum_remainder": _sum_remainder,
}
