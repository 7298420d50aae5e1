"""Tokens removed from the attended set."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from finite_calculus.models.edits.base import Edit, Edits, attended_tokens, register
from finite_calculus.models.layer import LayerBank, LayerCapture


@register
@dataclass(frozen=True, eq=False)
class Delete(Edit):
    """Remove tokens from the attended set of all heads, or of those named; something must remain."""

    by_column: ClassVar[bool] = True
    removes: ClassVar[bool] = True
    folds: ClassVar[bool] = True
    by_score: ClassVar[bool] = True
    words: ClassVar[tuple[str, ...]] = ("delete",)
    amount: ClassVar[bool] = False

    def apply(self, layer: LayerCapture, bank: LayerBank) -> LayerBank:
        """The removed set grows; in some heads alone, the lowest score there is has the same effect."""
        if self.heads is not None:
            bias = bank.bias.clone()
            places = bank.places(self.columns(layer))
            bias[self.rows(layer).unsqueeze(-1), places] = layer.precision.lowest
            return replace(bank, bias=bias)
        removed = bank.removed.index_fill(0, bank.places(self.columns(layer)), True)
        return replace(bank, removed=removed)

    @property
    def name(self) -> str:
        """The same for all of them."""
        return "delete"

    @classmethod
    def examples(cls, layer: LayerCapture, donor: LayerCapture) -> Sequence[Edits]:
        """The first two tokens, and the third in the first head."""
        tokens = attended_tokens(layer)
        return (cls(layer.layer, tokens[:2]), cls(layer.layer, tokens[2:3], heads=(0,)))
