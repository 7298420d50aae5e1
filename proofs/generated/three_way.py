"""Three texts of one quantity: the catalogue's statement, the hand-written definition, the torch code.

Each is evaluated on the same adversarial case: both sides of the statement and the definition in Arb, the
code in float64 with its own error bound. Where one of the three contradicts the other two, it is named.
`proofs.generated.links` says which statement belongs to which function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import flint
import numpy as np

from proofs.generated.comparison import draw_cases, evaluate_sides, is_equal
from proofs.generated.contexts import ArbContext
from proofs.generated.environment import Environment, Scene
from proofs.numeric.cases import Batch, Case
from proofs.numeric.comparison import ReferenceComparison
from proofs.prover.statements import Statement
from proofs.references.numbers import LAST_PRECISION, arb_precision, distance, prove


class Wrong(StrEnum):
    """Which of the three texts contradicts the other two."""

    NOTHING = "nothing"
    LEFT = "catalogue statement, left side"
    RIGHT = "catalogue statement, right side"
    DEFINITION = "hand-written definition"
    CODE = "torch code"
    UNDECIDED = "undecided: no two of the three agree"


@dataclass(frozen=True)
class Link:
    """How the sides of a statement and the output of a function correspond.

    `arguments` are the floats of the function's call, `entries` the places in its flat output, and
    `measure` makes of a number of the statement what the function computes. `part` are the places of
    the statement's numbers that are compared; None means all.
    """

    label: str
    statement: str
    function: str
    arguments: Callable[[Environment], Case]
    entries: Callable[[Case], list[int]]
    measure: Callable[[flint.arb, Environment], flint.arb] = lambda number, env: number
    part: tuple[int, ...] | None = None


def compare_three(
    link: Link,
    statement: Statement,
    scene: Scene,
    comparison: ReferenceComparison,
    *,
    cases: int,
    seed: int = 0,
) -> list[Wrong]:
    """Which text is wrong, for each of some cases."""
    scene = scene.with_definitions({})
    return [
        _verdict(link, statement, scene, comparison, case)
        for case in draw_cases(statement, scene, cases, seed)
    ]


def name_wrong(verdicts: list[Wrong]) -> Wrong:
    """The text that is wrong in some case: cases in which an error does not show prove nothing."""
    wrong = {verdict for verdict in verdicts if verdict is not Wrong.NOTHING}
    if len(wrong) > 1:
        return Wrong.UNDECIDED
    return wrong.pop() if wrong else Wrong.NOTHING


def _verdict(
    link: Link, statement: Statement, scene: Scene, comparison: ReferenceComparison, case: Case
) -> Wrong:
    sides = evaluate_sides(statement, scene, case, to_the_end=True)
    with arb_precision(LAST_PRECISION):
        env = Environment(ArbContext(), statement, scene, case)
        arguments = link.arguments(env)
        left, right = (_measured(link, env, side) for side in (sides.left, sides.right))
    places = link.entries(arguments)
    ((values, bounds),) = comparison.computed(_batch(arguments))
    definition, _ = prove(comparison.reference, arguments, bounds)
    computed, allowed = ([numbers[i] for i in places] for numbers in (values, bounds))
    exact = [definition[i] for i in places]
    return _name(left, right, exact, lambda balls: _is_within(computed, allowed, balls))


def _name(
    left: list[flint.arb],
    right: list[flint.arb],
    definition: list[flint.arb],
    computes: Callable[[list[flint.arb]], bool],
) -> Wrong:
    is_left, is_right = _is_same(left, definition), _is_same(right, definition)
    if is_left and is_right:
        return Wrong.NOTHING if computes(definition) else Wrong.CODE
    if computes(definition):
        if is_left or is_right:
            return Wrong.RIGHT if is_left else Wrong.LEFT
        return Wrong.UNDECIDED
    if _is_same(left, right) and computes(left):
        return Wrong.DEFINITION
    return Wrong.UNDECIDED


def _measured(link: Link, env: Environment, numbers: list[flint.arb]) -> list[flint.arb]:
    places = range(len(numbers)) if link.part is None else link.part
    return [link.measure(numbers[i], env) for i in places]


def _is_same(first: list[flint.arb], second: list[flint.arb]) -> bool:
    # The logarithm of what should have been positive is no number, which overlaps with everything.
    return all(x.is_finite() for x in (*first, *second)) and is_equal(first, second)


def _is_within(values: list[float], bounds: list[float], balls: list[flint.arb]) -> bool:
    if len(values) != len(balls):
        raise ValueError(f"{len(values)} numbers were computed and {len(balls)} stated")
    triples = zip(values, bounds, balls, strict=True)
    return all(distance(value, ball) <= bound for value, bound, ball in triples)


# What the comparisons take once for a whole batch, as they draw it.
_SHARED = {"frequencies", "band", "removed", "pairs", "head_projection", "projection", "scaling"}


def _batch(arguments: Case) -> Batch:
    """A batch of the one case."""
    each, shared = {}, {}
    for name, item in arguments.items():
        if name in _SHARED or not isinstance(item, float | list):
            shared[name] = np.array(item) if isinstance(item, list) else item
        else:
            each[name] = np.array([item])
    return Batch(each, shared)
