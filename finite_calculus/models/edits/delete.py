"""Tokens removed from the attended set."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from finite_calculus.models.edits.base import Edit, Edits, attended_tokens, register
from finite_calculus.models.layer import LayerBank, LayerCapture


@register
@dataclass(frozen=True, eq=False)
class Delete(Edit):
    """Remove tokens from the attended set of every head; something must remain attended."""

    by_column: ClassVar[bool] = True
    removes: ClassVar[bool] = True
    folds: ClassVar[bool] = True
    words: ClassVar[tuple[str, ...]] = ("delete",)
    amount: ClassVar[bool] = False

    def apply(self, layer: LayerCapture, bank: LayerBank) -> LayerBank:
        """The removed set grows."""
        removed = bank.removed.index_fill(0, bank.places(self.columns(layer)), True)
        return replace(bank, removed=removed)

    @property
    def name(self) -> str:
        """The same for all of them."""
        return "delete"

    @classmethod
    def examples(cls, layer: LayerCapture, donor: LayerCapture) -> Sequence[Edits]:
        """The first two tokens."""
        return (cls(layer.layer, attended_tokens(layer)[:2]),)
