"""Numbers for the exact models: rational matrices, and one evaluator over two number contexts.

`Exact` works in rationals and refuses a transcendental value; `IntervalArithmetic` works in 200-bit
intervals, where two values are compared by whether zero lies in the difference. There is no
tolerance in either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import sympy as sp
from mpmath.ctx_iv import MPIntervalContext

from proofs.prover.syntax import Index, Letter, S


class TranscendentalError(ValueError):
    """A value that is not rational was met in exact arithmetic."""


class Matrix:
    """A small dense matrix; a number added to it counts as that multiple of the identity."""

    def __init__(self, rows: Sequence[Sequence[Any]]) -> None:
        self.rows = tuple(tuple(row) for row in rows)

    @classmethod
    def scalar(cls, value: Any, size: int) -> Matrix:
        return cls([[value if i == j else value * 0 for j in range(size)] for i in range(size)])

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.rows[0])

    @property
    def transpose(self) -> Matrix:
        return Matrix(list(zip(*self.rows, strict=True)))

    def entries(self) -> list[Any]:
        return [entry for row in self.rows for entry in row]

    def __add__(self, other: Any) -> Matrix:
        if not isinstance(other, Matrix):
            if other == 0:  # zero is a matrix of every shape
                return self
            other = Matrix.scalar(other, self.shape[0])
        if self.shape != other.shape:
            raise ValueError(f"cannot add matrices of shapes {self.shape} and {other.shape}")
        pairs = zip(self.rows, other.rows, strict=True)
        return Matrix([[a + b for a, b in zip(*pair, strict=True)] for pair in pairs])

    __radd__ = __add__

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, Matrix):
            return Matrix([[entry * other for entry in row] for row in self.rows])
        if self.shape[1] != other.shape[0]:
            raise ValueError(f"cannot multiply matrices of shapes {self.shape} and {other.shape}")
        columns = other.transpose.rows
        return Matrix(
            [
                [sum(a * b for a, b in zip(row, col, strict=True)) for col in columns]
                for row in self.rows
            ]
        )

    __rmul__ = __mul__

    def __pow__(self, exponent: int) -> Matrix:
        power = Matrix.scalar(self.rows[0][0] * 0 + 1, self.shape[0])
        for _ in range(exponent):
            if not any(power.entries()):  # a power of a nilpotent matrix stays zero
                break
            power = power * self
        return power

    def inverse(self) -> Matrix:
        """By Gauss–Jordan elimination in exact arithmetic."""
        size = self.shape[0]
        rows = [[*row, *(Fraction(i == j) for j in range(size))] for i, row in enumerate(self.rows)]
        for k in range(size):
            pivot = next((i for i in range(k, size) if rows[i][k] != 0), None)
            if pivot is None:
                raise ZeroDivisionError("the matrix is singular")
            rows[k], rows[pivot] = rows[pivot], rows[k]
            rows[k] = [entry / rows[k][k] for entry in rows[k]]
            for i in range(size):
                if i != k:
                    rows[i] = [a - rows[i][k] * b for a, b in zip(rows[i], rows[k], strict=True)]
        return Matrix([row[size:] for row in rows])


class Exact:
    """Rational numbers."""

    name = "exact"

    def number(self, value: Fraction) -> Any:
        return value

    def apply(self, function: type, value: Any) -> Any:
        if function is sp.Abs:
            return abs(value)
        if function is sp.factorial:
            return Fraction(math.factorial(int(value)))
        special = {sp.exp: (0, 1), sp.sin: (0, 0), sp.cos: (0, 1), sp.log: (1, 0)}
        if function in special and special[function][0] == value:
            return Fraction(special[function][1])
        raise TranscendentalError(f"{function.__name__} of {value} is not rational")

    def is_zero(self, value: Any) -> bool:
        return value == 0


class IntervalArithmetic:
    """Intervals of 200 bits: `is_zero` says that zero is not excluded."""

    name = "interval"

    def __init__(self) -> None:
        self._context = MPIntervalContext()
        self._context.prec = 200

    def number(self, value: Fraction) -> Any:
        numerator: Any = self._context.mpf(value.numerator)
        return numerator / value.denominator

    def apply(self, function: type, value: Any) -> Any:
        names = {sp.exp: "exp", sp.sin: "sin", sp.cos: "cos", sp.log: "log"}
        if function not in names:
            raise ValueError(f"no interval version of {function.__name__}")
        return getattr(self._context, names[function])(value)

    def is_zero(self, value: Any) -> bool:
        return 0 in value


Context = Exact | IntervalArithmetic


def evaluate(
    expr: sp.Basic,
    values: Callable[[sp.Basic], Any],
    context: Context,
    size: int,
    local: Mapping[sp.Basic, Any] | None = None,
) -> Any:
    """The value of a tree; `values` gives a symbol its value, a list of `size` for an index.

    `local` binds the running index (under the key None → j) and summation variables.
    """
    local = local or {}

    def number(value: Any) -> Any:
        if isinstance(value, Matrix):
            return Matrix([[context.number(entry) for entry in row] for row in value.rows])
        return context.number(value)

    def go(node: sp.Basic, bound: Mapping[sp.Basic, Any]) -> Any:
        if isinstance(node, sp.Rational):
            return context.number(Fraction(int(node.p), int(node.q)))
        if node in bound:
            return bound[node]
        if isinstance(node, sp.Symbol):
            value = values(node)
            if isinstance(node, Index) or (isinstance(node, Letter) and node.indexed):
                value = value[bound[RUNNING]]
            return number(value)
        if isinstance(node, S):
            terms = [go(node.args[0], {**bound, RUNNING: j}) for j in range(size)]
            return _total(terms)
        if isinstance(node, sp.Sum):
            ((variable, first, _),) = node.limits
            # The matrix of a series model is nilpotent of this order: later terms vanish.
            orders = range(int(first), min(size, NILPOTENT) + 2)
            return _total([go(node.function, {**bound, variable: Fraction(n)}) for n in orders])
        if isinstance(node, sp.Add):
            return _total([go(arg, bound) for arg in node.args])
        if isinstance(node, sp.Mul):
            return _product([go(arg, bound) for arg in node.args])
        if node is sp.E:
            return context.apply(sp.exp, context.number(Fraction(1)))
        if isinstance(node, sp.Pow):
            return _power(go(node.base, bound), go(node.exp, bound), context)
        if isinstance(node, sp.Function):
            return context.apply(type(node), go(node.args[0], bound))
        raise ValueError(f"cannot evaluate {type(node).__name__}: {node}")

    return go(expr, local)


RUNNING = sp.Symbol("running index")
# The largest order of a nilpotent matrix in a series model.
NILPOTENT = 7


def _product(factors: list[Any]) -> Any:
    # Numbers commute with everything; an interval cannot multiply a matrix from the left.
    product: Any = 1
    for factor in factors:
        if isinstance(factor, Matrix) and not isinstance(product, Matrix):
            product = factor * product
        else:
            product = product * factor
    return product


def _total(terms: list[Any]) -> Any:
    matrices = [term for term in terms if isinstance(term, Matrix)]
    numbers = [term for term in terms if not isinstance(term, Matrix)]
    total = matrices[0] if matrices else None
    for term in [*matrices[1:], *numbers]:
        total = term if total is None else total + term
    return total


def _power(base: Any, exponent: Any, context: Context) -> Any:
    if not isinstance(exponent, Fraction):
        # In interval arithmetic an integer exponent arrives as a degenerate interval.
        exponent = Fraction(int(exponent.mid))
    if exponent.denominator != 1:
        raise TranscendentalError(f"{base} to the power {exponent} is not rational")
    power = int(exponent)
    if isinstance(base, Matrix) or power >= 0:
        return base**power
    if context.is_zero(base):
        raise ZeroDivisionError("a denominator is zero")
    return 1 / base**-power
