"""Number contexts: one text of a reference, evaluated by mpmath and by Arb balls.

A reference takes a context `num` as its first argument and uses only its functions and the ordinary
operators, so that the same text runs on mpmath numbers and on Arb balls. Arb proves how many bits are
right and is made to raise its precision until they suffice; mpmath, at the precision Arb needed, is
the independent second opinion. No global precision survives a call.
"""

import functools
import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import flint
import mpmath

# Far more than float64 holds: the reference's own error must be nothing even beside a rounding error.
PROVEN_BITS = 100
# A ball this small around zero is taken for zero: it lies far below the smallest float64.
_NEGLIGIBLE_EXPONENT = -1200
# A radius this small beside a bound cannot turn a sound value into a violation.
_SHARPNESS = 2.0**-44
FIRST_PRECISION = 128
LAST_PRECISION = 1 << 15


class UnprovenError(ArithmeticError):
    """Arb could not prove enough bits within the largest precision."""


class ArbNumbers:
    """Arb balls at the precision set by `arb_precision`."""

    @staticmethod
    def real(x: float) -> flint.arb:
        """The float, exactly."""
        return flint.arb(x)

    @staticmethod
    def exp(x: flint.arb) -> flint.arb:
        return x.exp()

    @staticmethod
    def log(x: flint.arb) -> flint.arb:
        return x.log()

    @staticmethod
    def sin(x: flint.arb) -> flint.arb:
        return x.sin()

    @staticmethod
    def cos(x: flint.arb) -> flint.arb:
        return x.cos()

    @staticmethod
    def sqrt(x: flint.arb) -> flint.arb:
        return x.sqrt()

    @staticmethod
    def maximum(x: flint.arb, y: flint.arb) -> flint.arb:
        """The larger of two balls."""
        return x.max(y)


class MpNumbers:
    """mpmath numbers in a context of their own, so that no global precision is touched."""

    def __init__(self, bits: int) -> None:
        self._context = mpmath.MPContext()
        self._context.prec = bits

    def real(self, x: float) -> Any:
        """The float, exactly."""
        return self._context.mpf(x)

    def exp(self, x: Any) -> Any:
        return self._context.exp(x)

    def log(self, x: Any) -> Any:
        return self._context.log(x)

    def sin(self, x: Any) -> Any:
        return self._context.sin(x)

    def cos(self, x: Any) -> Any:
        return self._context.cos(x)

    def sqrt(self, x: Any) -> Any:
        return self._context.sqrt(x)

    @staticmethod
    def maximum(x: Any, y: Any) -> Any:
        """The larger of two numbers."""
        return max(x, y)


@contextmanager
def arb_precision(bits: int) -> Iterator[None]:
    """Set Arb's working precision for the block and restore it."""
    before = flint.ctx.prec
    flint.ctx.prec = bits
    try:
        yield
    finally:
        flint.ctx.prec = before


def prove(
    reference: Callable[..., Any], arguments: dict[str, Any], bounds: list[float] | None = None
) -> tuple[list[flint.arb], int]:
    """Evaluate a reference in balls until they are small enough; return them and the precision.

    Every ball must have PROVEN_BITS bits and, where `bounds` are given, a radius that is nothing
    beside its bound, so that an error can be told from the reference's own uncertainty.
    """
    exact = as_numbers(ArbNumbers.real, own_arguments(reference, arguments))
    bits, balls = FIRST_PRECISION, []
    while bits <= LAST_PRECISION:
        with arb_precision(bits):
            balls = flatten(reference(ArbNumbers, **exact))
            if bounds is not None and len(bounds) != len(balls):
                raise ValueError(
                    f"{len(bounds)} numbers were computed, the reference has {len(balls)}"
                )
            if all(map(is_proven, balls, bounds or [0.0] * len(balls))):
                return balls, bits
        bits *= 4
    raise UnprovenError(
        f"{reference.__module__}.{reference.__qualname__} has fewer than {PROVEN_BITS} proven bits at "
        f"{LAST_PRECISION} bits of working precision: {[str(ball) for ball in balls][:4]}"
    )


