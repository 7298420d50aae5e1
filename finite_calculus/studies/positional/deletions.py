"""Deletion of each demonstration at two layers: predicted, ranked by controls, compared with execution."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from finite_calculus.deletion import deletion_jacobian, deletion_response
from finite_calculus.margin import norm, project
from finite_calculus.models import Delete, LayerCapture, LocalComparison, Outcome
from finite_calculus.studies.positional.rows import SpanDeletion
from finite_calculus.studies.positional.shifts import write_checks
from finite_calculus.studies.positional.variant import Part, Variant, violations


@dataclass(frozen=True)
class Deletion:
    """One demonstration at one layer."""

    layer: int
    span: int

    def edit(self, variant: Variant) -> Delete:
        """The edit as the instrument executes it."""
        return Delete(self.layer, tuple(range(*variant.prompt.spans[self.span])))


def list_deletions(layers: Sequence[int], spans: int) -> list[Deletion]:
    """Every span at every layer."""
    return [Deletion(layer, span) for layer in layers for span in range(spans)]


def deletion_part(
    variant: Variant,
    deletions: Sequence[Deletion],
    outcomes: Sequence[Outcome],
    comparisons: Sequence[LocalComparison],
) -> Part:
    """Rows and checks of executed deletions."""
    figures = {
        number: _figures(variant, variant.capture.layer(number))
        for number in dict.fromkeys(deletion.layer for deletion in deletions)
    }
    rows: list[SpanDeletion] = []
    for deletion, outcome, comparison in zip(deletions, outcomes, comparisons, strict=True):
        layer = variant.capture.layer(deletion.layer)
        along = comparison.write.along(layer.gradient_write.double())
        numbers = {name: float(x[deletion.span]) for name, x in figures[deletion.layer].items()}
        sign = variant.sign
        rows.append(
            SpanDeletion(
                *variant.place,
                variant=variant.number,
                layer=deletion.layer,
                span=deletion.span,
                effect=sign * outcome.effect,
                predicted_finite=sign * numbers["finite"],
                predicted_jacobian=sign * numbers["jacobian"],
                attention=numbers["attention"],
                value_norm=numbers["value_norm"],
                local_executed=sign * float(along.executed),
                local_predicted=sign * float(along.predicted),
                local_bound=float(along.bound),
            )
        )
    checks = write_checks("deletion", comparisons, rows)
    return Part(rows, {**checks, "deletion: numbers that are not finite": violations(rows)})


def _figures(variant: Variant, layer: LayerCapture) -> dict[str, Tensor]:
    """Predictions and controls of all spans of a layer (eq:groupdeletion)."""
    spans = variant.prompt.spans
    removed = torch.zeros(len(spans), layer.keys.shape[1], dtype=torch.bool)
    for row, (first, stop) in enumerate(spans):
        removed[row, layer.column(first) : layer.column(stop - 1) + 1] = True
    readout, projection = layer.readout(), layer.output_projection.double()
    gradient = layer.gradient_write.double()
    inside = torch.where(removed.unsqueeze(1), readout.probs, 0.0)
    weighed = torch.einsum("ghk,hkw->ghw", inside, readout.values)
    finite, jacobian = (
        project(form(readout, removed).movedim(-3, -2), projection) @ gradient
        for form in (deletion_response, deletion_jacobian)
    )
    return {
        "finite": finite,
        "jacobian": jacobian,
        "attention": inside.sum((-2, -1)),
        "value_norm": norm(project(weighed, projection)),
    }
