"""The query moved."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.models.edits.base import Edit, Edits, register
from finite_calculus.models.layer import LayerBank, LayerCapture


@register
@dataclass(frozen=True, eq=False)
class QueryEdit(Edit):
    """Add a rotated query increment of shape (heads, width); `tokens` stays empty."""

    delta: Float[Tensor, "heads width"]

    def apply(self, layer: LayerCapture, bank: LayerBank) -> LayerBank:
        """q̃ + Δ."""
        if self.delta.shape != layer.query.shape:
            raise ValueError(
                f"`delta` must have shape {tuple(layer.query.shape)}, that is (heads, width); got "
                f"{tuple(self.delta.shape)}. It is an increment of the rotated query."
            )
        return replace(bank, query=bank.query + self.delta.to(bank.query.dtype))

    @classmethod
    def examples(cls, layer: LayerCapture, donor: LayerCapture) -> Sequence[Edits]:
        """A random nudge of every head."""
        generator = torch.Generator().manual_seed(layer.layer)
        nudge = torch.randn(layer.query.shape, generator=generator) * 0.1 * layer.query.std()
        return (cls(layer.layer, (), nudge),)
