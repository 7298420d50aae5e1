"""Values multiplied by a factor."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from finite_calculus.models.edits.base import (
    Edit,
    Edits,
    Tokens,
    attended_tokens,
    register,
    replace_columns,
    require_finite,
)
from finite_calculus.models.layer import LayerBank, LayerCapture


@register
@dataclass(frozen=True, eq=False)
class ScaleValues(Edit):
    """Multiply the values of tokens by a factor; 0 silences them."""

    by_column: ClassVar[bool] = True
    folds: ClassVar[bool] = True
    words: ClassVar[tuple[str, ...]] = ("value",)

    factor: float | int = 0.0

    def __post_init__(self) -> None:
        """Refuse a factor that is not finite."""
        super().__post_init__()
        require_finite(self, "factor")

    def apply(self, layer: LayerCapture, bank: LayerBank) -> LayerBank:
        """Values scaled in the precision of the capture."""
        places = bank.places(self.columns(layer))
        return replace_columns(bank, places, values=bank.values[:, places] * self.factor)

    @property
    def name(self) -> str:
        """As in "value ×0"."""
        return f"value ×{self.factor:g}"

    @classmethod
    def examples(cls, layer: LayerCapture, donor: LayerCapture) -> Sequence[Edits]:
        """The first two tokens silenced."""
        return (cls(layer.layer, attended_tokens(layer)[:2]),)

    @classmethod
    def idle_examples(cls, layer: LayerCapture, tokens: Tokens) -> Sequence[Edits]:
        """Values times one."""
        return (cls(layer.layer, tokens, 1.0),)
