"""Predicted against executed at the edited readout, entry by entry, with the bound that rounding allows.

Norms, contractions with the gradient and the checks of the gate all follow from these tensors.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.margin import project
from finite_calculus.models.bounds import Stages, readout_stages
from finite_calculus.models.edits import Edits, edited_bank
from finite_calculus.models.layer import LayerCapture
from finite_calculus.models.outcomes import Outcome
from finite_calculus.models.predict import exact_response
from finite_calculus.models.sum_order import Spread

# What a row of a batch rounds for itself; all else of a layer belongs to the capture.
_ROUNDED = ("query", "keys", "values")


@dataclass(frozen=True, eq=False)
class Agreement:
    """One change in float64, as executed and as predicted, and what may lie between the two.

    `rounding` are the roundings that are bounded a priori; `carried` is what those bring that are known:
    products replayed in their order, and residuals measured at earlier stages, cut off at their sure bounds.
    `likely` is the same cut off at their probable ones.
    """

    executed: Float[Tensor, "*shape"]
    predicted: Float[Tensor, "*shape"]
    rounding: Spread
    carried: Float[Tensor, "*shape"]
    likely: Float[Tensor, "*shape"]

    @property
    def error(self) -> Float[Tensor, "*shape"]:
        """Executed − predicted."""
        return self.executed - self.predicted

    @property
    def bound(self) -> Float[Tensor, "*shape"]:
        """The sure bound on |error|: a breach is not rounding."""
        return self.carried.abs() + self.rounding.sure

    @property
    def probable_bound(self) -> Float[Tensor, "*shape"]:
        """The probable bound on |error| (`DOUBT` per number): a breach is a warning."""
        return self.likely.abs() + self.rounding.probable

    def along(self, gradient: Float[Tensor, " model"]) -> "Agreement":
        """The change of a vector contracted with a gradient g: ⟨g, Δ⟩ on both sides, Σ|g|r and Σg²r²."""
        return Agreement(
            torch.dot(gradient, self.executed),
            torch.dot(gradient, self.predicted),
            self.rounding.times(gradient).summed(-1),
            torch.dot(gradient, self.carried),
            torch.dot(gradient, self.likely),
        )


@dataclass(frozen=True, eq=False)
class LocalComparison:
    """Δy of every head, (heads, width), and the projected write Δo, (model,), of one executed edit."""

    response: Agreement
    write: Agreement


def compare_locally(edits: Edits, outcome: Outcome) -> LocalComparison:
    """Compare an outcome with the exact prediction from its own row, which shares every input with it.

    The bounds add the roundings of the edited and of the control readout, except those of q·k: where their
    orders are known, what they do to the change of y is computed, so that what both rows share counts once.
    Those of the write know the executed y of both, whose residuals are carried through the projection.
    """
    return next(compare_all([edits], [outcome]))


def compare_all(
    counterfactuals: Sequence[Edits], outcomes: Sequence[Outcome]
) -> Iterator[LocalComparison]:
    """`compare_locally` for many outcomes; rows that round alike share the bound of their control."""
    controls: list[tuple[Outcome, Stages]] = []
    for edits, outcome in zip(counterfactuals, outcomes, strict=True):
        layer = outcome.layer
        bank = edited_bank(layer, edits)
        before = _control_stages(outcome, controls)
        response = exact_response(layer, bank, before.readout)
        after = readout_stages(
            layer, bank, kernels=outcome.kernels, executed=outcome.output, unedited=before
        )
        write = outcome.write.double() - outcome.control_write.double()
        known = after.known - before.known
        yield LocalComparison(
            Agreement(
                outcome.response,
                response,
                before.output + after.output,
                known,
                known,
            ),
            Agreement(
                write,
                project(response, layer.output_projection.double()),
                before.projection + after.projection,
                after.carried - before.carried,
                after.likely - before.likely,
            ),
        )


@dataclass(frozen=True)
class LocalCheck:
    """Norms of one edited write: executed, predicted, their difference and its float32 bounds.

    `executed` = ‖Δo‖₂ on the model, `predicted` = ‖Δo‖₂ by the calculus, `error` the norm of their
    difference. `bound` is what the rounding of the edited and the control row may surely add up to;
    `probable_bound` is exceeded with probability `DOUBT` per entry if roundings are independent. `beyond`
    counts the entries of Δy and of Δo outside their sure bounds, `unlikely` those outside the probable ones.
    """

    executed: float
    predicted: float
    error: float
    bound: float
    probable_bound: float
    beyond: int
    unlikely: int

    @classmethod
    def of(cls, local: LocalComparison) -> "LocalCheck":
        """The norms of a compared write, and the entries of it and of its heads that stand out."""
        write, parts = local.write, (local.response, local.write)
        return cls(
            executed=float(torch.linalg.vector_norm(write.executed)),
            predicted=float(torch.linalg.vector_norm(write.predicted)),
            error=float(torch.linalg.vector_norm(write.error)),
            bound=float(torch.linalg.vector_norm(write.bound)),
            probable_bound=float(torch.linalg.vector_norm(write.probable_bound)),
            # Written so that what is not a number stands out.
            beyond=sum(int((~(part.error.abs() <= part.bound)).sum()) for part in parts),
            unlikely=sum(int((~(part.error.abs() <= part.probable_bound)).sum()) for part in parts),
        )

    @property
    def within_bound(self) -> bool:
        """Whether rounding alone may explain every entry; if not, the check has failed."""
        return self.beyond == 0

    @property
    def likely(self) -> bool:
        """Whether rounding is likely to explain every entry; if not, that is a warning."""
        return self.unlikely == 0


def local_check(edits: Edits, outcome: Outcome) -> LocalCheck:
    """Compare the executed write of an outcome with the exact one of its own row."""
    return LocalCheck.of(compare_locally(edits, outcome))


def _control_stages(outcome: Outcome, controls: list[tuple[Outcome, Stages]]) -> Stages:
    """The roundings of an outcome's control, from `controls` if one equal to it is there."""
    kernels = outcome.kernels and outcome.kernels.control
    for other, stages in controls:
        if (
            kernels == (other.kernels and other.kernels.control)
            and torch.equal(outcome.control_output, other.control_output)
            and _equal(outcome.layer, other.layer)
        ):
            return stages
    stages = readout_stages(outcome.layer, kernels=kernels, executed=outcome.control_output)
    controls.append((outcome, stages))
    return stages


def _equal(layer: LayerCapture, other: LayerCapture) -> bool:
    """Whether two layers are one capture, rounded alike."""
    if any(
        getattr(layer, field.name) is not getattr(other, field.name)
        for field in fields(layer)
        if field.name not in _ROUNDED
    ):
        return False
    return all(torch.equal(getattr(layer, name), getattr(other, name)) for name in _ROUNDED)
