"""Both sides of a statement, held against each other and against the hand-written definition.

Everything is evaluated in Arb balls, with the precision doubled until both sides have their proven bits
and the verdict is certain: an equality fails when the balls are disjoint, a bound when its gap is
negative. What the statement assumes (hypotheses, denominators, facts) is evaluated first, so that
bindings which contradict it are an error and not a pass. mpmath then evaluates both sides again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import flint
import numpy as np
import sympy as sp

from proofs.generated.contexts import ArbContext, MpContext
from proofs.generated.environment import Environment, Scene
from proofs.numeric.cases import Case
from proofs.prover.exact import Matrix
from proofs.prover.statements import Statement
from proofs.references.numbers import (
    FIRST_PRECISION,
    LAST_PRECISION,
    UnprovenError,
    agree,
    arb_precision,
    is_negligible,
    is_proven,
    to_ball,
)

# Draws in which a case suits a statement: enough keys, denominators that are not zero.
_DRAWS = 64
# What mpmath has beyond Arb's precision, since it does not know what it loses.
_MORE_BITS = 32


class BindingError(ValueError):
    """What a statement assumes does not hold of the values that its symbols were given."""


@dataclass(frozen=True)
class Sides:
    """The numbers of both sides in Arb, of the definition if there is one, and the precision."""

    left: list[flint.arb]
    right: list[flint.arb]
    definition: list[flint.arb] | None
    bits: int


@dataclass(frozen=True)
class StatementCheck:
    """One statement on some cases: what failed, and the largest relative width of its agreement."""

    name: str
    cases: int
    bits: int
    worst: float
    is_defined: bool
    failures: tuple[str, ...]


def check_statement(statement: Statement, scene: Scene, cases: int, seed: int) -> StatementCheck:
    """Evaluate a statement on `cases` cases of a scene."""
    bits, worst, failures = 0, 0.0, []
    try:
        for case in draw_cases(statement, scene, cases, seed):
            sides = evaluate_sides(statement, scene, case)
            failures += judge(statement, sides)
            failures += second_opinion(statement, scene, case, sides)
            bits, worst = max(bits, sides.bits), max(worst, _width(statement, sides))
    except (BindingError, UnprovenError) as error:
        failures.append(f"{statement.name}: {error}")
    is_defined = scene.definition(statement.name) is not None
    return StatementCheck(statement.name, cases, bits, worst, is_defined, tuple(failures))


def draw_cases(statement: Statement, scene: Scene, count: int, seed: int) -> Iterator[Case]:
    """Cases in which the statement makes sense, each from a seed of its own."""
    calm = any(side.has(sp.Integral) for side in (statement.lhs, statement.rhs))
    for number in range(count):
        for attempt in range(_DRAWS):
            case = scene.draw(np.random.default_rng((seed, number, attempt)), calm)
            if case["size"] >= statement.smallest and _is_inside(statement, scene, case):
                yield case
                break
        else:
            raise BindingError(f"{statement.name}: none of {_DRAWS} draws suits the statement")


def evaluate_sides(
    statement: Statement, scene: Scene, case: Case, *, to_the_end: bool = False
) -> Sides:
    """Both sides and the definition in Arb, at the least precision at which the verdict is certain.

    `to_the_end` goes on until all numbers have their bits, also where they are already known to differ.
    """
    bits = FIRST_PRECISION
    while bits <= LAST_PRECISION:
        with arb_precision(bits):
            env = Environment(ArbContext(), statement, scene, case)
            _check_assumptions(statement, env)
            sides = _sides(statement, scene, env, bits)
            if _is_proven(sides) if to_the_end else _is_decided(statement, sides):
                return sides
        bits *= 2
    raise UnprovenError(f"fewer proven bits than required at {LAST_PRECISION} bits in case {case}")


def judge(statement: Statement, sides: Sides) -> list[str]:
    """What is wrong: one line for each relation that Arb disproves."""
    failures = []
    if statement.relation == "=":
        if not is_equal(sides.left, sides.right):
            failures.append(f"{statement.name}: left and right side differ")
    elif any(gap < 0 for gap in _gaps(sides.left, sides.right)):
        failures.append(f"{statement.name}: the left side exceeds the right side")
    if sides.definition is not None and not is_equal(sides.left, sides.definition):
        failures.append(f"{statement.name}: the left side is not the hand-written definition")
    return failures


def second_opinion(statement: Statement, scene: Scene, case: Case, sides: Sides) -> list[str]:
    """Both sides in mpmath at the precision that Arb needed; a line for each that disagrees."""
    env = Environment(MpContext(sides.bits + _MORE_BITS), statement, scene, case)
    opinions = zip(("left", "right"), (sides.left, sides.right), _both(statement, env), strict=True)
    same = agree if statement.relation == "=" else _contain
    return [
        f"{statement.name}: mpmath and Arb disagree on the {name} side"
        for name, balls, numbers in opinions
        if not same(balls, numbers)
    ]


def flatten(value: Any) -> list[Any]:
    """The numbers of a value: of lists over keys, and of matrices row by row."""
    if isinstance(value, list | tuple):
        return [number for item in value for number in flatten(item)]
    return value.entries() if isinstance(value, Matrix) else [value]


def _sides(statement: Statement, scene: Scene, env: Environment, bits: int) -> Sides:
    definition = scene.definition(statement.name)
    defined = None if definition is None else flatten(definition(env))
    return Sides(*_both(statement, env), defined, bits)


def _both(statement: Statement, env: Environment) -> tuple[list[Any], list[Any]]:
    return _matched(env.evaluate(statement.lhs), env.evaluate(statement.rhs))


def _matched(left: Any, right: Any) -> tuple[list[Any], list[Any]]:
    """The numbers of two values, the simpler one repeated in the shape of the other."""
    shape = left if len(flatten(left)) >= len(flatten(right)) else right
    return _like(left, shape), _like(right, shape)


def _like(value: Any, shape: Any) -> list[Any]:
    """The numbers of a value; one number beside a matrix is a multiple of the identity."""
    if isinstance(shape, list):
        items = value if isinstance(value, list) else [value] * len(shape)
        return [x for item, part in zip(items, shape, strict=True) for x in _like(item, part)]
    if isinstance(shape, Matrix) and not isinstance(value, Matrix):
        return flatten(shape * 0 + value)
    return flatten(value)


def _is_inside(statement: Statement, scene: Scene, case: Case) -> bool:
    with arb_precision(FIRST_PRECISION):
        env = Environment(ArbContext(), statement, scene, case)
        exact = [flatten(env.evaluate(expr)) for expr in statement.nonzero]
        return not any(number.is_zero() for numbers in exact for number in numbers)


def _check_assumptions(statement: Statement, env: Environment) -> None:
    for pivot, value in statement.hypotheses:
        if not is_equal(*_matched(env.evaluate(pivot), env.evaluate(value))):
            raise BindingError(f"the hypothesis {pivot} = {value} does not hold of the bindings")
    for fact in statement.facts:
        if any(number < 0 for number in flatten(env.evaluate(fact))):
            raise BindingError(f"{fact} is negative in the bindings")


def _is_decided(statement: Statement, sides: Sides) -> bool:
    if judge(statement, sides):
        return True
    if statement.relation == "=":
        return _is_proven(sides)
    return all(gap > 0 or is_proven(gap) for gap in _gaps(sides.left, sides.right)) and all(
        map(is_proven, sides.definition or [])
    )


def _is_proven(sides: Sides) -> bool:
    return all(map(is_proven, [*sides.left, *sides.right, *(sides.definition or [])]))


def _contain(balls: list[flint.arb], numbers: list[Any]) -> bool:
    """Whether mpmath's numbers lie in the balls: those of a bound need no more than its verdict."""
    return all(ball.contains(to_ball(x)) for ball, x in zip(balls, numbers, strict=True)) or agree(
        balls, numbers
    )


def is_equal(left: list[flint.arb], right: list[flint.arb]) -> bool:
    """Whether Arb cannot tell two lists of numbers apart."""
    return len(left) == len(right) and all(map(flint.arb.overlaps, left, right))


def _gaps(left: list[flint.arb], right: list[flint.arb]) -> list[flint.arb]:
    return [b - a for a, b in zip(left, right, strict=True)]


def _width(statement: Statement, sides: Sides) -> float:
    """An upper bound of |left − right| relative to the larger; 0 where both are negligible."""
    if statement.relation != "=":
        return 0.0
    worst = 0.0
    with arb_precision(LAST_PRECISION):
        for left, right in zip(sides.left, sides.right, strict=True):
            if is_negligible(left) or is_negligible(right):
                continue
            ratio = abs(left - right) / abs(left).max(abs(right))
            upper = float(ratio.abs_upper())
            worst = max(worst, math.nextafter(upper, math.inf) if upper else 0.0)
    return worst
