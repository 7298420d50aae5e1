"""Error rules of sums of many terms: sums, matrix products, softmax, norms, and extrema.

Each is charged for any order of summation.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from finite_calculus._arithmetic_rules import sum_residual
from finite_calculus._elementary_rules import ULPS
from finite_calculus._tracked import (
    WIDE,
    Tracked,
    bounded,
    error_in,
    half_ulp,
    no_rule,
    plain,
    size_of,
    tiny_of,
    unit_of,
    wrap,
)


def _sum(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    """Any order of n non-zero terms errs by at most (n − 2)·u·Σ|x| + u·|Σx|.

    Adding a zero is exact, and the last of the n − 1 additions rounds the sum itself.
    """
    value = func(plain(args[0]), *args[1:], **kwargs)
    x, args, kwargs = _converted(args, kwargs)
    terms = func((size_of(x) != 0).double(), *args[1:], **kwargs)
    own = _growth((terms - 2).clamp(min=0), value.dtype) * func(size_of(x), *args[1:], **kwargs)
    own = own + torch.where(terms > 1, half_ulp(value), 0.0)
    count = max(1, x.numel() // max(1, value.numel()))
    spread = func(error_in(x), *args[1:], **kwargs) + own
    return bounded(value, spread * (1 + 2 * count * WIDE))


def _matmul(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    """Any order of n non-zero products errs by at most (n − 1)·u·|x||y| + u·|xy|, fused or not.

    Each product and each addition but the last rounds something no larger than |x||y|; the last
    rounds the result.
    """
    x, y = args
    value = func(plain(x), plain(y))
    count = x.shape[-1]
    terms = func((size_of(x) != 0).double(), (size_of(y) != 0).double())
    own = _growth(terms - 1, value.dtype) * func(size_of(x), size_of(y))
    own = own + half_ulp(value)
    spread = func(size_of(x), error_in(y)) + func(error_in(x), size_of(y) + error_in(y)) + own
    return bounded(value, spread * (1 + 4 * count * WIDE) + count * tiny_of(value.dtype))


def _softmax(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    """p = w/T with w = e^{x − top}, where the computed top is exact as a number.

    Let each ŵ be w(1 + r), |r| ≤ ρ; T̂ the sum of the ŵ but for a factor within γ_{n−1}; and p̂ = ŵ/T̂
    but for a factor within 3u, by division or by the reciprocal. Then the ŵ sum to T but for a factor
    within b = (1 + γ)Σp̂ρ/((1 − max ρ)(1 − 3u)), and |p̂ − p| ≤ p̂(ρ + γ + b + 3u)/((1 − ρ)(1 − b)(1 − 3u)).
    """
    value = func(plain(args[0]), *args[1:], **kwargs)
    x, args, kwargs = _converted(args, kwargs)
    dim = args[1] if len(args) > 1 else kwargs["dim"]
    top, unit = plain(x).amax(dim, keepdim=True), unit_of(value.dtype)
    growth = torch.expm1(error_in(x) + sum_residual(plain(x), -top, plain(x) - top))
    growth = growth + 2 * ULPS["exp"] * unit * (1 + growth)
    steps = torch.tensor(x.shape[dim] - 1.0, dtype=torch.float64, device="cpu")
    order = float(_growth(steps, value.dtype))
    room = (1 - growth.amax(dim, keepdim=True)).clamp(min=0) * (1 - 3 * unit)
    shift = (1 + order) * (size_of(value) * growth).sum(dim, keepdim=True) / room
    room = room * (1 - shift).clamp(min=0)
    spread = size_of(value) * (growth + order + shift + 3 * unit) / room
    spread = torch.where(room > 0, spread, torch.inf)
    return bounded(value, spread * (1 + 4 * x.shape[dim] * WIDE))


def _growth(operations: Tensor, dtype: torch.dtype) -> Tensor:
    """γ_n = nu/(1 − nu), the growth of relative error over n operations; from n = 1/u on, unknown."""
    roundings = operations * unit_of(dtype)
    return torch.where(roundings < 1, roundings / (1 - roundings), torch.inf)


def _converted(args: tuple, kwargs: dict) -> tuple[Tensor, tuple, dict]:
    """The tensor to be summed in the type `dtype`, if there is one, and the other arguments."""
    named = {name: argument for name, argument in kwargs.items() if name != "dtype"}
    placed = tuple(argument for argument in args if not isinstance(argument, torch.dtype))
    dtypes = [x for x in (*args, kwargs.get("dtype")) if isinstance(x, torch.dtype)]
    return args[0].to(dtypes[0]) if dtypes else args[0], placed, named


def _maximum(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    """Reductions amax and amin: an extremum moves by no more than the largest error."""
    value = func(plain(args[0]), *args[1:], **kwargs)
    return wrap(value, error_in(args[0]).amax(*args[1:], **kwargs))


def _vector_norm(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    """The Euclidean norm: non-expansive, and computed as the root of a sum of squares that underflow."""
    order = args[1:2] or (kwargs.get("ord", 2),)
    if order[0] != 2:
        raise no_rule(func)
    value = func(plain(args[0]), *args[1:], **kwargs)
    x, args, kwargs = _converted(args, kwargs)
    count = max(1, x.numel() // max(1, value.numel()))
    spread = func(error_in(x), *args[1:], **kwargs) * (1 + 2 * count * WIDE)
    lost = 2 * (count * torch.finfo(value.dtype).smallest_normal) ** 0.5
    # Half of γ_n and two roundings; γ_n is within 2nu as long as nu does not exceed one half.
    own = (count + 2) * unit_of(value.dtype)
    return bounded(value, spread + (own if own <= 0.5 else math.inf) * size_of(value) + lost)


RULES: dict[str, Callable] = {
    "sum": _sum,
    "matmul": _matmul,
    "dot": _matmul,
    "softmax": _softmax,
    "amax": _maximum,
    "amin": _maximum,
    "linalg_vector_norm": _vector_norm,
}
