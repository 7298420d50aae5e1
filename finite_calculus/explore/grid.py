"""Predicted effects as arrays over layers and tokens: of every kind, of one kind, of one head."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finite_calculus.joint import decompose
from finite_calculus.models import Capture, Edit
from finite_calculus.search import Family, ScoreTable, score
from finite_calculus.search.block import Places, block_of, group_increments, with_rest
from finite_calculus.search.stack import stack_of


@dataclass(frozen=True, eq=False)
class Grid:
    """A table of single tokens by kind, layer and token; nan and −1 where there is no candidate."""

    effect: Float[Tensor, "kinds layers tokens"]
    row: Int[Tensor, "kinds layers tokens"]


def grid_of(table: ScoreTable, kinds: Sequence[Edit]) -> Grid:
    """The grid of a table whose kinds are these objects."""
    numbers = {layer: n for n, layer in enumerate(table.capture.numbers)}
    places = {id(kind): n for n, kind in enumerate(kinds)}
    shape = (len(kinds), len(numbers), len(table.capture.ids))
    effect = torch.full(shape, torch.nan, dtype=torch.float64)
    row = torch.full(shape, -1, dtype=torch.int64)
    for part, start in zip(table.parts, table.starts.tolist(), strict=False):
        if part.tokens is None or part.kind is None:
            raise ValueError("`table` must be of a family of single tokens; it has listed edits.")
        layers = torch.tensor([numbers[layer] for layer in part.layers.tolist()])
        where = (places[id(part.kind)], layers.unsqueeze(-1), part.tokens[:, 0])
        size = (len(layers), len(part.tokens))
        effect[where] = part.effect.double().reshape(size)
        row[where] = torch.arange(start, start + len(part.effect)).reshape(size)
    return Grid(effect, row)


def kind_effects(capture: Capture, kind: Edit) -> Float[Tensor, "layers tokens"]:
    """Predicted effects of one kind at every token of every layer."""
    return grid_of(score(capture, Family((kind,))), (kind,)).effect[0]


def head_effects(capture: Capture, kind: Edit, head: int) -> Float[Tensor, "layers tokens"]:
    """What one head contributes to them: the effect of its own exact response."""
    effect = torch.full((len(capture.layers), len(capture.ids)), torch.nan, dtype=torch.float64)
    for out, layer in zip(effect, capture.layers, strict=True):
        if head not in range(layer.heads):
            raise ValueError(f"`head` must lie in 0..{layer.heads - 1}; got {head}.")
        stack = stack_of((layer,))
        columns = stack.columns[kind.allowed(layer)[stack.columns]]
        if not len(columns):
            continue
        places = Places(stack, columns.unsqueeze(-1))
        block = block_of(kind, places)
        if block.removes:
            response = places.prepared.deletion()
        else:
            scores, values = (with_rest(x) for x in group_increments(block))
            readout = places.prepared.small_readout
            response = decompose(readout, scores, values.unsqueeze(-1)).total
        out[stack.tokens(columns)] = response[0, head, :, 0]
    return effect


def one_layer(capture: Capture, layer: int) -> Capture:
    """The capture with one of its layers alone."""
    return replace(capture, layers=(capture.layer(layer),), curvature=None)
