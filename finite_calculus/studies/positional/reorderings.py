"""Phase, context and interaction of the actual reorderings of a set (eq:phasecontent).

Tokens of two orders correspond one to one. The observed queries and keys are turned back to position
zero in float64 and turned again to the positions of a cell; values have no position. The query is the last
token of both prompts and stays where it is.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finite_calculus.margin import project
from finite_calculus.models import LayerCapture, local_error
from finite_calculus.models.layer import head_products, repeat_groups
from finite_calculus.readout import freeze
from finite_calculus.reordering import PhaseContext, phase_context
from finite_calculus.rotary import rotate
from finite_calculus.studies.positional.predictors import rotary_of
from finite_calculus.studies.positional.rows import Reordering
from finite_calculus.studies.positional.variant import Part, Variant

_UNIT = torch.finfo(torch.float64).eps / 2


def reordering_part(original: Variant, others: Sequence[Variant], layers: Sequence[int]) -> Part:
    """Every reordering at every layer, against the original order."""
    rows: list[Reordering] = []
    checks: dict[str, list[tuple[float, float]]] = {}
    for number in layers:
        endpoints: list[tuple[float, float]] = []
        sums: list[tuple[float, float]] = []
        layer = original.capture.layer(number)
        bound = local_error(layer).write
        for other in others:
            moved = other.capture.layer(number)
            places = torch.tensor(original.tokens.positions(other.number))
            cells = _cells(layer, moved, places)
            parts = phase_context(*cells)
            endpoints += [
                _endpoint(cells[0], layer, bound),
                _endpoint(cells[3], moved, local_error(moved).write),
            ]
            rows.append(_row(original, other, number, parts))
            sums.append(_sum_to_total(rows[-1], parts))
        at = f"reordering, layer {number}: "
        checks[at + "endpoints against the native writes"] = endpoints
        checks[at + "phase, context and interaction sum to the total"] = sums
    return Part(rows, checks)


def _cells(
    layer: LayerCapture, moved: LayerCapture, places: Int[Tensor, " tokens"]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """o⁰⁰, o¹⁰, o⁰¹, o¹¹; both contents in the order of the original tokens."""
    here = torch.arange(len(places))
    first = _content(layer, here)
    second = _content(moved, places)
    return (
        _write(layer, *first, here),
        _write(layer, *first, places),
        _write(moved, *second, here),
        _write(moved, *second, places),
    )


def _content(
    layer: LayerCapture, places: Int[Tensor, " tokens"]
) -> tuple[Float[Tensor, "groups tokens width"], Float[Tensor, "groups tokens value_width"]]:
    """Keys turned back to position zero, and values, of the tokens at `places`."""
    keys = layer.keys[:, places].double()
    return rotate(rotary_of(layer), keys, -places.double()), layer.values[:, places].double()


def _write(
    layer: LayerCapture,
    keys: Float[Tensor, "groups tokens width"],
    values: Float[Tensor, "groups tokens value_width"],
    places: Int[Tensor, " tokens"],
) -> Float[Tensor, " model"]:
    """The projected write of a layer's query over contents at positions."""
    turned = rotate(rotary_of(layer), keys, places.double())
    scores = head_products(layer.query.double(), turned) * layer.scaling
    readout = freeze(scores, repeat_groups(values, layer.heads))
    return project(readout.output, layer.output_projection.double())


def _endpoint(
    cell: Tensor, layer: LayerCapture, bound: Float[Tensor, " model"]
) -> tuple[float, float]:
    """The distance of a cell from the native write, and what float32 allows."""
    write = layer.write.double()
    if layer.output_bias is not None:
        write = write - layer.output_bias.double()
    return float(torch.linalg.vector_norm(cell - write)), float(torch.linalg.vector_norm(bound))


def _row(original: Variant, other: Variant, layer: int, parts: PhaseContext) -> Reordering:
    return Reordering(
        *original.place,
        variant=other.number,
        layer=layer,
        phase=float(torch.dot(parts.phase, parts.total)),
        context=float(torch.dot(parts.context, parts.total)),
        interaction=float(torch.dot(parts.interaction, parts.total)),
        total=float(torch.dot(parts.total, parts.total)),
    )


def _sum_to_total(row: Reordering, parts: PhaseContext) -> tuple[float, float]:
    """⟨Φ + C + J, T⟩ − ‖T‖², and the rounding of the three products with |T|."""
    gap = abs(row.phase + row.context + row.interaction - row.total)
    sizes = parts.phase.abs() + parts.context.abs() + parts.interaction.abs() + parts.total.abs()
    scale = float(torch.dot(sizes, parts.total.abs()))
    return gap, (len(parts.total) + 8) * _UNIT * scale
