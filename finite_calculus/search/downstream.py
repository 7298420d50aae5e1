"""What is known of a prediction beyond the edited write before anything is executed.

The second order where the capture has it, the size of the write beside the residual stream that it enters,
how wrong the prediction may well be, and which candidates are worth executing to learn the rest from
(`anchors`). Derivatives at the baseline see no cliff at a distance; execution does.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch

from finite_calculus.models import Capture
from finite_calculus.search.anchors import choose_anchors
from finite_calculus.search.beyond import Downstream
from finite_calculus.search.block import Block
from finite_calculus.search.table import ScoreTable
from finite_calculus.search.writes import layer_writes

# One in so many candidates of a layer is an anchor, and at least a few.
ANCHOR_SHARE, LEAST_ANCHORS = 40, 8


def with_downstream(table: ScoreTable, blocks: Sequence[Block] = ()) -> ScoreTable:
    """The table with sizes and anchors of its writes and, if its capture has curvature, the second order.

    `blocks` are what the table was scored from, if that is at hand: it saves forming increments again.
    """
    capture, first = table.capture, table.effect.double()
    bend = capture.curvature
    size, term, outside, missing = (torch.zeros_like(first) for _ in range(4))
    anchors = []
    for part in layer_writes(capture, table.parts, blocks):
        number, residual, writes = part.layer.layer, part.layer.residual or 0.0, part.writes
        if bend is None:
            norm = torch.linalg.vector_norm(writes, dim=-1).double()
        else:
            second = bend.second(number, writes)
            norm = second.size.double()
            term[part.rows] = second.term.double()
            outside[part.rows] = second.outside.double() / torch.where(norm > 0, norm, 1.0)
            missing[part.rows] = 0.5 * bend.steepest(number) * second.outside.double().square()
        size[part.rows] = norm / residual
        anchors.append(
            choose_anchors(
                part.rows,
                writes,
                norm,
                residual=residual,
                degree=2 if bend is None else 3,
                count=max(LEAST_ANCHORS, -(-len(part.rows) // ANCHOR_SHARE)),
            )
        )
    # What the highest known order leaves open, as large as that order times the size.
    known = first if bend is None else term
    scale = size * known.abs() + missing + noise_floor(capture)
    if bend is None:
        return replace(table, downstream=Downstream(size, scale, tuple(anchors)))
    return replace(
        table,
        downstream=Downstream(size, scale, tuple(anchors), first + term, outside, missing),
    )


def noise_floor(capture: Capture) -> float:
    """The spacing of the two logits, a few times: executed effects below it are rounding."""
    spacing = 2 * capture.layers[0].precision.coarsest.unit
    return 8 * spacing * float(capture.logits.abs().max())


def required(table: ScoreTable) -> Downstream:
    """The columns of a table that has them."""
    if table.downstream is None:
        raise ValueError(
            "`table` must know the sizes of its writes; it does not. Use with_downstream(table)."
        )
    return table.downstream
