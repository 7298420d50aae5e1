"""The tables of the study of answer repair."""

from dataclasses import dataclass

from finite_calculus.harness import Row

# Branches with one continuation, and the arms, each with as many continuations as `tries` says.
BRANCHES = ("ordinary", "no-op", "target forced")
EDITED = ("ranked", "first-order", "attention", "attention to target", "random")
ARMS = (*EDITED, "emphasis")


@dataclass(frozen=True)
class CaseRow(Row):
    """What every row begins with: the stream of cases, search or rate, and the case."""

    stream: str
    case: str
    kind: str


@dataclass(frozen=True)
class Case(CaseRow):
    """One case: the margin from what the model says first to the target, and how much was scored.

    `target` and `versus` are the two tokens as text. If the model begins with the target, `versus` is its
    second choice.
    """

    prompt_tokens: int
    candidates: int
    target: str
    versus: str
    margin: float
    target_first: bool


@dataclass(frozen=True)
class Continuation(CaseRow):
    """One executed continuation: `tried` counts within its arm, from 1 in the order of its ranking.

    `predicted` is the effect on the margin by the exact local write and the frozen gradient, `effect` what
    the first generated token's margin really did. `passed` counts checks of six; `ended` and `reason` say
    what became of the expression in its confined process. `repeated` says, of a first ranked edit that
    repairs, whether a batch of one row generates the same tokens. `resolved` says whether the effect is above
    the noise floor of the model's precision; records of before that was asked have None.
    """

    arm: str
    tried: int
    layer: int | None
    token: int | None
    edit: str | None
    predicted: float | None
    effect: float | None
    expression: str
    generated: int
    passed: int
    checks: int
    ended: str
    reason: str
    repeated: bool | None
    resolved: bool | None = None

    @property
    def right(self) -> bool:
        """Whether every check passed."""
        return self.passed == self.checks


@dataclass(frozen=True)
class Confirmation(CaseRow):
    """One branch of the selected case, run again in a batch of one row from a forgotten prefix."""

    branch: str
    expression: str
    passed: int
    checks: int
    same_expression: bool
