"""The exact rational instances of `proofs.prover.rational`, evaluated by the generated references' walk.

The models are the prover's: E is any positive rational, t and φ₁(t) any numbers with E = D·(1 + t·φ₁(t)).
The evaluation is not: a derivative is a coefficient of a power series and not SymPy's, so that the two
programs check each other.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from proofs.generated.comparison import flatten
from proofs.generated.contexts import RationalContext
from proofs.generated.evaluation import evaluate
from proofs.prover.rational import Environment
from proofs.prover.statements import Statement
from proofs.references.series import SeriesNumbers


class _Model:
    """The values of the prover's model, with numbers that take series."""

    def __init__(self, statement: Statement, size: int) -> None:
        self.num, self.size = SeriesNumbers(RationalContext()), size
        self._environment = Environment(statement, size)

    def __getitem__(self, symbol: Any) -> Any:
        return self._environment[symbol]


def rational_sides(statement: Statement, size: int) -> tuple[list[Fraction], list[Fraction]]:
    """The numbers of both sides at one size; a value that is not rational raises TranscendentalError."""
    model = _Model(statement, size)
    left, right = (flatten(evaluate(side, model)) for side in (statement.lhs, statement.rhs))
    return left, right
