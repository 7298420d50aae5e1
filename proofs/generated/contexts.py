"""The number contexts of generated references: Arb balls, mpmath numbers and rationals.

To the elementary functions of the hand-written references they add what only statements use: φ₁ and
φ₂, which the paper defines at coincident arguments too, integrals, and the tail of an infinite sum.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import flint

from proofs.prover.exact import TranscendentalError
from proofs.references.numbers import ArbNumbers, MpNumbers

Integrand = Callable[[Any], Any]


class ArbContext(ArbNumbers):
    """Arb balls at the precision that is set; an integral is enclosed too."""

    name = "arb"

    @property
    def bits(self) -> int:
        return flint.ctx.prec

    @staticmethod
    def phi1(x: flint.arb) -> flint.arb:
        """(eˣ − 1)/x; |φ₁(x) − 1| ≤ |x| on [−1, 1] where the ball meets zero."""
        if x.contains(0) and abs(x) < 1:
            return flint.arb(1, abs(x).abs_upper())
        return x.expm1() / x

    @staticmethod
    def phi2(x: flint.arb) -> flint.arb:
        """(eˣ − 1 − x)/x²; |φ₂(x) − ½| ≤ |x| on [−1, 1] where the ball meets zero."""
        if x.contains(0) and abs(x) < 1:
            return flint.arb(0.5, abs(x).abs_upper())
        return (x.expm1() - x) / (x * x)

    @staticmethod
    def integrate(integrand: Integrand, lower: Any, upper: Any) -> flint.acb:
        """∫ of an analytic integrand; complex, since the argument may be.

        An integrand that is itself a wide ball, as inside another integral over a wide region, gets one
        evaluation on the whole interval: quadrature could not make it narrower.
        """
        middle = flint.acb(integrand((lower + upper) / 2))
        if min(x.rel_one_accuracy_bits() for x in (middle.real, middle.imag)) < flint.ctx.prec // 4:
            return flint.acb(integrand(flint.acb(lower.union(upper)))) * (upper - lower)
        return flint.acb.integral(lambda x, _: flint.acb(integrand(x)), lower, upper)

    @staticmethod
    def real_part(x: Any) -> Any:
        return x.real if isinstance(x, flint.acb) else x

    @staticmethod
    def widen(x: flint.arb, exponent: int) -> flint.arb:
        """The number with an error of at most 2^exponent."""
        return x + flint.arb(0, flint.arb(2) ** exponent)


class MpContext(MpNumbers):
    """mpmath numbers: nothing is enclosed, and all formulas are evaluated by other code than Arb's."""

    name = "mpmath"

    @property
    def bits(self) -> int:
        return self._context.prec

    def phi1(self, x: Any) -> Any:
        """(eˣ − 1)/x, and 1 at zero."""
        return self._context.expm1(x) / x if x else self._context.mpf(1)

    def phi2(self, x: Any) -> Any:
        """(eˣ − 1 − x)/x² with the digits that the difference loses, and ½ at zero."""
        if not x:
            return self._context.mpf(0.5)
        with self._context.extraprec(2 * max(0, -self._context.mag(x)) + 8):
            return (self._context.expm1(x) - x) / (x * x)

    def integrate(self, integrand: Integrand, lower: Any, upper: Any) -> Any:
        """∫ by Gauss–Legendre quadrature."""
        return self._context.quad(integrand, [lower, upper], method="gauss-legendre")

    @staticmethod
    def real_part(x: Any) -> Any:
        return x

    @staticmethod
    def widen(x: Any, exponent: int) -> Any:
        return x


class RationalContext:
    """Fractions; a value that is not rational is refused."""

    name = "rational"
    bits = 0

    @staticmethod
    def real(x: float) -> Fraction:
        return Fraction(x)

    @staticmethod
    def maximum(x: Fraction, y: Fraction) -> Fraction:
        return max(x, y)

    @staticmethod
    def real_part(x: Any) -> Any:
        return x

    def exp(self, x: Fraction) -> Fraction:
        return self._special("exp", x, 0, 1)

    def log(self, x: Fraction) -> Fraction:
        return self._special("log", x, 1, 0)

    def sin(self, x: Fraction) -> Fraction:
        return self._special("sin", x, 0, 0)

    def cos(self, x: Fraction) -> Fraction:
        return self._special("cos", x, 0, 1)

    def _special(self, name: str, x: Fraction, place: int, value: int) -> Fraction:
        if x != place:
            raise TranscendentalError(f"{name} of {x} is not rational")
        return Fraction(value)
