"""Captured keys and values put back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from finite_calculus.models.edits.base import Edit, Edits, Tokens, register, replace_columns
from finite_calculus.models.layer import LayerBank, LayerCapture


@register
@dataclass(frozen=True, eq=False)
class Restore(Edit):
    """Put the captured keys and values of tokens back, after an edit that changed them."""

    by_column: ClassVar[bool] = True
    folds: ClassVar[bool] = True

    keys: bool = True
    values: bool = True

    def apply(self, layer: LayerCapture, bank: LayerBank) -> LayerBank:
        """Captured tensors in place of edited ones; biases and deletions stay."""
        columns = self.columns(layer)
        keys = layer.keys[:, columns] if self.keys else None
        values = layer.values[:, columns] if self.values else None
        return replace_columns(bank, bank.places(columns), keys=keys, values=values)

    @classmethod
    def examples(cls, layer: LayerCapture, donor: LayerCapture) -> Sequence[Edits]:
        """None: alone it changes nothing."""
        return ()

    @classmethod
    def idle_examples(cls, layer: LayerCapture, tokens: Tokens) -> Sequence[Edits]:
        """What was never changed, put back."""
        return (cls(layer.layer, tokens),)
