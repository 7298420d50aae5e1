"""One kind of edit at all its places in a stack of layers: increments, exact response, parts.

The response of single tokens is that of `prepare_singles`, that of larger groups of `prepare`; both
are exact for the edited write. A deletion counts as a key edit: it is the limit of odds towards zero.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finite_calculus.joint import decompose
from finite_calculus.models import Edit, LayerBank, LayerCapture, edited_bank, increments
from finite_calculus.models.layer import Wrap, head_products
from finite_calculus.models.sinks import null_sink
from finite_calculus.search.stack import Stack, untracked
from finite_calculus.sparse import PreparedGroups, prepare


@dataclass(frozen=True, eq=False)
class Places:
    """Groups of key columns in a stack, prepared once for all kinds that are applied there."""

    stack: Stack
    columns: Int[Tensor, "groups members"]

    @cached_property
    def prepared(self) -> PreparedGroups:
        """The groups with their complements."""
        return prepare(self.stack.readout, self.columns)

    def pick(self, per_key: Tensor) -> Tensor:
        """Entries (..., keys) at the groups, as (..., groups, members)."""
        picked = per_key.index_select(-1, self.columns.flatten())
        return picked.reshape(*per_key.shape[:-1], *self.columns.shape)


@dataclass(frozen=True, eq=False)
class Block:
    """A kind at its places: increments of every key of a stack, contracted with the gradient.

    `scores` and `values` have shape (layers, heads, keys), or (1,) for an increment that all share;
    None stands for no change. `removes` marks a deletion.
    """

    kind: Edit
    places: Places
    scores: Float[Tensor, "*scores"] | None
    values: Float[Tensor, "*values"] | None
    removes: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Layers and groups."""
        return len(self.places.stack.layers), self.places.columns.shape[0]


@dataclass(frozen=True, eq=False)
class Effects:
    """Predicted effects of one block, (layers, groups), and their parts: `total` = key + value + both."""

    total: Float[Tensor, "layers groups"]
    key: Float[Tensor, "layers groups"]
    value: Float[Tensor, "layers groups"]
    interaction: Float[Tensor, "layers groups"]


def block_of(kind: Edit, places: Places, *, wrap: Wrap = untracked) -> Block:
    """The increments of a kind at all keys of a stack, from one edited bank for all layers or for each."""
    stack = places.stack
    tokens = tuple(stack.tokens(places.columns.unique()).tolist())
    layers = (stack.folded,) if kind.folds else stack.layers
    edits = [kind.at(layer.layer, tokens) for layer in layers]
    if kind.removes:
        return Block(kind, places, None, None, removes=True)
    shared = edits[0].common_score(layers[0])
    if shared is not None:
        return Block(kind, places, wrap(shared.to(stack.dtype)), None)
    gradients = stack.gradient.split([layer.heads for layer in layers])
    pairs = [
        contracted(layer, edited_bank(layer, edit), gradient, wrap=wrap)
        for layer, edit, gradient in zip(layers, edits, gradients, strict=True)
    ]
    return Block(
        kind,
        places,
        _stacked([scores for scores, _ in pairs], stack),
        _stacked([values for _, values in pairs], stack),
    )


def contracted(
    layer: LayerCapture,
    bank: LayerBank,
    gradient: Float[Tensor, "heads width"],
    *,
    wrap: Wrap = untracked,
) -> tuple[Tensor | None, Tensor | None]:
    """Score increments and contracted value increments (heads, keys) in float64; None for no change.

    d = q̃(k̃' − k̃)·scaling + bias and ⟨g_h, v' − v⟩, from differences of the rounded tensors. Capped
    scores take the route of `increments`.
    """
    scores = values = None
    if layer.softcap is not None or not torch.equal(bank.query, layer.query):
        change = increments(layer.in_float64(wrap), bank.in_float64(wrap))
        scores = change.scores[:, : bank.keys.shape[1]]
    elif bool(bank.bias.any()) or not torch.equal(bank.keys, layer.keys):
        moved = wrap(bank.keys.double()) - wrap(layer.keys.double())
        scores = head_products(wrap(layer.query.double()), moved) * layer.scaling
        scores = scores + wrap(bank.bias.double())
    if not torch.equal(bank.values, layer.values):
        moved = wrap(bank.values.double()) - wrap(layer.values.double())
        values = head_products(gradient.double(), moved)
    return scores, values


