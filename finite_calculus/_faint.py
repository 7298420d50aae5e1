"""Weights below the normal numbers, which keep their digits for sums with very large vectors.

A probability of 1e-320 holds three digits, and one of 1e-400 none, but times a value of 1e308 both are
ordinary numbers. Such weights are formed anew from their exponents, enlarged by a power of two that is
taken out of the finished sum. Without them, which is nearly always, this costs one look at the weights.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from finite_calculus._transforms import refuted
from finite_calculus.readout import Readout, at_reference, relative_scores, weigh
from finite_calculus.rounding import value_of

# The factor's exponent, even. Enlarged weights are then so small that sums with the largest vectors stay
# numbers, over 2^20 keys and more, and what they lose themselves is less than the smallest one.
_EXPONENT = {torch.float32: 100, torch.float64: 990}


def enlarged(half_exponents: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """e^{2h} enlarged, from h: e^h is a normal number wherever that matters, and its square is not."""
    root = torch.exp(half_exponents) * 2.0 ** (_EXPONENT[half_exponents.dtype] // 2)
    return root * root


def enlarged_probs(readout: Readout) -> Float[Tensor, "*batch keys"]:
    """The probabilities of a readout, enlarged."""
    top = at_reference(readout, readout.probs, feature_axes=0)
    return torch.where(readout.attended, enlarged(0.5 * relative_scores(readout)) * top, 0.0)


def times_probs(
    readout: Readout, factors: Float[Tensor, "*factors keys"]
) -> Float[Tensor, "*lifted keys"]:
    """p f with all digits of p, however small it is."""
    products = readout.probs * factors
    faint = _below_normal(readout.probs) & readout.attended
    if refuted(faint.any()):
        return products
    return torch.where(faint, _reduced(enlarged_probs(readout) * factors), products)


def read(
    readout: Readout, vectors: Float[Tensor, "*vectors keys width"]
) -> Float[Tensor, "*lifted width"]:
    """Σ p x, with all digits of every p, however small it is."""
    faint = faint_part(readout.probs, readout.attended, lambda: enlarged_probs(readout))
    return weigh_all(readout.probs, faint, vectors)


def weigh_by_probs(
    readout: Readout,
    factors: Float[Tensor, "*factors keys"],
    vectors: Float[Tensor, "*vectors keys width"],
) -> Float[Tensor, "*lifted width"]:
    """Σ p f x, with all digits of every p f, however small it is."""
    weights, moving = times_probs(readout, factors), value_of(factors).detach() != 0
    faint = faint_part(weights, moving, lambda: enlarged_probs(readout) * factors)
    return weigh_all(weights, faint, vectors)


def faint_part(
    weights: Float[Tensor, "*batch keys"],
    moving: Bool[Tensor, "*moving keys"],
    anew: Callable[[], Float[Tensor, "*batch keys"]],
) -> Float[Tensor, "*batch keys"] | None:
    """Weights below the normal numbers, enlarged, and zero for all others; None if there are none.

    `moving` excludes those that are exactly zero, and `anew` forms the enlarged ones. A key that is masked
    by −1e9 has nothing left to enlarge.
    """
    faint = _below_normal(weights) & moving
    if refuted(faint.any()):
        return None
    part = torch.where(faint, anew(), 0.0)
    return None if refuted((value_of(part).detach() != 0).any()) else part


def weigh_all(
    weights: Float[Tensor, "*weights keys"],
    faint: Float[Tensor, "*weights keys"] | None,
    vectors: Float[Tensor, "*vectors keys width"],
) -> Float[Tensor, "*lifted width"]:
    """Σ w x, where the faint weights stand in for their own rounded values."""
    if faint is None:
        return weigh(weights, vectors)
    ordinary = torch.where(value_of(faint).detach() == 0, weights, 0.0)
    return weigh(ordinary, vectors) + _reduced(weigh(faint, vectors))


def _reduced(sizes: Tensor) -> Tensor:
    """The enlargement taken out: exact unless the result is below the normal numbers."""
    return sizes * 2.0 ** -_EXPONENT[sizes.dtype]


def _below_normal(weights: Tensor) -> Tensor:
    numbers = value_of(weights).detach()
    return numbers.abs() < torch.finfo(numbers.dtype).smallest_normal
