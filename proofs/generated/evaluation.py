"""The value of one side of a statement: a walk over its tree, in the numbers of a context.

Sums S run over the keys of the case, matrices are small dense ones, a derivative is a coefficient of a
power series, an integral is a quadrature (enclosed in Arb) and an infinite sum is cut off where its
tail is nothing. What a symbol stands for is the environment's to say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

import sympy as sp
from sympy.core.function import AppliedUndef

from proofs.prover.exact import Matrix
from proofs.prover.syntax import Index, Letter, S
from proofs.references.series import PowerSeries, variables

phi1, phi2 = sp.Function("phi1"), sp.Function("phi2")
# The key of the running index among the bound variables.
RUNNING = sp.Symbol("running index")
# Bits beyond the working precision at which an infinite sum is cut off.
_GUARD = 64
Bound = Mapping[sp.Basic, Any]


class Symbols(Protocol):
    """What an evaluation needs: a context that takes series, the number of keys, values of symbols."""

    num: Any
    size: int

    def __getitem__(self, symbol: Any, /) -> Any: ...


def evaluate(expr: sp.Basic, symbols: Symbols) -> Any:
    """The value of an expression, a list over the keys where an index occurs free in it."""
    walk = _Walk(symbols)
    if runs_free(expr):
        return [walk(expr, {RUNNING: j}) for j in range(symbols.size)]
    return walk(expr, {})


def runs_free(expr: sp.Basic) -> bool:
    """Whether something that belongs to every key occurs outside all sums."""
    if isinstance(expr, Index) or (isinstance(expr, Letter) and expr.indexed):
        return True
    return not isinstance(expr, S) and any(runs_free(arg) for arg in expr.args)


class _Walk:
    """One evaluation; sums that hold no bound variable are computed once."""

    def __init__(self, symbols: Symbols) -> None:
        self.symbols, self.num = symbols, symbols.num
        self._sums: dict[sp.Basic, Any] = {}
        num = self.num
        self._functions: dict[Any, Callable[..., Any]] = {
            sp.exp: num.exp,
            sp.log: num.log,
            sp.sin: num.sin,
            sp.cos: num.cos,
            sp.Abs: abs,
            sp.Max: num.maximum,
            phi1: lambda x: num.phi1(x),
            phi2: lambda x: num.phi2(x),
        }

    def __call__(self, node: sp.Basic, bound: Bound) -> Any:
        if node in bound:
            return bound[node]
        if isinstance(node, sp.Rational):
            whole = self.num.real(int(node.p))
            return whole if node.q == 1 else whole / self.num.real(int(node.q))
        if isinstance(node, sp.Symbol):
            value = self.symbols[node]
            is_listed = isinstance(node, Index) or (isinstance(node, Letter) and node.indexed)
            return value[bound[RUNNING]] if is_listed else value
        if node is sp.E:
            return self.num.exp(self.num.real(1))
        for kind, method in _METHODS.items():
            if isinstance(node, kind):
                return method(self, node, bound)
        raise ValueError(f"no way to evaluate {type(node).__name__}: {node}")

    def _sum(self, node: S, bound: Bound) -> Any:
        is_fixed = not any(name in bound for name in node.free_symbols)
        if is_fixed and node in self._sums:
            return self._sums[node]
        keys = range(self.symbols.size)
        total = _total([self(node.args[0], {**bound, RUNNING: j}) for j in keys])
        if is_fixed:
            self._sums[node] = total
        return total

    def _add(self, node: sp.Add, bound: Bound) -> Any:
        return _total([self(arg, bound) for arg in node.args])

    def _mul(self, node: sp.Mul, bound: Bound) -> Any:
        product = self(node.args[0], bound)
        for arg in node.args[1:]:
            factor = self(arg, bound)
            # Numbers commute with everything, and not every number can have a matrix to its right.
            is_turned = isinstance(factor, Matrix) and not isinstance(product, Matrix)
            product = factor * product if is_turned else product * factor
        return product

    def _power(self, node: sp.Pow, bound: Bound) -> Any:
        if not isinstance(node.exp, sp.Integer):
            raise ValueError(f"an exponent must be an integer; got {node}")
        base, power = self(node.base, bound), int(node.exp)
        if isinstance(base, Matrix):
            return base**power
        # python-flint raises a ball that meets zero to a power by its logarithm, which is no number.
        product = math.prod([base] * abs(power))
        return product if power >= 0 else 1 / product

    def _function(self, node: sp.Function, bound: Bound) -> Any:
        arguments = [self(arg, bound) for arg in node.args]
        if node.func in self._functions:
            return self._functions[node.func](*arguments)
        if isinstance(node, AppliedUndef):
            return self.symbols[node.func](*arguments)
        raise ValueError(f"no way to evaluate the function {node.func}")

    def _substitution(self, node: sp.Subs, bound: Bound) -> Any:
        points = {name: self(point, bound) for name, point in zip(*node.args[1:], strict=True)}
        return self(node.expr, {**bound, **points})

    def _derivative(self, node: sp.Derivative, bound: Bound) -> Any:
        names = [pair.args[0] for pair in node.variable_count]
        orders = [int(cast("Any", pair.args[1])) for pair in node.variable_count]
        series = variables([self(name, bound) for name in names], orders)
        value = self(node.expr, {**bound, **dict(zip(names, series, strict=True))})
        return _entrywise(lambda x: _derivative(x, orders), value)

    def _integral(self, node: sp.Integral, bound: Bound) -> Any:
        limits = list(node.limits)

        def inner(depth: int, local: Bound, place: tuple[int, int] | None) -> Any:
            if depth < 0:
                value = self(node.function, local)
                return value if place is None else value.rows[place[0]][place[1]]
            name, lower, upper = limits[depth].args
            ends = self(lower, local), self(upper, local)
            return self.num.integrate(lambda x: inner(depth - 1, {**local, name: x}, place), *ends)

        def outer(place: tuple[int, int] | None = None) -> Any:
            return self.num.real_part(inner(len(limits) - 1, bound, place))

        start = {limit.args[0]: self(limit.args[1], bound) for limit in limits}
        sample = self(node.function, {**bound, **start})
        if not isinstance(sample, Matrix):
            return outer()
        rows, columns = (range(size) for size in sample.shape)
        return Matrix([[outer((i, j)) for j in columns] for i in rows])

    def _series(self, node: sp.Sum, bound: Bound) -> Any:
        """Σ_n coefficient(n)·Bⁿ over all n ≥ first, for coefficients of at most 1/(n − 1)!."""
        ((name, first, last),) = node.limits
        if last != sp.oo:
            raise ValueError(f"an infinite sum must run to infinity; got {node}")
        (matrix,) = node.function.free_symbols - {name}
        norm = 1 + sum(float(abs(x)) for x in self(matrix, bound).entries())
        order, terms, tail = int(first), [], 0.0
        while order < 2 * norm + 2 or tail > -self.num.bits - _GUARD:
            term = node.function.xreplace({name: sp.Integer(order)})
            terms.append(self(term, bound))
            coefficient = cast("sp.Rational", term.xreplace({matrix: sp.Integer(1)}))
            if coefficient * math.factorial(max(order, 1) - 1) > 1:
                raise ValueError(f"the coefficients of {node} must be at most 1/(n − 1)!")
            order += 1
            # log₂ of twice the first term left out: from there on terms at least halve.
            tail = 1 + (order * math.log(norm) - math.lgamma(order)) / math.log(2)
        return _entrywise(lambda x: self.num.widen(x, math.ceil(tail)), _total(terms))


_METHODS: dict[type, Callable[..., Any]] = {
    S: _Walk._sum,
    sp.Add: _Walk._add,
    sp.Mul: _Walk._mul,
    sp.Pow: _Walk._power,
    sp.Subs: _Walk._substitution,
    sp.Derivative: _Walk._derivative,
    sp.Integral: _Walk._integral,
    sp.Sum: _Walk._series,
    sp.Function: _Walk._function,
    sp.Max: _Walk._function,
}


def _derivative(value: Any, orders: list[int]) -> Any:
    return value.derivative(*orders) if isinstance(value, PowerSeries) else value * 0


def _entrywise(function: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, Matrix):
        return Matrix([[function(entry) for entry in row] for row in value.rows])
    return function(value)


def _total(terms: list[Any]) -> Any:
    # A number beside matrices is a multiple of the identity; it can only be added from the right.
    ordered = sorted(terms, key=lambda term: not isinstance(term, Matrix))
    total = ordered[0]
    for term in ordered[1:]:
        total = total + term
    return total
