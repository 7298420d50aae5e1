"""What is known of a prediction beyond the edited write: second order, sizes, and executed candidates.

Derivatives at the baseline see no cliff at a distance. So a candidate is trusted only if its second
order is small beside the first, if the write is smaller than the residual stream that it enters, and if
a band calibrated on executed candidates leaves its sign.
"""

from dataclasses import replace

import torch
from jaxtyping import Bool
from torch import Tensor

from finite_calculus.models import Capture
from finite_calculus.search.beyond import Downstream
from finite_calculus.search.table import ScoreTable
from finite_calculus.search.writes import terms_of

# A second order beyond half of the first speaks for a third that is not small either.
_HALF = 0.5


def with_downstream(table: ScoreTable) -> ScoreTable:
    """The table with sizes of writes and, if its capture has curvature, the second order."""
    capture, first = table.capture, table.effect.double()
    terms = terms_of(capture, table.parts)
    size = terms.size / _per_row(table, [layer.residual or 0.0 for layer in capture.layers])
    floor = noise_floor(capture)
    if terms.term is None or terms.outside is None or capture.curvature is None:
        # Without a second order: as wrong as the effect times the size, or as is usual for the size.
        usual = first.abs().sum() / size[size.isfinite()].sum()
        scale = size * (first.abs() + usual) + floor
        return replace(table, downstream=Downstream(size, scale, None, None, None))
    outside = terms.outside / torch.where(terms.size > 0, terms.size, 1.0)
    bend = capture.curvature
    steepest = [
        float(torch.linalg.matrix_norm(bend.form[bend.rows(n), bend.rows(n)].double(), ord=2))
        for n in (layer.layer for layer in capture.layers)
    ]
    missing = 0.5 * _per_row(table, steepest) * terms.outside.square()
    scale = terms.term.abs() + size * first.abs() + missing + floor
    return replace(table, downstream=Downstream(size, scale, first + terms.term, outside, missing))


def noise_floor(capture: Capture) -> float:
    """Float32 spacing of the two logits, a few times: executed effects below it are rounding."""
    return 8 * torch.finfo(torch.float32).eps * float(capture.logits.abs().max())


def derivatives_agree(table: ScoreTable) -> Bool[Tensor, " rows"]:
    """Whether nothing known before execution speaks against a prediction.

    The write is smaller than the residual stream; the second-order term, and what it may have missed
    outside the directions, are below half of the first order.
    """
    columns = required(table)
    small = columns.size <= 1
    if columns.second is None or columns.missing is None:
        return small
    first = table.effect.double()
    allowed = _HALF * first.abs()
    return small & ((columns.second - first).abs() <= allowed) & (columns.missing <= allowed)


def required(table: ScoreTable) -> Downstream:
    """The columns of a table that has them."""
    if table.downstream is None:
        raise ValueError(
            "`table` must know the sizes of its writes; it does not. Use with_downstream(table)."
        )
    return table.downstream


def _per_row(table: ScoreTable, per_layer: list[float]) -> Tensor:
    numbers = torch.tensor([layer.layer for layer in table.capture.layers])
    figures = torch.tensor(per_layer, dtype=torch.float64)
    return figures[torch.searchsorted(numbers, table.layer)]
