"""What executed counterfactuals return: margins beside their controls, and the executed local write."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.models.kernels import Kernels
from finite_calculus.models.layer import LayerCapture
from finite_calculus.models.words import short_repr


@dataclass(frozen=True, eq=False)
class Outcome:
    """One executed counterfactual beside its control.

    `effect` = `margin` − `control`. `output` and `write` are the executed y and o of the edited layer,
    `control_output` and `control_write` those of the control. On the native paths the control is the
    same row of an unedited batch, and `drift` is how far the batch's unedited row 0 is from its own:
    zero, except that experts make the grouping of rows depend on the edits. On the shared path the
    control is row 0 of the batch, and `drift` is how far that is from the captured native margin: it
    shows the rounding of the path. `layer` is the captured layer with the last token's query, key and
    value as this row rounded them: a prediction from it and the execution share every input. `kernels`
    say what the row was computed with, None where that is not known: bounds then allow for any order.
    """

    __repr__ = short_repr

    margin: float
    control: float
    effect: float
    drift: float
    output: Float[Tensor, "heads width"]
    control_output: Float[Tensor, "heads width"]
    write: Float[Tensor, " model"]
    control_write: Float[Tensor, " model"]
    layer: LayerCapture
    logits: Float[Tensor, " vocabulary"] | None
    kernels: Kernels | None = None

    @property
    def response(self) -> Float[Tensor, "heads width"]:
        """The executed Δy, subtracted in float64."""
        return self.output.double() - self.control_output.double()


@dataclass(frozen=True, eq=False)
class Execution:
    """Outcomes in the order of the edits."""

    __repr__ = short_repr

    outcomes: tuple[Outcome, ...]

    @property
    def margins(self) -> Float[Tensor, " edits"]:
        """Margins of the edited rows."""
        return torch.tensor([o.margin for o in self.outcomes], dtype=torch.float64)

    @property
    def controls(self) -> Float[Tensor, " edits"]:
        """Margins of the controls, each of its own row."""
        return torch.tensor([o.control for o in self.outcomes], dtype=torch.float64)

    @property
    def effects(self) -> Float[Tensor, " edits"]:
        """Executed margin changes: positive towards the answer."""
        return torch.tensor([o.effect for o in self.outcomes], dtype=torch.float64)
