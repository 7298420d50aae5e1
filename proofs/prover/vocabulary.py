"""The shared vocabulary of the sum proofs: one query over its attended keys, before and after.

p are the attention weights, d the score increments, E = e^d, D = Σ p·e^d, t = d − log D and
phi = φ₁(t); v are the values in one generic coordinate, eps their increments. The exponential
enters only through e^t = 1 + t·φ₁(t) (eq:rho, coincident arguments included) and e^d = D·e^t;
log D stays a free symbol, since only linearity is used of it.
"""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import sympy as sp

from proofs.prover.exact import NILPOTENT, Matrix
from proofs.prover.rational import Environment, random_matrix
from proofs.prover.statements import Sampler
from proofs.prover.syntax import Hypothesis, Index, Letter, S

ZERO, ONE, TWO = sp.Integer(0), sp.Integer(1), sp.Integer(2)
HALF = sp.Rational(1, 2)

p = Index("p", positive=True)
E = Index("E", positive=True)
v, eps, d, t, phi = (Index(name) for name in ("v", "eps", "d", "t", "phi"))
D = sp.Symbol("D", positive=True)
lam, y = sp.symbols("lam y", real=True)

MASS: Hypothesis = (S(p), ONE)
READOUT: Hypothesis = (S(p * v), y)
PARTITION: Hypothesis = (S(p * E), D)
EXPONENTIAL: Hypothesis = (E, D * (1 + t * phi))
SHIFT: Hypothesis = (d, t + lam)

# The baseline alone, with renormalised weights, and with these in terms of φ₁.
BASELINE = (MASS, READOUT)
EDITED = (*BASELINE, PARTITION)
FINITE = (*EDITED, EXPONENTIAL)

edited = p * E / D  # p' = p·e^t
change = edited - p


def weights(env: Environment, generator: random.Random) -> list[Fraction]:
    """Positive rationals that sum to one: a softmax with rational exponentials."""
    raw = [Fraction(generator.randint(1, 9)) for _ in range(env.size)]
    return [value / sum(raw) for value in raw]


def _log_ratios(env: Environment, generator: random.Random) -> list[Fraction]:
    # t = 0 exactly where e^t = E/D = 1, so that φ₁(0) = 1 is met and not divided by.
    return [
        Fraction(0) if e == env[D] else Fraction(generator.randint(1, 9), generator.randint(1, 7))
        for e in env[E]
    ]


def _divided_difference(env: Environment, _: random.Random) -> list[Fraction]:
    return [
        (e / env[D] - 1) / ratio if ratio else Fraction(1)
        for e, ratio in zip(env[E], env[t], strict=True)
    ]


MODEL: tuple[tuple[Any, Any], ...] = (
    (p, weights),
    (D, S(p * E)),
    (y, S(p * v)),
    (t, _log_ratios),
    (phi, _divided_difference),
    (d, t + lam),
)


def proper_subset(env: Environment, generator: random.Random) -> list[Fraction]:
    """An indicator that leaves at least one key out; at N = 1 it is empty."""
    indicator = [Fraction(generator.randint(0, 1)) for _ in range(env.size)]
    indicator[generator.randrange(env.size)] = Fraction(0)
    return indicator


def one_key(env: Environment, generator: random.Random) -> list[Fraction]:
    """The indicator of a single key."""
    indicator = [Fraction(0)] * env.size
    indicator[generator.randrange(env.size)] = Fraction(1)
    return indicator


def at(indicator: Index, quantity: sp.Expr) -> sp.Expr:
    """The value of a quantity at the key of a one-key indicator."""
    return S(indicator * quantity)


def plane_generator(_: Environment, __: random.Random) -> Matrix:
    """J, the quarter turn of a rotary plane."""
    return Matrix([[Fraction(0), Fraction(-1)], [Fraction(1), Fraction(0)]])


def nilpotent(env: Environment, generator: random.Random) -> Matrix:
    """A strictly upper triangular matrix, on which every power series is a finite sum."""
    order = min(env.size, NILPOTENT)
    full = random_matrix(generator, (order, order)).rows
    return Matrix(
        [
            [entry if j > i else Fraction(0) for j, entry in enumerate(row)]
            for i, row in enumerate(full)
        ]
    )


def transposed(letter: Letter) -> Sampler:
    """A sampler: the transpose of a letter, or of each of its matrices."""

    def sample(env: Environment, _: random.Random) -> Matrix | list[Matrix]:
        value = env[letter]
        return [m.transpose for m in value] if isinstance(value, list) else value.transpose

    return sample