def second_opinion(
    reference: Callable[..., Any], arguments: dict[str, Any], bits: int
) -> list[Any]:
    """Evaluate the same reference with mpmath at the given precision, and never below 50 digits."""
    numbers = MpNumbers(max(bits, math.ceil(50 * math.log2(10))))
    arguments = own_arguments(reference, arguments)
    return flatten(reference(numbers, **as_numbers(numbers.real, arguments)))


def agree(balls: list[flint.arb], opinions: list[Any]) -> bool:
    """Whether mpmath's numbers match the balls to PROVEN_BITS − 4 bits (or both are negligible)."""
    with arb_precision(2 * FIRST_PRECISION):
        return all(_close(ball, to_ball(mp)) for ball, mp in zip(balls, opinions, strict=True))


def distance(value: float, ball: flint.arb) -> float:
    """An upper bound of |value − exact| as a float; zero where the ball contains the value.

    A ball around zero below the smallest float counts as zero, and a ball's own radius lies
    PROVEN_BITS below its value: neither is charged to the computation.
    """
    if not math.isfinite(value):
        return math.inf
    with arb_precision(LAST_PRECISION):
        exact = flint.arb(0) if is_negligible(ball) else ball
        if exact.contains(flint.arb(value)):
            return 0.0
        gap = abs(flint.arb(value) - exact)
        return math.nextafter(float(gap.mid()), math.inf) + float(gap.rad())


def own_arguments(reference: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments that a reference reads: one that ends in `**_` says that it ignores the rest."""
    names = _read_by(reference)
    return arguments if names is None else {name: arguments[name] for name in names}


@functools.cache
def _read_by(reference: Callable[..., Any]) -> tuple[str, ...] | None:
    *names, rest = inspect.signature(reference).parameters
    return tuple(names[1:]) if rest == "_" else None


def as_numbers(real: Callable[[float], Any], tree: Any) -> Any:
    """Floats in a tree of lists and dicts made numbers of a context; everything else is left alone.

    The entries of a list are of one kind.
    """
    if isinstance(tree, dict):
        return {key: as_numbers(real, item) for key, item in tree.items()}
    if not isinstance(tree, list):
        return real(tree) if isinstance(tree, float) else tree
    if tree and isinstance(tree[0], list):
        return [as_numbers(real, item) for item in tree]
    return list(map(real, tree)) if tree and isinstance(tree[0], float) else tree


def flatten(tree: Any) -> list[Any]:
    """The numbers of a nested list, in row-major order."""
    if isinstance(tree, list | tuple):
        return [number for item in tree for number in flatten(item)]
    return [tree]


def is_proven(ball: flint.arb, bound: float = 0.0) -> bool:
    """Whether a ball has PROVEN_BITS bits, or is negligible, and is sharp beside a bound."""
    if not ball.is_finite():
        return False
    if is_negligible(ball):
        return True
    sharp = (
        bound == 0 or not math.isfinite(bound) or bool(ball.rad() < flint.arb(bound) * _SHARPNESS)
    )
    return sharp and ball.rel_accuracy_bits() >= PROVEN_BITS


def is_negligible(ball: flint.arb) -> bool:
    """Whether a ball lies so close to zero that it counts as zero."""
    return bool(abs(ball) < flint.arb(2) ** _NEGLIGIBLE_EXPONENT)


def _close(ball: flint.arb, other: flint.arb) -> bool:
    if is_negligible(ball) and is_negligible(other):
        return True
    return bool(abs(ball - other) <= abs(ball) * flint.arb(2) ** (4 - PROVEN_BITS))


def to_ball(number: Any) -> flint.arb:
    """An mpmath number as a ball, exactly, however large its exponent."""
    sign, mantissa, exponent, _ = number._mpf_
    return flint.arb(((-1) ** sign * int(mantissa), int(exponent)))
