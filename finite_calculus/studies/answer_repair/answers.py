"""From generated tokens to passed checks: the expression is the first line that says something."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from finite_calculus.expressions import Evaluation, evaluate
from finite_calculus.tasks.api_cases import ApiCase


@dataclass(frozen=True)
class Answer:
    """A generated expression and how it fared: checks passed of those that there are."""

    expression: str
    passed: int
    checks: int
    ended: str
    reason: str

    @property
    def right(self) -> bool:
        """Whether every check passed."""
        return self.passed == self.checks


def expression_of(tokens: Sequence[int], tokenizer: Any) -> str:
    """The first line with something on it, the same rule for every branch."""
    text = tokenizer.decode(list(tokens), skip_special_tokens=True)
    return next((line.strip() for line in text.split("\n") if line.strip()), "")


def line_ended(tokenizer: Any) -> Callable[[Sequence[int]], bool]:
    """Whether further tokens can no longer change the expression."""

    def ended(tokens: Sequence[int]) -> bool:
        text = tokenizer.decode(list(tokens), skip_special_tokens=True)
        return "\n" in text.lstrip()

    return ended


class Checker:
    """The six checks of one case; an expression that comes again is not evaluated again."""

    def __init__(self, case: ApiCase) -> None:
        self.case = case
        self._answers: dict[str, Answer] = {}

    def __call__(self, expression: str) -> Answer:
        """Evaluate an expression in a confined process on the inputs of every check."""
        if expression not in self._answers:
            trials = self.case.trials
            done = evaluate(expression, self.case.contract, [trial.inputs for trial in trials])
            self._answers[expression] = _answer(expression, self.case, done)
        return self._answers[expression]


def _answer(expression: str, case: ApiCase, done: Evaluation) -> Answer:
    wanted = [trial.expected for trial in case.trials]
    # A refused or stopped expression has no values, and passes nothing.
    passed = sum(a == b and type(a) is type(b) for a, b in zip(done.values, wanted, strict=False))
    return Answer(expression, passed, len(wanted), done.ended, done.reason)
