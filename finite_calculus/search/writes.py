"""The candidates' writes as vectors, layer by layer.

Writes are formed in float32 and not kept beyond their layer. Predicted effects stay those of the exact
evaluator; only what is known of the writes beyond their effects comes from here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finite_calculus.models import Capture, Edit, LayerCapture, edited_bank, increments
from finite_calculus.models.writes import kind_writes, token_pulls
from finite_calculus.search.block import Block
from finite_calculus.search.table import Part, places_of
from finite_calculus.sparse import prepare


@dataclass(frozen=True, eq=False)
class LayerWrites:
    """All candidates of a table in one layer: their rows and their writes."""

    layer: LayerCapture
    rows: Int[Tensor, " rows"]
    writes: Float[Tensor, "rows model"]


def layer_writes(
    capture: Capture, parts: tuple[Part, ...], blocks: Sequence[Block] = ()
) -> Iterator[LayerWrites]:
    """The writes of all rows of a table, layer by layer; `blocks` are those of the parts, where known."""
    starts = [0, *accumulate(len(part.effect) for part in parts)]
    groups = places_of(parts)
    for layer in capture.layers:
        pieces = [
            piece
            for numbers in groups
            for piece in _writes(
                capture,
                layer,
                [parts[n] for n in numbers],
                torch.tensor([starts[n] for n in numbers]),
                [blocks[n] for n in numbers] if blocks else [],
            )
        ]
        if pieces:
            yield LayerWrites(layer, *pieces[0]) if len(pieces) == 1 else _joined(layer, pieces)


def _joined(layer: LayerCapture, pieces: list[tuple[Tensor, Tensor]]) -> LayerWrites:
    rows, writes = zip(*pieces, strict=True)
    return LayerWrites(layer, torch.cat(rows), torch.cat(writes))


def _writes(
    capture: Capture,
    layer: LayerCapture,
    parts: list[Part],
    starts: Int[Tensor, " parts"],
    blocks: list[Block],
) -> Iterator[tuple[Int[Tensor, " rows"], Float[Tensor, "rows model"]]]:
    """Rows in a layer and their writes, for parts at the same places that begin at `starts`."""
    tokens = parts[0].tokens
    numbers = parts[0].layers.tolist()
    if tokens is None:
        for row, edits in enumerate(parts[0].listed):
            if numbers[row] == layer.layer:
                yield starts + row, capture.predict(edits).write.float().unsqueeze(0)
        return
    if layer.layer not in numbers:
        return
    at = numbers.index(layer.layer)
    first = starts + at * len(tokens)
    kinds = tuple(part.kind for part in parts if part.kind is not None)
    columns = tokens - layer.first
    if columns.shape[1] > 1:
        every = torch.arange(len(tokens))
        for start, kind in zip(first, kinds, strict=True):
            yield start + every, _grouped(layer, kind, columns)
        return
    known = {n: _scores_at(block, at) for n, block in enumerate(blocks) if _only_scores(block)}
    for prepared in token_pulls(layer, columns[:, 0]):
        here = torch.arange(len(prepared.columns))
        # One column after the other, the order in which the writes are formed.
        yield (
            (here.unsqueeze(1) + first).flatten(),
            kind_writes(prepared, kinds, known).flatten(0, 1),
        )
        first = first + len(here)


def _only_scores(block: Block) -> bool:
    return block.scores is not None and block.values is None and not block.removes


def _scores_at(block: Block, place: int) -> Float[Tensor, "heads keys"]:
    """The score increments of a block at one of its layers."""
    probs = block.places.stack.readout.probs
    return torch.as_tensor(block.scores).expand(probs.shape)[place]


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
    return flat @ layer.output_projection.float().flatten(0, 1)
