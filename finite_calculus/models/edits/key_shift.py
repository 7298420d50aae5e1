"""Keys rotated to another position."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool
from torch import Tensor

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
from finite_calculus.rotary import Rotary, frequency_bands, rotate

# Thirds of a head's rotary planes, fastest first.
BANDS = ("fast", "middle", "slow")


@register
@dataclass(frozen=True, eq=False)
class KeyShift(Edit):
    """Rotate stored keys by `shift` positions in a band of rotary planes (default: all of them).

    `band` is a mask over the planes, or the name of the fast, middle or slow third of them.
    """

    by_column: ClassVar[bool] = True
    folds: ClassVar[bool] = True
    words: ClassVar[tuple[str, ...]] = ("shift", *BANDS)

    shift: float | int
    band: Bool[Tensor, " planes"] | str | None = None

    def __post_init__(self) -> None:
        """Refuse a shift that is not finite, and a band that is neither a mask nor the name of a third."""
        super().__post_init__()
        require_finite(self, "shift")
        if self.band is not None and not isinstance(self.band, Tensor) and self.band not in BANDS:
            raise ValueError(
                f"`band` must be one of {BANDS} or a boolean tensor over the rotary planes; got "
                f"{self.band!r}. Build a mask with frequency_bands(layer.rotary, sizes)."
            )

    def apply(self, layer: LayerCapture, bank: LayerBank) -> LayerBank:
        """Keys rotated in float64 from the stored frequencies and rounded once."""
        if layer.rotary is None:
            raise ValueError(
                f"`shift` needs a rotary layer; layer {layer.layer} has no rotary position. "
                f"Choose a layer whose capture has `rotary`."
            )
        columns = self.columns(layer)
        beyond = [
            t for t in self.tokens if layer.switch is not None and t + self.shift >= layer.switch
        ]
        if beyond:
            raise ValueError(
                f"`shift` must not carry a token to position {layer.switch} or beyond, where this "
                f"model switches its rotary frequencies; token {beyond[0]} would go to "
                f"{beyond[0] + self.shift}. Choose a smaller shift."
            )
        band = third(layer.rotary, self.band) if isinstance(self.band, str) else self.band
        places = bank.places(columns)
        turned = rotate(layer.rotary, bank.keys[:, places].double(), self.shift, band=band)
        return replace_columns(bank, places, keys=turned.to(bank.keys.dtype))

    @classmethod
    def from_text(cls, word: str, amount: float | None) -> Edit:
        """`shift` turns all planes, the name of a third that third."""
        return cls.anywhere(amount, word if word in BANDS else None)

    @property
    def name(self) -> str:
        """As in "fast +16"."""
        band = "band" if isinstance(self.band, Tensor) else self.band
        return f"{band or 'shift'} {self.shift:+g}"

    def allowed(self, layer: LayerCapture) -> Bool[Tensor, " keys"]:
        """Rotary layers, as far as their frequencies stay the same."""
        if layer.rotary is None:
            return torch.zeros_like(layer.attended)
        if layer.switch is None:
            return super().allowed(layer)
        return torch.arange(layer.first, layer.tokens.stop) + self.shift < layer.switch

    @classmethod
    def examples(cls, layer: LayerCapture, donor: LayerCapture) -> Sequence[Edits]:
        """A shift of the first two tokens, where the layer rotates."""
        if layer.rotary is None:
            return ()
        return (cls(layer.layer, attended_tokens(layer)[:2], 3.0),)

    @classmethod
    def idle_examples(cls, layer: LayerCapture, tokens: Tokens) -> Sequence[Edits]:
        """A shift by nothing."""
        return () if layer.rotary is None else (cls(layer.layer, tokens, 0.0),)


def third(rotary: Rotary, band: str) -> Bool[Tensor, " planes"]:
    """The fast, middle or slow third of the planes; 64 planes give the 22, 21 and 21 of Appendix G."""
    fast = -(-rotary.planes // 3)
    middle = -(-(rotary.planes - fast) // 2)
    sizes = (fast, middle, rotary.planes - fast - middle)
    return frequency_bands(rotary, sizes)[BANDS.index(band)]
