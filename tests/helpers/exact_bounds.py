"""What the bounds of the running error analysis are held against: their formulas in rational numbers.

A computed bound is the formula times 1 + 2^-40, which covers the rounding of the bound itself, plus four
times the smallest subnormal number, which covers underflow; it may differ from that by some dozen roundings
of its own, in float64.
"""

import math
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from tests.helpers.tensors import draw

F64, F32 = torch.float64, torch.float32
both = pytest.mark.parametrize("dtype", [F64, F32], ids=str)
INF = math.inf


def errors_like(x: Tensor, seed: int) -> Tensor:
    """Errors of very different sizes, none of them above a quarter of the number."""
    spread = torch.rand(x.shape, generator=torch.Generator().manual_seed(seed), dtype=F64)
    return x.double().abs() * 10 ** (-12 * spread) / 4


def exact(x: Tensor) -> list[Fraction]:
    return [Fraction(number) for number in x.double().flatten().tolist()]


def tiny(dtype: torch.dtype) -> Fraction:
    """The smallest subnormal number."""
    return Fraction(2) ** (-1074 if dtype is F64 else -149)


def unit(dtype: torch.dtype) -> Fraction:
    return Fraction(2) ** (-53 if dtype is F64 else -24)


def ulp(x: Fraction, dtype: torch.dtype) -> Fraction:
    """eps·2^⌊log2|x|⌋."""
    if x == 0:
        return Fraction(0)
    exponent = math.frexp(float(abs(x)))[1]
    return 2 * unit(dtype) * Fraction(2) ** (exponent - 1)


def assert_bounds(tracked: Tensor, formula: list[Fraction]) -> None:
    """The error of a tracked tensor is what a formula derives."""
    bounds = exact(fc.error_of(tracked))
    assert len(bounds) == len(formula)
    for bound, derived in zip(bounds, formula, strict=True):
        expected = derived * (1 + Fraction(1, 2**40)) + 4 * tiny(tracked.dtype)
        assert bound >= derived
        assert abs(bound - expected) <= expected / 2**47 + 2 * tiny(F64)


Operands = tuple[Tensor, Tensor, Tensor, Tensor]


def operands(dtype: torch.dtype, errors: bool) -> Operands:
    """Two numbers and their errors, fifty times: of like and unlike size, and zeros."""
    x, y = draw(50, dtype=dtype), draw(50, seed=1, dtype=dtype)
    x = x * 2.0 ** torch.arange(-25, 25).to(dtype)
    x[0], y[1], y[2] = 0.0, x[1], -x[2]
    if not errors:
        return x, y, torch.zeros_like(x, dtype=F64), torch.zeros_like(y, dtype=F64)
    return x, y, errors_like(x, 2), errors_like(y, 3)


def each(*columns: Any) -> list[tuple[Fraction, ...]]:
    return list(zip(*(exact(column) for column in columns), strict=True))


def growth(count: int, dtype: torch.dtype) -> Fraction:
    """γ_n = nu/(1 − nu)."""
    return count * unit(dtype) / (1 - count * unit(dtype))
