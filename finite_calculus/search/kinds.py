"""Kinds of edits: what is done to a token, whichever token it is.

A kind gives the edit of any tokens of a layer and must act on each of them by itself. Its increments at
all tokens of a layer then follow from one edited bank, and no candidate needs an object of its own.
A kind of your own is a subclass with `name` and `edit`.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool
from torch import Tensor

from finite_calculus.models import (
    Capture,
    Delete,
    Edit,
    KeyShift,
    LayerCapture,
    Odds,
    Quantise,
    Replace,
    ScaleValues,
)
from finite_calculus.rotary import Rotary, frequency_bands

BANDS = ("fast", "middle", "slow")
Tokens = tuple[int, ...]


class Kind:
    """What is done to tokens; subclasses give a `name` and the `edit`.

    `folds` says that the edit depends on nothing but the head's own keys and values, so that many
    layers may be edited as one; the edit is the same for either value, and faster if True.
    """

    folds: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """A few words for a table."""
        raise NotImplementedError(f"{type(self).__name__} must define name.")

    def edit(self, layer: LayerCapture, tokens: Tokens) -> Edit:
        """The edit of these tokens at this layer, each token by itself."""
        raise NotImplementedError(f"{type(self).__name__} must define edit.")

    def allowed(self, layer: LayerCapture) -> Bool[Tensor, " keys"]:
        """The key columns that may be edited; none where the layer does not permit this kind."""
        return torch.ones_like(layer.attended)


@dataclass(frozen=True)
class MultiplyOdds(Kind):
    """Multiply the attention odds in every head."""

    folds: ClassVar[bool] = True

    multiplier: float | int

    @property
    def name(self) -> str:
        """As in "odds ×64"."""
        return f"odds ×{self.multiplier:g}"

    def edit(self, layer: LayerCapture, tokens: Tokens) -> Edit:
        """An `Odds` edit."""
        return Odds(layer.layer, tokens, self.multiplier)


@dataclass(frozen=True)
class Remove(Kind):
    """Delete from the attended set."""

    folds: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """ "delete"."""
        return "delete"

    def edit(self, layer: LayerCapture, tokens: Tokens) -> Edit:
        """A `Delete` edit."""
        return Delete(layer.layer, tokens)


@dataclass(frozen=True)
class ScaleValue(Kind):
    """Multiply the values by a factor; 0 silences them."""

    folds: ClassVar[bool] = True

    factor: float | int = 0.0

    @property
    def name(self) -> str:
        """As in "value ×0"."""
        return f"value ×{self.factor:g}"

    def edit(self, layer: LayerCapture, tokens: Tokens) -> Edit:
        """A `ScaleValues` edit."""
        return ScaleValues(layer.layer, tokens, self.factor)


@dataclass(frozen=True)
class Shift(Kind):
    """Rotate stored keys by a number of positions in one third of the planes, or in all of them."""

    folds: ClassVar[bool] = True

    shift: float | int
    band: str | None = None

    def __post_init__(self) -> None:
        if self.band is not None and self.band not in BANDS:
            raise ValueError(f"`band` must be one of {BANDS} or None; got {self.band!r}.")

    @property
    def name(self) -> str:
        """As in "fast +16"."""
        return f"{self.band or 'shift'} {self.shift:+g}"

    def edit(self, layer: LayerCapture, tokens: Tokens) -> Edit:
        """A `KeyShift` edit."""
        if layer.rotary is None or self.band is None:
            return KeyShift(layer.layer, tokens, self.shift)
        return KeyShift(layer.layer, tokens, self.shift, third(layer.rotary, self.band))

    def allowed(self, layer: LayerCapture) -> Bool[Tensor, " keys"]:
        """Rotary layers, as far as their frequencies stay the same."""
        if layer.rotary is None:
            return torch.zeros_like(layer.attended)
        if layer.switch is None:
            return super().allowed(layer)
        return torch.arange(layer.first, layer.tokens.stop) + self.shift < layer.switch


@dataclass(frozen=True, eq=False)
class Towards(Kind):
    """Move keys and values towards those of a donor prompt: x + strength·(donor − x)."""

    donor: Capture
    strength: float | int = 1.0
    keys: bool = True
    values: bool = True

    @property
    def name(self) -> str:
        """As in "donor KV 0.5"."""
        what = ("K" if self.keys else "") + ("V" if self.values else "")
        return f"donor {what} {self.strength:g}"

    def edit(self, layer: LayerCapture, tokens: Tokens) -> Edit:
        """A `Replace` edit."""
        donor = self.donor.layer(layer.layer)
        return Replace(layer.layer, tokens, donor, self.strength, self.keys, self.values)


@dataclass(frozen=True)
class Round(Kind):
    """Quantise keys and values to a number of bits."""

    folds: ClassVar[bool] = True

    bits: int

    @property
    def name(self) -> str:
        """As in "4 bits"."""
        return f"{self.bits} bits"

    def edit(self, layer: LayerCapture, tokens: Tokens) -> Edit:
        """A `Quantise` edit."""
        return Quantise(layer.layer, tokens, self.bits)


def third(rotary: Rotary, band: str) -> Bool[Tensor, " planes"]:
    """The fast, middle or slow third of the planes; 64 planes give the 22, 21 and 21 of Appendix G."""
    fast = -(-rotary.planes // 3)
    middle = -(-(rotary.planes - fast) // 2)
    sizes = (fast, middle, rotary.planes - fast - middle)
    return frequency_bands(rotary, sizes)[BANDS.index(band)]
