"""Every statement again, in exact rational arithmetic at N in {1, 2, 3, 7, 64}.

A model is built from definitions: free symbols are drawn by their sort from a seeded generator,
the others are computed as the statement's `model` defines them. The hypotheses must hold exactly,
the denominators must not vanish and the facts must be non-negative, so that a vacuous or wrongly
encoded hypothesis is caught; then the two sides are compared. Where a value is transcendental the
comparison is made in 200-bit intervals and named so.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import sympy as sp
from sympy.core.function import AppliedUndef, UndefinedFunction

from proofs.prover.exact import (
    RUNNING,
    Context,
    Exact,
    IntervalArithmetic,
    Matrix,
    TranscendentalError,
    evaluate,
)
from proofs.prover.statements import Statement
from proofs.prover.sums import substitute
from proofs.prover.syntax import Index, Letter, S, is_indexed

SIZES = (1, 2, 3, 7, 64)


class ModelError(ValueError):
    """A hypothesis, denominator or fact of a statement fails in its own model."""


@dataclass(frozen=True)
class Instance:
    """One statement at one N: whether it held, and in which arithmetic."""

    name: str
    size: int
    ok: bool
    arithmetic: str
    detail: str = ""


class Environment:
    """Values of the symbols of one statement at one N; drawn or computed at first use."""

    def __init__(self, statement: Statement, size: int) -> None:
        self.size = size
        self._definitions = dict(statement.model)
        self._seed = f"{statement.name}|{size}"
        self._values: dict[Any, Any] = {}

    def __getitem__(self, symbol: Any) -> Any:
        if symbol not in self._values:
            value = self._make(symbol)
            self._refuse_wrong_sign(symbol, value)
            self._values[symbol] = value
        return self._values[symbol]

    def dimension(self, name: str) -> int:
        """Different small dimensions, so that a wrong shape cannot go unnoticed.

        m is the input width, m+1 the augmented one, d the head width and r the value width.
        """
        least = min(self.size, 3)
        return {"1": 1, "d": least, "m": least + 1, "m+1": least + 2, "r": least + 3}[name]

    def evaluate(self, expr: sp.Expr, context: Context | None = None) -> Any:
        """The value of `expr`, a list over j when an index occurs free in it."""
        context = context or Exact()
        tree = self._concrete(expr)
        if is_indexed(tree) or any(letter.indexed for letter in _free_letters(tree)):
            return [
                evaluate(tree, self.__getitem__, context, self.size, {RUNNING: j})
                for j in range(self.size)
            ]
        return evaluate(tree, self.__getitem__, context, self.size)

    def _refuse_wrong_sign(self, symbol: Any, value: Any) -> None:
        # A symbol declared positive is used as such by the proofs.
        if not (isinstance(symbol, sp.Symbol) and symbol.is_nonnegative):
            return
        if any(entry < 0 or (symbol.is_positive and entry == 0) for entry in _flat(value)):
            raise ModelError(f"{self._seed}: {symbol} has the wrong sign in the model")

    def _make(self, symbol: Any) -> Any:
        # Seeding by symbol makes a value independent of the order in which values are asked for.
        generator = random.Random(f"{self._seed}|{symbol}")
        definition = self._definitions.get(symbol)
        if isinstance(definition, sp.Expr):
            value = self.evaluate(definition)
            if isinstance(symbol, Index) and not isinstance(value, list):
                return [value] * self.size
            return value
        if definition is not None:
            return definition(self, generator)
        return draw(symbol, self, generator)

    def _concrete(self, expr: sp.Expr) -> sp.Expr:
        """Write out sums under derivatives and integrals, then carry these out."""
        for function in expr.atoms(AppliedUndef):
            expr = cast("sp.Expr", expr.replace(function.func, self[function.func]))
        if not expr.has(sp.Derivative, sp.Subs, sp.Integral):
            return expr
        if expr.has(sp.Integral):
            # With a number in place of the parameter there is one case, not a Piecewise.
            free = {s: self[s] for s in expr.free_symbols if not isinstance(s, Index)}
            numbers = {s: value for s, value in free.items() if isinstance(value, Fraction)}
            expr = substitute(expr, {s: sp.Rational(value) for s, value in numbers.items()})

        def written_out(node: S) -> sp.Expr:
            body = cast("sp.Expr", node.args[0])
            indices = body.atoms(Index)
            return sp.Add(
                *(
                    substitute(body, {i: sp.Rational(self[i][j]) for i in indices})
                    for j in range(self.size)
                )
            )

        expression = expr.replace(lambda node: isinstance(node, S), written_out)
        return cast("sp.Expr", expression.doit())


def draw(symbol: Any, env: Environment, generator: random.Random) -> Any:
    """A free value by sort: a number, a list over j, an indicator, a matrix."""
    if isinstance(symbol, Letter):
        shape = tuple(env.dimension(name) for name in symbol.shape)
        if symbol.indexed:
            return [random_matrix(generator, shape) for _ in range(env.size)]
        return random_matrix(generator, shape)
    if isinstance(symbol, Index):
        if symbol.idempotent:
            return [Fraction(generator.randint(0, 1)) for _ in range(env.size)]
        return [_number(generator, positive=bool(symbol.is_nonnegative)) for _ in range(env.size)]
    if isinstance(symbol, UndefinedFunction):
        raise ModelError(f"the model must say what the function {symbol} is")
    return _number(generator, positive=bool(symbol.is_nonnegative))


def random_matrix(generator: random.Random, shape: tuple[int, ...]) -> Matrix:
    """A matrix of small non-zero rationals."""
    rows, cols = shape
    return Matrix([[_number(generator) for _ in range(cols)] for _ in range(rows)])


def _number(generator: random.Random, *, positive: bool = False) -> Fraction:
    value = Fraction(generator.randint(1, 9), generator.randint(1, 7))
    return value if positive or generator.random() < 0.5 else -value


def instantiate(statement: Statement) -> Iterator[Instance]:
    """The statement at every admissible size."""
    for size in SIZES:
        if size >= statement.smallest:
            yield check(statement, size)


def check(statement: Statement, size: int) -> Instance:
    """Assumptions first, then the statement itself; a broken assumption raises ModelError."""
    env = Environment(statement, size)
    context = _with_context(lambda context: _check_assumptions(statement, env, context))[0]
    ok, arithmetic = _compare(statement, env)
    detail = "" if ok else f"fails at N = {size}: {statement}"
    return Instance(statement.name, size, ok, max(arithmetic, context), detail)


def holds(statement: Statement, sizes: tuple[int, ...]) -> bool:
    """Whether the statement survives at these sizes, its assumptions taken for granted."""
    return all(_compare(statement, Environment(statement, size))[0] for size in sizes)


def mutant(statement: Statement, lhs: sp.Expr, rhs: sp.Expr) -> Statement:
    """The same statement, in the same model, with other sides."""
    return dataclasses.replace(statement, lhs=lhs, rhs=rhs)


def _with_context(run: Callable[[Context], Any]) -> tuple[str, Any]:
    try:
        return Exact.name, run(Exact())
    except TranscendentalError:
        return IntervalArithmetic.name, run(IntervalArithmetic())


def _compare(statement: Statement, env: Environment) -> tuple[bool, str]:
    def run(context: Context) -> bool:
        left, right = (env.evaluate(side, context) for side in (statement.lhs, statement.rhs))
        gaps = _flat(_difference(right, left))
        if statement.relation == "=":
            return all(context.is_zero(gap) for gap in gaps)
        return all(gap >= 0 for gap in gaps)

    arithmetic, ok = _with_context(run)
    return ok, arithmetic


def _check_assumptions(statement: Statement, env: Environment, context: Context) -> None:
    where = f"{statement.name} at N = {env.size}"
    for pivot, value in statement.hypotheses:
        gaps = _flat(_difference(env.evaluate(pivot, context), env.evaluate(value, context)))
        if not all(context.is_zero(gap) for gap in gaps):
            raise ModelError(f"{where}: the hypothesis {pivot} = {value} fails in the model")
    for expr in statement.nonzero:
        if any(context.is_zero(value) for value in _flat(env.evaluate(expr, context))):
            raise ModelError(f"{where}: {expr} is zero in the model")
    for fact in statement.facts:
        if any(value < 0 for value in _flat(env.evaluate(fact, context))):
            raise ModelError(f"{where}: {fact} is negative in the model")


def _difference(left: Any, right: Any) -> Any:
    if isinstance(left, list) or isinstance(right, list):
        size = len(left) if isinstance(left, list) else len(right)
        lefts = left if isinstance(left, list) else [left] * size
        rights = right if isinstance(right, list) else [right] * size
        return [_difference(a, b) for a, b in zip(lefts, rights, strict=True)]
    # A number beside a matrix is a multiple of the identity, on whichever side it stands.
    return right * -1 + left if isinstance(right, Matrix) else left + right * -1


def _flat(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [entry for item in value for entry in _flat(item)]
    return value.entries() if isinstance(value, Matrix) else [value]


def _free_letters(expr: sp.Basic) -> Iterator[Letter]:
    if isinstance(expr, Letter):
        yield expr
    elif not isinstance(expr, S):
        for arg in expr.args:
            yield from _free_letters(arg)
