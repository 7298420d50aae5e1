"""Keys and values moved towards those of another prompt."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

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
from finite_calculus.models.layer import LayerBank, LayerCapture, by_groups_of


@runtime_checkable
class Donor(Protocol):
    """A capture of all layers, from which each layer's own donor is taken."""

    def layer(self, layer: int) -> LayerCapture:
        """The capture of one layer."""
        ...


@register
@dataclass(frozen=True, eq=False)
class Replace(Edit):
    """Move keys and values towards those of a donor: x + strength·(donor − x).

    `donor` is the capture of a prompt of equal token length, or its capture of the same layer.
    """

    by_column: ClassVar[bool] = True

    donor: LayerCapture | Donor
    strength: float | int = 1.0
    keys: bool = True
    values: bool = True

    def __post_init__(self) -> None:
        """Refuse a strength that is not finite, and a donor that is no capture."""
        super().__post_init__()
        require_finite(self, "strength")
        if not isinstance(self.donor, LayerCapture) and not isinstance(self.donor, Donor):
            raise TypeError(
                f"`donor` must be a capture, or a captured layer; got {type(self.donor).__name__}. "
                f"Capture the donor prompt with this instrument."
            )

    def apply(self, layer: LayerCapture, bank: LayerBank) -> LayerBank:
        """At strength 1 the donor's tensors are taken as they are."""
        donor = self.donor
        if not isinstance(donor, LayerCapture):
            donor = donor.layer(layer.layer)
        if donor.layer != layer.layer or donor.keys.shape != layer.keys.shape:
            raise ValueError(
                f"`donor` must be a capture of layer {layer.layer} with keys of shape "
                f"{tuple(layer.keys.shape)}; got layer {donor.layer} with "
                f"{tuple(donor.keys.shape)}. Prompts must have equal token length."
            )
        columns = self.columns(layer)
        places = bank.places(columns)
        keys = self._mix(bank.keys, donor.keys, places, columns) if self.keys else None
        values = self._mix(bank.values, donor.values, places, columns) if self.values else None
        return replace_columns(bank, places, keys=keys, values=values)

    @property
    def name(self) -> str:
        """As in "donor KV 0.5"."""
        what = ("K" if self.keys else "") + ("V" if self.values else "")
        return f"donor {what} {self.strength:g}"

    @classmethod
    def examples(cls, layer: LayerCapture, donor: LayerCapture) -> Sequence[Edits]:
        """The whole prefix, and keys alone half-way for the last two tokens."""
        tokens = attended_tokens(layer)
        return (
            cls(layer.layer, tokens[:-1], donor),
            cls(layer.layer, tokens[-2:], donor, strength=0.5, values=False),
        )

    @classmethod
    def idle_examples(cls, layer: LayerCapture, tokens: Tokens) -> Sequence[Edits]:
        """A layer as its own donor."""
        return (cls(layer.layer, tokens, layer),)

    def _mix(self, here: Tensor, there: Tensor, places: Tensor, columns: Tensor) -> Tensor:
        there = there[:, columns].to(here.dtype)
        if self.strength == 1:
            return there
        here, there = here[:, places], by_groups_of(here, there)
        return here + self.strength * (there - here)