def effects_of(block: Block) -> Effects:
    """Predicted effects Σ_h ⟨g_h, Δy_h⟩ of all candidates of a block (main:scorecandidate)."""
    places = block.places
    if not places.columns.shape[0]:
        empty = torch.zeros(block.shape, dtype=places.stack.dtype)
        return Effects(empty, empty, empty, empty)
    if block.scores is not None and block.values is not None:
        return _joint(block)
    total = _single(block) if places.columns.shape[1] == 1 else _grouped(block)
    nothing = torch.zeros_like(total)
    if block.values is not None:
        return Effects(total, nothing, total, nothing)
    return Effects(total, total, nothing, nothing)


def group_increments(block: Block) -> tuple[Tensor, Tensor]:
    """Score and value increments at the groups, (layers, heads, groups, members), zeros filled in."""
    shape = block.places.pick(block.places.stack.readout.probs).shape
    zeros = torch.zeros(shape, dtype=block.places.stack.dtype)
    scores = zeros if block.scores is None else _picked(block, block.scores).expand(shape)
    values = zeros if block.values is None else _picked(block, block.values).expand(shape)
    return scores, values


def with_rest(increments_: Tensor) -> Tensor:
    """Increments of the members followed by that of the rest, which is zero."""
    return torch.cat([increments_, torch.zeros_like(increments_[..., :1])], -1)


def _picked(block: Block, increments_: Tensor) -> Tensor:
    if increments_.shape == (1,):
        return increments_
    return block.places.pick(increments_)


def _single(block: Block) -> Tensor:
    singles = block.places.stack.singles
    if block.removes:
        response = singles.deletion()
    elif block.values is not None:
        response = (singles.probs * block.values).unsqueeze(-1)
    else:
        response = singles.response(block.scores if block.scores is not None else _zero(block))
    return _over_heads(response.squeeze(-1)).index_select(-1, block.places.columns[:, 0])


def _grouped(block: Block) -> Tensor:
    prepared = block.places.prepared
    if block.removes:
        return _over_heads(prepared.deletion().squeeze(-1))
    scores, values = group_increments(block)
    if block.values is not None:
        return _over_heads((prepared.probs * values).sum(-1))
    return _over_heads(prepared.response(scores).squeeze(-1))


def _joint(block: Block) -> Effects:
    scores, values = group_increments(block)
    parts = decompose(
        block.places.prepared.small_readout, with_rest(scores), with_rest(values).unsqueeze(-1)
    )
    responses = (parts.total, parts.key, parts.value, parts.interaction)
    return Effects(*(_over_heads(response.squeeze(-1)) for response in responses))


def _over_heads(per_head: Float[Tensor, "layers heads groups"]) -> Float[Tensor, "layers groups"]:
    return per_head.sum(-2)


def _zero(block: Block) -> Tensor:
    """The increment of keys that keep their scores."""
    return torch.zeros(1, dtype=block.places.stack.dtype)


def _stacked(per_layer: list[Tensor | None], stack: Stack) -> Tensor | None:
    """Increments as (layers, heads, keys) in the stack's precision, a sink's zero appended."""
    changes = [increment for increment in per_layer if increment is not None]
    if not changes:
        return None
    zeros = torch.zeros_like(changes[0])
    joined = torch.cat([zeros if increment is None else increment for increment in per_layer])
    return null_sink(stack.unfold(joined), stack.folded.sinks).to(stack.dtype)
