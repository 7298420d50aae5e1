"""Numbers kept within range by powers of two, which change no digit."""

import torch
from torch import Tensor

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
