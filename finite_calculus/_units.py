"""Numbers kept within range by powers of two, which change no digit."""

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function_variadic

from finite_calculus import _checks
from finite_calculus.rounding import value_of


def power_of_two(size: Tensor) -> Tensor:
    """The power of two in (size/2, size], and ½ for zero, as a mere number: no error, no graph."""
    _, exponent = torch.frexp(value_of(size).detach())
    return torch.exp2((exponent - 1).to(size.dtype))


def pivot_within_range(pivot: Tensor, vectors: Tensor) -> Tensor:
    """The vector nearest to `pivot` whose distance from each of `vectors` (..., keys, width) is a number.

    Almost always the pivot itself; only entries further apart than the largest number move it.
    """
    most = torch.finfo(vectors.dtype).max
    numbers = value_of(vectors).detach()
    lowest, highest = torch.aminmax(numbers, dim=-2, keepdim=True)
    return pivot.clamp(highest.clamp(min=0) - most, lowest.clamp(max=0) + most)


def sum_remainder(x: Tensor, y: Tensor, total: Tensor) -> Tensor:
    """x + y − total without any error, for a total that is x + y rounded (Knuth's two-sum).

    The total counts as a mere number: the remainder has the error and the derivatives of the sum.
    """
    if has_torch_function_variadic(x, y):
        return handle_torch_function(sum_remainder, (x, y), x, y, total)
    part = total - x
    return (x - (total - part)) + (y - part)


def product(matrix: Tensor, other: Tensor) -> Tensor:
    """A matrix product in the type of its operands, which autocast would not leave it."""
    _checks.no_autocast(other)
    return torch.matmul(matrix, other)
