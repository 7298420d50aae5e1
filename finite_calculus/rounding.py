"""Running error analysis: a tensor that carries a rigorous bound on its own rounding error.

`track(x)` marks exact inputs; every torch function the core uses then returns a `Tracked` tensor whose
`error` bounds |computed − exact| entry by entry, whatever order torch sums in. The core itself is
written once and knows nothing of this file. An operation without a rule raises: an unknown error is
never taken for zero. Bounds are held in float64 and pushed upwards, so that rounding cannot make them
too small. Linear solvers and singular values have no rule here. A plain operand counts as exact, so what
was computed from plain tensors beforehand must not meet tracked ones: the core refuses that mixture.
"""

from fractions import Fraction

import torch
from torch import Tensor

from finite_calculus import (
    _arithmetic_rules,
    _elementary_rules,
    _structure_rules,
    _sum_rules,
)
from finite_calculus._elementary_rules import ULPS as ULPS
from finite_calculus._tracked import (
    RULES,
    UPWARDS,
    Tracked as Tracked,
    error_in,
    plain,
    track as track,
)

for _rules in (_structure_rules, _arithmetic_rules, _sum_rules, _elementary_rules):
    RULES.update(_rules.RULES)


def together(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors, all of them tracked if one is: what is computed from a plain one rounds as well."""
    if not any(isinstance(tensor, Tracked) for tensor in tensors):
        return tensors
    return tuple(track(tensor) for tensor in tensors)


def constant(number: float, lost: Fraction, like: Tensor) -> Tensor | float:
    """A number that differs by `lost` from the one that is meant; tracked if `like` is."""
    if not isinstance(like, Tracked):
        return number
    entering = torch.tensor(number, dtype=like.dtype, device="cpu")
    gap = abs(Fraction(entering.item()) - Fraction(number)) + lost
    return track(entering.to(like.device), float(gap) * UPWARDS)


def value_of(tensor: Tensor) -> Tensor:
    """The computed value alone, as a plain tensor."""
    return plain(tensor)


def error_of(tensor: Tensor) -> Tensor:
    """The error bound of a tracked tensor; zero for a plain one, which is taken as exact."""
    return error_in(tensor)


def upper(tensor: Tensor) -> Tensor:
    """The smallest convenient number of the tensor's dtype that is surely not below the exact result."""
    bound = plain(tensor).double() + error_in(tensor)
    bound = torch.nextafter(bound, bound.new_tensor(torch.inf))
    narrow = bound.to(tensor.dtype)
    above = torch.nextafter(narrow, narrow.new_tensor(torch.inf))
    return torch.where(narrow.double() < bound, above, narrow)
