"""Derivatives of the exponential divided differences (eq:rho), of every order and without cancellation.

φk(x) = ∫₀¹ e^{sx} (1 − s)^{k−1} ds/(k−1)!, so that its n-th derivative is the same integral with a
factor sⁿ: a positive number. With y = |x| both signs of x come to one integral,

    G(a, b, y) = ∫₀¹ s^a (1 − s)^b e^{−sy} ds,

as G(n, k−1, y)/(k−1)! on the left and as eˣ G(k−1, n, y)/(k−1)! on the right. Near zero e^y G is a series
of positive terms; far from it G is a short sum whose first term dominates.
"""

import math

import torch
from torch import Tensor

# Terms below this part of a sum are left out: a quarter of the unit roundoff of float64.
_NEGLIGIBLE = 2.0**-55
# Beyond this argument e^{−y} is zero, and y^i must not overflow against it.
_VANISHED = 800.0


def derivative(x: Tensor, order: int, times: int) -> Tensor:
    """The derivative of φ_order, taken so many times, at any argument; in float64 within."""
    wide, scale = x.double(), math.factorial(order - 1)
    y = wide.abs()
    left, right = (times, order - 1), (order - 1, times)
    falling = torch.where(y <= _near(*left), torch.exp(-y) * _series(y, *left), _tail(y, *left))
    # e^x in two halves, so that the product overflows only where the derivative does.
    reach = y.clamp(max=3 * _VANISHED)
    half = torch.exp(reach / 2)
    rising = torch.where(y <= _near(*right), _series(y, *right), half * _tail(reach, *right) * half)
    return (torch.where(wide > 0, rising, falling) / scale).to(x.dtype)


def _near(a: int, b: int) -> float:
    """Where the series gives way to the tail: from here on each term of it is half of the one before."""
    return 2.0 * (a + 1) * (b + 1)


def _series(y: Tensor, a: int, b: int) -> Tensor:
    """e^y G(a, b, y) = Σ_j B(a+1, b+j+1) y^j/j!, for y up to `_near` (what larger ones give is not used)."""
    total = torch.zeros_like(y)
    for coefficient in reversed(_coefficients(a, b)):
        total = total * y + coefficient
    return total


def _coefficients(a: int, b: int) -> list[float]:
    """The coefficients of the series, as many as its largest argument needs."""
    coefficients, term, total, j = [], 0.0, 0.0, 0
    while j < 2 * _near(a, b) or term > _NEGLIGIBLE * total:
        beta = math.factorial(a) * math.factorial(b + j) / math.factorial(a + b + j + 1)
        coefficients.append(beta / math.factorial(j))
        term = coefficients[-1] * _near(a, b) ** j
        total, j = total + term, j + 1
    return coefficients


def _tail(y: Tensor, a: int, b: int) -> Tensor:
    """G(a, b, y) = Σ_i (−1)^i C(b, i) (a+i)!/y^{a+i+1} P(a+i+1, y), for y beyond `_near`."""
    total = torch.zeros_like(y)
    for i in reversed(range(b + 1)):
        weight = (-1) ** i * math.comb(b, i) * math.factorial(a + i)
        total = total / y + weight * _below(y, a + i + 1)
    for _ in range(a + 1):  # one at a time: y^(a+1) may overflow where the quotient is a number
        total = total / y
    return total


def _below(y: Tensor, m: int) -> Tensor:
    """P(m, y) = 1 − e^{−y} Σ_{i<m} y^i/i!, at least one half for y ≥ m."""
    y = y.clamp(max=_VANISHED)
    total = torch.zeros_like(y)
    for i in reversed(range(m)):
        total = total * y + 1 / math.factorial(i)
    return 1 - torch.exp(-y) * total
