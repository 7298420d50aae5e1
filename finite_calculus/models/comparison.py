"""Predicted against executed at the edited readout, entry by entry, with the bound that rounding allows.

Norms, contractions with the gradient and the checks of the gate all follow from these tensors.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.models.bounds import local_error
from finite_calculus.models.edits import Edits, edited_bank
from finite_calculus.models.outcomes import Outcome
from finite_calculus.models.predict import predict_bank


@dataclass(frozen=True, eq=False)
class Agreement:
    """One change in float64: as executed, as predicted, and the bound on their difference."""

    executed: Float[Tensor, "*shape"]
    predicted: Float[Tensor, "*shape"]
    bound: Float[Tensor, "*shape"]

    @property
    def error(self) -> Float[Tensor, "*shape"]:
        """Executed − predicted."""
        return self.executed - self.predicted


@dataclass(frozen=True, eq=False)
class LocalComparison:
    """Δy of every head, (heads, width), and the projected write Δo, (model,), of one executed edit."""

    response: Agreement
    write: Agreement


def compare_locally(edits: Edits, outcome: Outcome) -> LocalComparison:
    """Compare an outcome with the exact prediction from its own row, which shares every input with it.

    The bounds add the rounding of the edited and of the control readout, by running error analysis.
    """
    layer = outcome.layer
    bank = edited_bank(layer, edits)
    predicted = predict_bank(layer, bank)
    before, after = local_error(layer), local_error(layer, bank)
    write = outcome.write.double() - outcome.control_write.double()
    return LocalComparison(
        Agreement(outcome.response, predicted.response, before.output + after.output),
        Agreement(write, predicted.write, before.write + after.write),
    )


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
    write = compare_locally(edits, outcome).write
    return LocalCheck(
        executed=float(torch.linalg.vector_norm(write.executed)),
        predicted=float(torch.linalg.vector_norm(write.predicted)),
        error=float(torch.linalg.vector_norm(write.error)),
        bound=float(torch.linalg.vector_norm(write.bound)),
    )
