"""The edited write, executed beside predicted: the local check of every executed edit."""

from dataclasses import dataclass

import torch

from finite_calculus.models import Outcome, edited_bank, predict, write_error
from finite_calculus.models.edits import Edits


@dataclass(frozen=True)
class LocalCheck:
    """Norms of one edited write: executed, predicted, their difference and its float32 bound.

    `executed` = ‖Δo‖₂ on the model, `predicted` = ‖Δo‖₂ by the calculus, `error` the norm of their
    difference and `bound` what the rounding of the edited and the control row may add up to.
    """

    executed: float
    predicted: float
    error: float
    bound: float

    @property
    def held(self) -> bool:
        """Whether the error is within its bound."""
        return self.error <= self.bound


def local_check(edits: Edits, outcome: Outcome) -> LocalCheck:
    """Compare the executed write of an outcome with the exact one of its own row."""
    expected = predict(outcome.layer, edits).write
    change = outcome.write.double() - outcome.control_write.double()
    bound = write_error(outcome.layer, edited_bank(outcome.layer, edits))
    return LocalCheck(
        executed=float(torch.linalg.vector_norm(change)),
        predicted=float(torch.linalg.vector_norm(expected)),
        error=float(torch.linalg.vector_norm(change - expected)),
        bound=float(torch.linalg.vector_norm(bound + write_error(outcome.layer))),
    )
