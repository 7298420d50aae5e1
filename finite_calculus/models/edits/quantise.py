"""Keys and values rounded to a few bits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from finite_calculus.models.edits.base import (
    Edit,
    Edits,
    attended_tokens,
    register,
    replace_columns,
)
from finite_calculus.models.layer import LayerBank, LayerCapture
from finite_calculus.quantise import quantise

MOST_BITS = 32


@register
@dataclass(frozen=True, eq=False)
class Quantise(Edit):
    """Replace keys and values of tokens by their symmetric per-vector quantisation."""

    by_column: ClassVar[bool] = True
    folds: ClassVar[bool] = True
    words: ClassVar[tuple[str, ...]] = ("bits",)

    bits: int
    keys: bool = True
    values: bool = True

    def __post_init__(self) -> None:
        """Refuse more bits than the float32 has that is rounded."""
        super().__post_init__()
        if isinstance(self.bits, int) and self.bits > MOST_BITS:
            raise ValueError(
                f"`bits` must be at most {MOST_BITS}, since float32 has no more; got {self.bits:.6g}."
            )

    def apply(self, layer: LayerCapture, bank: LayerBank) -> LayerBank:
        """The simulated quantiser of the core, in the precision of the capture."""
        places = bank.places(self.columns(layer))
        keys = quantise(bank.keys[:, places], self.bits) if self.keys else None
        values = quantise(bank.values[:, places], self.bits) if self.values else None
        return replace_columns(bank, places, keys=keys, values=values)

    @classmethod
    def from_text(cls, word: str, amount: float | None) -> Edit:
        """Bits are whole."""
        if amount is None or not (amount.is_integer() and abs(amount) < 1e6):
            raise ValueError(f"AMOUNT of {word} must be a whole number; got {amount}.")
        return cls.anywhere(int(amount))

    @property
    def name(self) -> str:
        """As in "4 bits"."""
        return f"{self.bits} bits"

    @classmethod
    def examples(cls, layer: LayerCapture, donor: LayerCapture) -> Sequence[Edits]:
        """All tokens to four bits."""
        return (cls(layer.layer, attended_tokens(layer), 4),)
