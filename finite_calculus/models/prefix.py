"""The untouched prefix cache: computed once without a graph, read by any number of rows.

A `SharedLayer` hands out the prefix expanded to the batch with the new token appended, and stores
nothing, so that no row can leak into another. An `OwnLayer` hands out the new token alone, for an
attention that reads the prefix where it is.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import Cache, DynamicLayer

from finite_calculus.models.words import short_repr


@dataclass(frozen=True, eq=False)
class Prefix:
    """Keys and values of all tokens but the last `queries`, and the unedited batches computed from them.

    Layers that keep latents hold these; `expanded` has keys and values made of them, where they were needed.
    """

    __repr__ = short_repr

    ids: Tensor
    layers: tuple[DynamicLayer, ...]
    baselines: dict[int, Any] = field(default_factory=dict)
    queries: int = 1
    expanded: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)

    @property
    def last(self) -> Tensor:
        """The tokens after the prefix, as (1, queries)."""
        return self.ids[-self.queries :].unsqueeze(0)

    def device_of(self, number: int) -> torch.device:
        """Where a layer keeps its keys and values."""
        keys = self.layers[number].keys
        return self.ids.device if keys is None else keys.device

    def cache(self, kind: "type[SharedLayer] | None" = None) -> Cache:
        """A fresh read-only view for one forward pass of the last token."""
        view = SharedLayer if kind is None else kind
        return Cache(layers=[view(layer) for layer in self.layers])

    def digest(self) -> str:
        """A hash of all stored keys and values: equal before and after, or something wrote to them."""
        total = hashlib.sha256()
        for layer in self.layers:
            for stored in (layer.keys, layer.values):
                if stored is not None:
                    bits = stored.detach().cpu().contiguous().view(torch.uint8)
                    total.update(bits.numpy().tobytes())
        return total.hexdigest()


class SharedLayer(DynamicLayer):
    """A read-only cache layer: `update` returns prefix and new tokens and keeps neither."""

    def __init__(self, source: DynamicLayer) -> None:
        super().__init__()
        self.source = source
        self.is_sliding = source.is_sliding
        self.is_initialized = True
        self.keys, self.values = source.keys, source.values

    def update(self, key_states: Tensor, value_states: Tensor, *args, **kwargs):
        """Prefix, expanded over the rows, followed by the new token."""
        rows = key_states.shape[0]
        keys, values = self.source.keys, self.source.values
        if keys is None or values is None:
            raise ValueError(
                "The prefix must be filled before it is read; it is empty. Prepare it."
            )
        return (
            torch.cat([keys.expand(rows, -1, -1, -1), key_states], dim=-2),
            torch.cat([values.expand(rows, -1, -1, -1), value_states], dim=-2),
        )

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """As the layer that holds the prefix."""
        return self.source.get_mask_sizes(query_length)

    def get_seq_length(self) -> int:
        """As the layer that holds the prefix."""
        return self.source.get_seq_length()


class OwnLayer(SharedLayer):
    """A read-only cache layer whose `update` returns the new tokens alone."""

    def update(self, key_states: Tensor, value_states: Tensor, *args, **kwargs):
        """Nothing of the prefix: whoever attends reads it from `source`."""
        return key_states, value_states


def prepare_prefix(model: PreTrainedModel, ids: Tensor, *, queries: int = 1) -> Prefix:
    """Run all tokens but the last `queries` without a graph and keep their keys and values."""
    cache, first = DynamicCache(config=model.config), ids[:-queries].unsqueeze(0)
    with torch.no_grad():
        model.base_model(input_ids=first, past_key_values=cache, use_cache=True)
    unknown = [
        type(layer).__name__ for layer in cache.layers if not isinstance(layer, DynamicLayer)
    ]
    if unknown:
        raise ValueError(
            f"Every cache layer must hold keys and values; got {unknown[0]}. Not supported."
        )
    layers = tuple(layer for layer in cache.layers if isinstance(layer, DynamicLayer))
    return Prefix(ids, layers, queries=queries)
