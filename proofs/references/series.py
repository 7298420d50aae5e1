"""Truncated Taylor series in a few small variables, over numbers of any context.

A derivative is a coefficient of such a series, so that it needs no difference quotient: a definition is
evaluated once on series in place of numbers. A function of a series is its own Taylor series about the
constant term, which is finite because the rest of the series is nilpotent.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

Orders = tuple[int, ...]


class PowerSeries:
    """Coefficients by exponents, one for each variable, each up to the variable's order."""

    __slots__ = ("orders", "terms")

    def __init__(self, orders: Orders, terms: dict[Orders, Any]) -> None:
        self.orders, self.terms = orders, terms

    @property
    def constant(self) -> Any:
        """The coefficient of order zero."""
        return self.coefficient(*(0 for _ in self.orders))

    def coefficient(self, *exponents: int) -> Any:
        """One coefficient; zero is the integer 0 where no term has these exponents."""
        return self.terms.get(exponents, 0)

    def derivative(self, *exponents: int) -> Any:
        """The partial derivative at the centre: the coefficient times the factorials."""
        return self.coefficient(*exponents) * math.prod(map(math.factorial, exponents))

    def compose(self, taylor: Sequence[Any]) -> "PowerSeries":
        """Σ_k taylor[k]·(x − x₀)^k, x₀ the constant term."""
        rest = PowerSeries(self.orders, {e: c for e, c in self.terms.items() if any(e)})
        result = PowerSeries(self.orders, {})
        for coefficient in reversed(taylor):
            result = result * rest + coefficient
        return result

    def __add__(self, other: Any) -> "PowerSeries":
        terms = dict(self.terms)
        for exponents, coefficient in self._terms_of(other).items():
            terms[exponents] = terms[exponents] + coefficient if exponents in terms else coefficient
        return PowerSeries(self.orders, terms)

    __radd__ = __add__

    def __neg__(self) -> "PowerSeries":
        return PowerSeries(self.orders, {e: -c for e, c in self.terms.items()})

    def __sub__(self, other: Any) -> "PowerSeries":
        return self + -other

    def __rsub__(self, other: Any) -> "PowerSeries":
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if hasattr(other, "rows"):  # a matrix multiplies its entries itself
            return NotImplemented
        terms: dict[Orders, Any] = {}
        for left, a in self.terms.items():
            for right, b in self._terms_of(other).items():
                place = tuple(i + j for i, j in zip(left, right, strict=True))
                if all(i <= order for i, order in zip(place, self.orders, strict=True)):
                    terms[place] = terms[place] + a * b if place in terms else a * b
        return PowerSeries(self.orders, terms)

    __rmul__ = __mul__

    def __pow__(self, exponent: int) -> "PowerSeries":
        power: Any = PowerSeries(self.orders, {}) + 1
        for _ in range(abs(exponent)):
            power = power * self
        return power if exponent >= 0 else 1 / power

    def __truediv__(self, other: Any) -> "PowerSeries":
        if isinstance(other, PowerSeries):
            return self * (1 / other)
        return PowerSeries(self.orders, {e: c / other for e, c in self.terms.items()})

    def __rtruediv__(self, other: Any) -> "PowerSeries":
        centre = self.constant
        taylor = [1 / centre]
        for _ in range(sum(self.orders)):
            taylor.append(-taylor[-1] / centre)
        return self.compose(taylor) * other

    def _terms_of(self, other: Any) -> dict[Orders, Any]:
        if not isinstance(other, PowerSeries):
            return {tuple(0 for _ in self.orders): other}
        if other.orders != self.orders:
            raise ValueError(
                f"series of one computation need the same orders; got {self.orders} and "
                f"{other.orders}. Make all variables in one call of `variables`."
            )
        return other.terms


def variables(centres: Sequence[Any], orders: Sequence[int]) -> list[PowerSeries]:
    """One series x₀ + x for each variable, cut off at the order of each."""
    limits, series = tuple(orders), []
    for place, centre in enumerate(centres):
        unit = tuple(int(i == place) for i in range(len(limits)))
        series.append(PowerSeries(limits, {tuple(0 for _ in limits): centre, unit: 1}))
    return series


class SeriesNumbers:
    """A number context whose functions also take series."""

    def __init__(self, num: Any) -> None:
        self.num = num
        self.real = num.real

    def exp(self, x: Any) -> Any:
        if not isinstance(x, PowerSeries):
            return self.num.exp(x)
        value = self.num.exp(x.constant)
        return x.compose(self._taylor(x, lambda order: value))

    def log(self, x: Any) -> Any:
        if not isinstance(x, PowerSeries):
            return self.num.log(x)
        rest = x / x.constant - 1  # log x = log x₀ + Σ (−1)^{k+1} (x/x₀ − 1)^k/k
        taylor = [self.num.log(x.constant)]
        for k in range(1, sum(x.orders) + 1):
            taylor.append(self.real((-1) ** (k + 1)) / k)
        return rest.compose(taylor)

    def sin(self, x: Any) -> Any:
        return self._circular(x, 0)

    def cos(self, x: Any) -> Any:
        return self._circular(x, 1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.num, name)

    def _circular(self, x: Any, first: int) -> Any:
        """Sine at `first` 0, cosine at 1: the derivatives are the next in the cycle."""
        if not isinstance(x, PowerSeries):
            return (self.num.sin, self.num.cos)[first](x)
        sine, cosine = self.num.sin(x.constant), self.num.cos(x.constant)
        cycle = (sine, cosine, -sine, -cosine)
        return x.compose(self._taylor(x, lambda order: cycle[(first + order) % 4]))

    def _taylor(self, x: PowerSeries, derivative: Callable[[int], Any]) -> list[Any]:
        orders = range(sum(x.orders) + 1)
        return [derivative(order) / self.real(math.factorial(order)) for order in orders]
