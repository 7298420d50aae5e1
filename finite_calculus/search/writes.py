"""The candidates' writes as vectors, layer by layer: their sizes and their second-order terms.

Writes are formed in float32, in pieces, and not kept. Predicted effects stay those of the exact evaluator;
only the second-order term and the sizes come from here.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.models import Capture, Edit, LayerCapture, edited_bank, increments
from finite_calculus.models.edits import as_tuple
from finite_calculus.models.writes import kind_writes, token_writes
from finite_calculus.search.table import Part, places_of
from finite_calculus.sparse import prepare


@dataclass(frozen=True, eq=False)
class Terms:
    """Per candidate: norm of the write, and with curvature the second-order term and what is outside."""

    size: Float[Tensor, " rows"]
    term: Float[Tensor, " rows"] | None
    outside: Float[Tensor, " rows"] | None


def terms_of(capture: Capture, parts: tuple[Part, ...]) -> Terms:
    """Sizes and second-order terms of all rows of a table."""
    starts = torch.tensor([0, *(len(part.effect) for part in parts)]).cumsum(0)
    rows = int(starts[-1])
    columns = [torch.zeros(rows) for _ in range(3 if capture.curvature is not None else 1)]
    for numbers in places_of(parts):
        chosen = [parts[number] for number in numbers]
        for place, inside, writes in _writes(capture, chosen):
            index = starts[numbers[place]] + inside
            columns[0][index] = torch.linalg.vector_norm(writes.writes, dim=-1)
            if capture.curvature is not None:
                second = capture.curvature.second(writes.layer, writes.writes)
                columns[1][index], columns[2][index] = second.term, second.outside
    if len(columns) == 1:
        return Terms(columns[0].double(), None, None)
    size, term, outside = (column.double() for column in columns)
    return Terms(size, term, outside)


@dataclass(frozen=True, eq=False)
class _Writes:
    layer: int
    writes: Float[Tensor, "rows model"]


def _writes(capture: Capture, parts: list[Part]) -> Iterator[tuple[int, Tensor, _Writes]]:
    """Number of the part, its rows and their writes, for parts at the same places."""
    tokens = parts[0].tokens
    if tokens is None:
        yield from _listed(capture, parts[0])
        return
    kinds = tuple(part.kind for part in parts if part.kind is not None)
    groups = len(tokens)
    for place, number in enumerate(parts[0].layers.tolist()):
        layer = capture.layer(number)
        columns = tokens - layer.first
        if columns.shape[1] > 1:
            pieces = enumerate(_grouped(layer, kind, columns) for kind in kinds)
            for which, writes in pieces:
                yield which, place * groups + torch.arange(groups), _Writes(number, writes)
            continue
        done = 0
        for prepared in token_writes(layer, columns[:, 0]):
            rows = place * groups + done + torch.arange(len(prepared.columns))
            for which, writes in enumerate(kind_writes(prepared, kinds)):
                yield which, rows, _Writes(number, writes)
            done += len(prepared.columns)


def _listed(capture: Capture, part: Part) -> Iterator[tuple[int, Tensor, _Writes]]:
    for row, edits in enumerate(part.listed):
        write = capture.predict(edits).write.float().unsqueeze(0)
        yield 0, torch.tensor([row]), _Writes(as_tuple(edits)[0].layer, write)


def _grouped(layer: LayerCapture, kind: Edit, columns: Tensor) -> Float[Tensor, "groups model"]:
    """Writes of one kind at groups of several tokens."""
    prepared = prepare(layer.readout(), columns)
    if kind.removes:
        response = prepared.deletion()
    else:
        tokens = tuple((columns.unique() + layer.first).tolist())
        change = increments(layer, edited_bank(layer, kind.at(layer.layer, tokens)))
        picked = change.values.index_select(-2, columns.flatten())
        values = picked.reshape(layer.heads, *columns.shape, -1)
        response = prepared.response(change.scores[:, columns], values)
    flat = response.float().movedim(0, 1).flatten(1)
    return flat @ layer.output_projection.flatten(0, 1)
