"""Predicted against executed at the edited readout, entry by entry, with the bound that rounding allows.

Norms, contractions with the gradient and the checks of the gate all follow from these tensors.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.models.bounds import LocalError, local_error
from finite_calculus.models.edits import Edits, edited_bank
from finite_calculus.models.layer import LayerCapture
from finite_calculus.models.outcomes import Outcome
from finite_calculus.models.predict import predict_bank

# What a row of a batch rounds for itself; all else of a layer belongs to the capture.
_ROUNDED = ("query", "keys", "values")


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

    def along(self, gradient: Float[Tensor, " model"]) -> "Agreement":
        """The change of a vector contracted with a gradient g: ⟨g, Δ⟩ on both sides, ⟨|g|, bound⟩."""
        return Agreement(
            torch.dot(gradient, self.executed),
            torch.dot(gradient, self.predicted),
            torch.dot(gradient.abs(), self.bound),
        )


@dataclass(frozen=True, eq=False)
class LocalComparison:
    """Δy of every head, (heads, width), and the projected write Δo, (model,), of one executed edit."""

    response: Agreement
    write: Agreement


def compare_locally(edits: Edits, outcome: Outcome) -> LocalComparison:
    """Compare an outcome with the exact prediction from its own row, which shares every input with it.

    The bounds add the rounding of the edited and of the control readout, by running error analysis.
    """
    return next(compare_all([edits], [outcome]))


def compare_all(
    counterfactuals: Sequence[Edits], outcomes: Sequence[Outcome]
) -> Iterator[LocalComparison]:
    """`compare_locally` for many outcomes; rows that round alike share the bound of their control."""
    controls: list[tuple[LayerCapture, LocalError]] = []
    for edits, outcome in zip(counterfactuals, outcomes, strict=True):
        layer = outcome.layer
        bank = edited_bank(layer, edits)
        predicted = predict_bank(layer, bank)
        before, after = _control_error(layer, controls), local_error(layer, bank)
        write = outcome.write.double() - outcome.control_write.double()
        yield LocalComparison(
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

    @classmethod
    def of(cls, write: Agreement) -> "LocalCheck":
        """The norms of a compared write."""
        return cls(
            executed=float(torch.linalg.vector_norm(write.executed)),
            predicted=float(torch.linalg.vector_norm(write.predicted)),
            error=float(torch.linalg.vector_norm(write.error)),
            bound=float(torch.linalg.vector_norm(write.bound)),
        )

    @property
    def within_bound(self) -> bool:
        """Whether rounding alone may explain the error."""
        return self.error <= self.bound


def local_check(edits: Edits, outcome: Outcome) -> LocalCheck:
    """Compare the executed write of an outcome with the exact one of its own row."""
    return LocalCheck.of(compare_locally(edits, outcome).write)


def _control_error(
    layer: LayerCapture, controls: list[tuple[LayerCapture, LocalError]]
) -> LocalError:
    """The bound of a layer's unedited readout, from `controls` if a layer equal to it is there."""
    for other, error in controls:
        if _equal(layer, other):
            return error
    controls.append((layer, local_error(layer)))
    return controls[-1][1]


def _equal(layer: LayerCapture, other: LayerCapture) -> bool:
    """Whether two layers are one capture, rounded alike."""
    if any(
        getattr(layer, field.name) is not getattr(other, field.name)
        for field in fields(layer)
        if field.name not in _ROUNDED
    ):
        return False
    return all(torch.equal(getattr(layer, name), getattr(other, name)) for name in _ROUNDED)
