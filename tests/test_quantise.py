"""Quantisation is, bit by bit, what its definition says in the arithmetic of the input's type."""

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


def test_a_vector_whose_scale_underflows_becomes_zero():
    smallest = torch.tensor([5e-324, -5e-324], dtype=torch.float64)
    assert fc.quantise(smallest, 8).tolist() == [0.0, 0.0]
    assert not fc.quantise(smallest, 8).signbit().any()  # zero, and not minus zero
    assert fc.quantise(smallest, 2).tolist() == smallest.tolist()


def test_vectors_without_a_scale_have_no_infinite_gradients():
    zero = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(fc.quantise(zero, 4).sum(), zero)
    assert bool(torch.isfinite(gradient).all())
