"""Quantisation is, bit by bit, what its definition says in the arithmetic of the input's type."""

from fractions import Fraction

import numpy as np
import pytest
import torch

import finite_calculus as fc

DTYPES = {torch.float64: np.float64, torch.float32: np.float32}


def defined(vector: list[float], bits: int, number: type) -> list[float]:
    """a·round(x/a) with a = max|x|/(2^{bits−1} − 1), one rounded operation after the other."""
    scale = number(max(map(abs, vector))) / number(2 ** (bits - 1) - 1)
    if scale == 0:
        return [0.0] * len(vector)
    return [float(scale * np.round(number(x) / scale)) for x in vector]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bits", [2, 3, 4, 8, 16])
def test_each_vector_is_rounded_by_its_own_scale(bits: int, dtype: torch.dtype):
    vectors = torch.randn(50, 5, generator=torch.Generator().manual_seed(bits)).to(dtype)
    vectors[0], vectors[1] = -vectors[1].abs(), 0.0  # the largest is negative; there is none
    vectors[2] = torch.tensor([2.0 ** (bits - 1) - 1, 0.5, 1.5, -2.5, 1.0])  # scale one, ties
    codes = fc.quantise(vectors.reshape(5, 10, 5), bits).reshape(50, 5)
    for row, expected in zip(codes.tolist(), vectors.tolist(), strict=True):
        assert row == defined(expected, bits, DTYPES[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_codes_stay_in_range_among_the_subnormal_numbers(bits: int, dtype: torch.dtype):
    info, levels = torch.finfo(dtype), 2 ** (bits - 1) - 1
    step = Fraction(info.smallest_normal) * Fraction(info.eps)  # the smallest number
    entries = torch.arange(-60, 61, dtype=dtype) * float(step)
    vectors = torch.cartesian_prod(entries, entries)
    for vector, row in zip(vectors.tolist(), fc.quantise(vectors, bits).tolist(), strict=True):
        largest = Fraction(max(map(abs, vector)))
        for x, q in zip(vector, row, strict=True):
            assert abs(Fraction(q)) <= largest
            # Half a scale, of which three roundings may move a tie, and one rounding to the grid.
            allowed = largest / levels / 2 * (1 + 4 * levels * Fraction(info.eps)) + step / 2
            assert abs(Fraction(x) - Fraction(q)) <= allowed


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bits", range(2, 12))
def test_the_largest_numbers_stay_finite(bits: int, dtype: torch.dtype):
    most = torch.finfo(dtype).max
    vector = torch.tensor([most, -most, most / 2, 0.0], dtype=dtype)
    quantised = fc.quantise(vector, bits)
    assert bool(torch.isfinite(quantised).all())
    # Exactly ±most in the reals; one rounding of the scale and one of its multiple.
    assert bool((quantised[:2] - vector[:2]).abs().max() <= most * torch.finfo(dtype).eps)


def test_zero_stays_zero_without_a_sign():
    zeros = torch.tensor([0.0, -0.0], dtype=torch.float64)
    assert fc.quantise(zeros, 8).tolist() == [0.0, 0.0]
    assert not fc.quantise(zeros, 8).signbit().any()


def test_vectors_without_a_scale_have_no_infinite_gradients():
    zero = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(fc.quantise(zero, 4).sum(), zero)
    assert bool(torch.isfinite(gradient).all())
