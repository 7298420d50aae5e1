"""What becomes of a mutant: the verdict of the prover beside that of the exact model.

It is refuted if it is false in the exact model, true if it is proved and holds there, unproved if it holds
there without being proved, and undecided if the model cannot evaluate it and nothing proves it. One that is
proved and false is a survivor: the method is unsound. A changed hypothesis mostly leaves the conclusion
unproved; where it still follows, the statement is more general than it says.
"""

from __future__ import annotations

from enum import StrEnum

import sympy as sp

from proofs.prover.rational import holds
from proofs.prover.statements import Statement

SIZES = (2, 3)


class Verdict(StrEnum):
    """What became of a mutant."""

    REFUTED = "refuted"
    UNPROVED = "unproved"
    TRUE = "true"
    SURVIVOR = "survivor"
    GENERAL = "more general"
    UNDECIDED = "undecided"


def judge(mutant: Statement) -> Verdict:
    """What became of a statement with another side or relation."""
    proved, model = _is_proved(mutant), _in_model(mutant)
    if proved:
        return Verdict.TRUE if model is True else Verdict.SURVIVOR
    if model is None:
        return Verdict.UNDECIDED
    return Verdict.UNPROVED if model else Verdict.REFUTED


def judge_hypothesis(mutant: Statement) -> Verdict:
    """The conclusion is true in the model, so a proof from a changed hypothesis refutes nothing."""
    return Verdict.GENERAL if _is_proved(mutant) else Verdict.UNPROVED


def _is_proved(mutant: Statement) -> bool:
    try:
        return mutant.prove().ok
    except (ValueError, ArithmeticError, TypeError, sp.PolynomialError, NotImplementedError):
        return False


def _in_model(mutant: Statement) -> bool | None:
    """Whether the mutant holds in the exact model; None when it cannot be evaluated there."""
    try:
        return holds(mutant, tuple(size for size in SIZES if size >= mutant.smallest))
    except ZeroDivisionError:
        return False  # undefined where the statement itself is defined
    except (ValueError, TypeError, NotImplementedError):
        return None
