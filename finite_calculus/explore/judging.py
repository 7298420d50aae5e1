"""One counterfactual before it is executed: its split, its certificate, and how far to trust it.

The split and the certificate are of the edited write of each layer. What they say of the margin is a
prediction; a band around it comes from `calibrate` alone, for the candidates of the table.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from finite_calculus.explore.grid import one_layer
from finite_calculus.explore.wording import without_place
from finite_calculus.models import Capture, Edit, Instrument, LocalCheck, local_check
from finite_calculus.models.several import by_layer, predict_several
from finite_calculus.search import Family, ScoreTable, certify_table, score


@dataclass(frozen=True)
class LayerPart:
    """What is done to one layer: its predicted effect as key + value + interaction, and the certificate.

    The exact local score lies within `bound` of `first_order`. `size` is the norm of the changed write over
    that of the residual stream which it enters.
    """

    layer: int
    effect: float
    key: float
    value: float
    interaction: float
    first_order: float
    bound: float
    size: float | None
    removes: bool


@dataclass(frozen=True)
class Executed:
    """The executed effect; the local check is there for edits of one layer."""

    effect: float
    margin: float
    local: LocalCheck | None


def parts_of(capture: Capture, edits: Sequence[Edit]) -> list[LayerPart]:
    """Every edited layer on its own."""
    parts = []
    for number, own in by_layer(edits).items():
        layer = one_layer(capture, number)
        row = certify_table(_scored(layer, own)).row(0)
        write = float(torch.linalg.vector_norm(layer.predict(own).write))
        residual = layer.layers[0].residual
        parts.append(
            LayerPart(
                number,
                row.effect,
                row.key,
                row.value,
                row.interaction,
                float(row.first_order or 0.0),
                float("inf") if row.bound is None else row.bound,
                write / residual if residual else None,
                any(edit.removes for edit in own),
            )
        )
    return parts


def _scored(capture: Capture, edits: tuple[Edit, ...]) -> ScoreTable:
    """The edits as a table of one row: as a family where that can be, whose deletions have a certificate."""
    edit = edits[0]
    if len(edits) == 1 and edit.by_column and edit.heads is None:
        return score(capture, Family((without_place(edit),), places=(edit.tokens,)))
    return score(capture, [edits])


def execute(instrument: Instrument, capture: Capture, edits: Sequence[Edit]) -> Executed:
    """Run the model with all the edits at once."""
    several = tuple(edits)
    if len(by_layer(several)) > 1:
        (outcome,) = instrument.execute_several(capture, [several])
        return Executed(outcome.effect, outcome.margin, None)
    (outcome,) = instrument.execute(capture, [several]).outcomes
    return Executed(outcome.effect, outcome.margin, local_check(several, outcome))


def predicted(capture: Capture, edits: Sequence[Edit]) -> float:
    """The effect of all the edits to first order downstream of their exact writes."""
    return predict_several(capture, edits).effect
