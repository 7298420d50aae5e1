"""The scalar kernels that are tried on every float32, each with two references of other formulas.

The float64 reference is a quotient as it is defined, or a series where that cancels; it only has to be
right to a few parts in 2^40. The exact value is computed in Arb.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import flint
import numpy as np
import torch
from torch import Tensor

from finite_calculus import phi, response, rotary


@dataclass(frozen=True)
class Kernel:
    """A float32 function of one number, its float64 reference and its exact value in Arb.

    `at_infinity` are its values at −∞ and ∞; an infinite angle has none.
    """

    name: str
    compute: Callable[[Tensor], Tensor]
    reference: Callable[[np.ndarray], np.ndarray]
    exact: Callable[[flint.arb], flint.arb]
    at_infinity: tuple[float, float] = (math.nan, math.nan)


_NEAR = 0.25
_INVERSE_FACTORIALS = 1 / np.cumprod(np.r_[1.0, np.arange(1.0, 24.0)])


def _phi1(x: np.ndarray) -> np.ndarray:
    safe = np.where(x == 0, 1.0, x)
    return np.where(x == 0, 1.0, np.expm1(safe) / safe)


def _phi2(x: np.ndarray) -> np.ndarray:
    near = np.abs(x) < _NEAR
    far = np.where(near, 1.0, x)
    quotient = np.where(
        far > 300, (np.exp(far / 2) / far) ** 2, (np.expm1(far) - far) / (far * far)
    )
    return np.where(near, _series(np.where(near, x, 0.0), _INVERSE_FACTORIALS[2:]), quotient)


def _cos_minus_one(x: np.ndarray) -> np.ndarray:
    """−2t²/(1 + t²) with t = tan(θ/2), where the kernel squares a sine."""
    tangent = np.tan(x / 2)
    return -2 / (1 + 1 / (tangent * tangent))


def _sin_minus_angle(x: np.ndarray) -> np.ndarray:
    near = np.abs(x) < _NEAR
    small = np.where(near, x, 0.0)
    terms = _INVERSE_FACTORIALS[3::2] * np.resize([-1.0, 1.0], len(_INVERSE_FACTORIALS[3::2]))
    return np.where(near, small**3 * _series(small * small, terms), np.sin(x) - x)


def _probability_factor(x: np.ndarray) -> np.ndarray:
    """e^t − 1 below zero and 1 − e^{−t} above, by way of the hyperbolic tangent."""
    half = np.tanh(-np.abs(x) / 2)
    return np.sign(x) * np.abs(2 * half / (1 - half))


def _series(x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    return np.polynomial.polynomial.polyval(x, coefficients)


def _change(t: Tensor) -> Tensor:
    return response._difference(torch.ones_like(t), torch.ones_like(t), t)


def _exact_change(t: flint.arb) -> flint.arb:
    return t.expm1() if t < 0 else -(-t).expm1()


def _at_zero(value: float, elsewhere: Callable[[flint.arb], flint.arb]) -> Callable:
    return lambda x: flint.arb(value) if x == 0 else elsewhere(x)


KERNELS: dict[str, Kernel] = {
    kernel.name: kernel
    for kernel in (
        Kernel(
            "phi1",
            phi.phi1,
            _phi1,
            _at_zero(1.0, lambda x: x.expm1() / x),
            (0.0, math.inf),
        ),
        Kernel(
            "phi2",
            phi.phi2,
            _phi2,
            _at_zero(0.5, lambda x: (x.expm1() - x) / (x * x)),
            (0.0, math.inf),
        ),
        Kernel(
            "cos_minus_one",
            rotary.cos_minus_one,
            _cos_minus_one,
            lambda x: -2 * (x / 2).sin() ** 2,
        ),
        Kernel(
            "sin_minus_angle",
            rotary.sin_minus_angle,
            _sin_minus_angle,
            lambda x: x.sin() - x,
        ),
        Kernel("probability_change", _change, _probability_factor, _exact_change, (-1.0, 1.0)),
    )
}
