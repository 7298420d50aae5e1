"""Captured layers of one shape as a single readout of width 1: values contracted with the gradient once.

A predicted effect is ⟨g, Δy_h⟩ summed over heads, so the value of a key may be replaced by the number
a_j = ⟨g_h, v_j⟩ before any edit is evaluated (main:scorecandidate). The layers of a stack share their
attended set, so that one call evaluates them all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finite_calculus.margin import head_gradient
from finite_calculus.models import Capture, LayerCapture
from finite_calculus.models.layer import Wrap, head_products
from finite_calculus.models.sinks import null_sink, sink_mask, sink_scores
from finite_calculus.models.softcap import capped
from finite_calculus.readout import Readout, freeze
from finite_calculus.singles import PreparedSingles, prepare_singles

# Keys, over layers and heads, that one stack may hold: temporary tensors are this large.
_ENTRIES = 1 << 22


def untracked(tensor: Tensor) -> Tensor:
    """A tensor as it is; `track` in its place follows the rounding error."""
    return tensor


@dataclass(frozen=True, eq=False)
class Stack:
    """Layers with equal heads, keys and attended set, and their contracted readout.

    `folded` is all of them as one layer with more heads, and `gradient` that of its heads. A sink, where
    the layers have one, is the last key; `columns` are the attended key columns proper.
    """

    layers: tuple[LayerCapture, ...]
    folded: LayerCapture
    gradient: Float[Tensor, "heads width"]
    readout: Readout
    columns: Int[Tensor, " attended"]

    @cached_property
    def singles(self) -> PreparedSingles:
        """Every key prepared on its own."""
        return prepare_singles(self.readout)

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the evaluation."""
        return self.readout.probs.dtype

    def tokens(self, columns: Tensor) -> Tensor:
        """Token indices of key columns."""
        return columns + self.layers[0].first

    def unfold(self, per_head: Tensor) -> Tensor:
        """Tensors of the folded heads as (layers, heads, ...)."""
        return per_head.reshape(len(self.layers), -1, *per_head.shape[1:])


def stacks_of(
    capture: Capture, *, dtype: torch.dtype = torch.float64, wrap: Wrap = untracked
) -> tuple[Stack, ...]:
    """The captured layers, grouped into stacks; `wrap=track` follows the rounding error throughout."""
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"`dtype` must be torch.float64 or torch.float32; got {dtype}.")
    groups: dict[tuple, list[LayerCapture]] = {}
    for layer in capture.layers:
        groups.setdefault(_shape(layer), []).append(layer)
    return tuple(
        stack_of(part, dtype=dtype, wrap=wrap)
        for group in groups.values()
        for part in _split(group)
    )


def stack_of(
    layers: Sequence[LayerCapture], *, dtype: torch.dtype = torch.float64, wrap: Wrap = untracked
) -> Stack:
    """One stack of layers that have the same shape."""
    folded = fold(layers)
    gradient = torch.cat([layer_gradient(layer, dtype=dtype, wrap=wrap) for layer in layers])
    scores = head_products(wrap(folded.query.to(dtype)), wrap(folded.keys.to(dtype)))
    scores = sink_scores(capped(scores * folded.scaling, folded.softcap), folded.sinks)
    values = head_products(gradient, wrap(folded.values.to(dtype))).unsqueeze(-1)
    values = null_sink(values, folded.sinks, dim=-2)
    mask = sink_mask(folded.attended.expand(folded.heads, -1), folded.sinks)
    shape = (len(layers), -1, scores.shape[-1])
    readout = freeze(scores.reshape(shape), values.reshape(*shape, 1), mask=mask.reshape(shape))
    columns = folded.attended.nonzero().squeeze(-1)
    return Stack(tuple(layers), folded, gradient, readout, columns)


def fold(layers: Sequence[LayerCapture]) -> LayerCapture:
    """Layers of one shape as a single layer with all their heads, for edits of keys and values.

    What belongs to a layer's write is left empty: it cannot be folded.
    """
    first = layers[0]
    heads = sum(layer.heads for layer in layers)
    nothing = first.write[:0]
    return replace(
        first,
        query=torch.cat([layer.query for layer in layers]),
        keys=torch.cat([layer.keys for layer in layers]),
        values=torch.cat([layer.values for layer in layers]),
        sinks=_sinks(layers),
        output=torch.cat([layer.output for layer in layers]),
        write=nothing,
        output_projection=first.output.new_zeros(heads, first.output.shape[1], 0),
        output_bias=None,
        gradient_output=torch.cat([layer.gradient_output for layer in layers]),
        gradient_write=nothing,
        head_input=None,
        query_weight=None,
        query_bias=None,
        not_affine="several layers are folded into one",
    )


def _sinks(layers: Sequence[LayerCapture]) -> Tensor | None:
    sinks = [layer.sinks for layer in layers if layer.sinks is not None]
    return torch.cat(sinks) if sinks else None


def layer_gradient(
    layer: LayerCapture, *, dtype: torch.dtype, wrap: Wrap = untracked
) -> Float[Tensor, "heads width"]:
    """g_h = W_{o,h} gᵀ of one layer."""
    projection = wrap(layer.output_projection.to(dtype))
    return head_gradient(projection, wrap(layer.gradient_write.to(dtype)))


def _split(layers: list[LayerCapture]) -> list[list[LayerCapture]]:
    most = max(1, _ENTRIES // (layers[0].heads * layers[0].keys.shape[1]))
    return [layers[start : start + most] for start in range(0, len(layers), most)]


def _shape(layer: LayerCapture) -> tuple:
    """What the layers of a stack have in common."""
    rotary = layer.rotary
    turned = (
        None
        if rotary is None
        else (rotary.frequencies.numpy().tobytes(), rotary.layout, rotary.start)
    )
    return (
        tuple(layer.keys.shape),
        tuple(layer.values.shape),
        layer.heads,
        layer.first,
        layer.switch,
        layer.scaling,
        layer.softcap,
        layer.attended.numpy().tobytes(),
        turned,
        layer.sinks is None,
    )
