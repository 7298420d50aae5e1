"""Edits of one attention readout, as small frozen dataclasses that compose.

An edit takes a bank to an edited bank, in the float32 of the model. The same rounded tensors are
given to the native execution and to the prediction's score and value increments, so that the two
differ by nothing but arithmetic. A tuple of edits is applied from left to right.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from finite_calculus.models.layer import Bank, LayerCapture
from finite_calculus.quantise import quantise
from finite_calculus.rotary import rotate

Tokens = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Edit:
    """An edit of the given tokens (key columns) at one layer's last query."""

    layer: int
    tokens: Tokens

    def apply(self, layer: LayerCapture, bank: Bank) -> Bank:
        """The edited bank."""
        raise NotImplementedError(f"{type(self).__name__} must define apply.")

    def columns(self, layer: LayerCapture) -> Tensor:
        """Key columns of the edited tokens in this layer."""
        if not self.tokens:
            raise ValueError(
                f"`tokens` of {type(self).__name__} must name at least one token; got none."
            )
        return torch.tensor([layer.column(token) for token in self.tokens])


@dataclass(frozen=True, eq=False)
class KeyShift(Edit):
    """Rotate stored keys by `shift` positions in a band of rotary planes (default: all of them)."""

    shift: float | int
    band: Bool[Tensor, " planes"] | None = None

    def __post_init__(self) -> None:
        """Refuse a band that is not a mask, such as its name."""
        if self.band is not None and not isinstance(self.band, Tensor):
            raise TypeError(
                f"`band` must be a boolean tensor over the rotary planes; got {self.band!r}. "
                f"Build it with frequency_bands(layer.rotary, sizes)."
            )

    def apply(self, layer: LayerCapture, bank: Bank) -> Bank:
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
        places = bank.places(columns)
        turned = rotate(layer.rotary, bank.keys[:, places].double(), self.shift, band=self.band)
        return _replaced(bank, places, keys=turned.to(bank.keys.dtype))


@dataclass(frozen=True, eq=False)
class Replace(Edit):
    """Move keys and values towards those of a donor: x + strength·(donor − x).

    `donor` is the capture of the same layer on a prompt of equal token length.
    """

    donor: LayerCapture
    strength: float | int = 1.0
    keys: bool = True
    values: bool = True

    def apply(self, layer: LayerCapture, bank: Bank) -> Bank:
        """At strength 1 the donor's tensors are taken as they are."""
        if self.donor.layer != layer.layer or self.donor.keys.shape != layer.keys.shape:
            raise ValueError(
                f"`donor` must be a capture of layer {layer.layer} with keys of shape "
                f"{tuple(layer.keys.shape)}; got layer {self.donor.layer} with "
                f"{tuple(self.donor.keys.shape)}. Prompts must have equal token length."
            )
        columns = self.columns(layer)
        places = bank.places(columns)
        keys = self._mix(bank.keys, self.donor.keys, places, columns) if self.keys else None
        values = self._mix(bank.values, self.donor.values, places, columns) if self.values else None
        return _replaced(bank, places, keys=keys, values=values)

    def _mix(self, here: Tensor, there: Tensor, places: Tensor, columns: Tensor) -> Tensor:
        there = there[:, columns]
        if self.strength == 1:
            return there
        here = here[:, places]
        return here + self.strength * (there - here)


@dataclass(frozen=True, eq=False)
class Odds(Edit):
    """Multiply the attention odds of tokens, in all heads or in those named."""

    multiplier: float | int
    heads: tuple[int, ...] | None = None

    def apply(self, layer: LayerCapture, bank: Bank) -> Bank:
        """log(multiplier), rounded to float32, is added to the scores."""
        if not (self.multiplier > 0 and math.isfinite(self.multiplier)):
            raise ValueError(
                f"`multiplier` must be positive and finite; got {self.multiplier}. "
                f"To remove tokens altogether use Delete."
            )
        rows = _heads(layer, self.heads)
        bias = bank.bias.clone()
        bias[rows.unsqueeze(-1), bank.places(self.columns(layer))] += math.log(self.multiplier)
        return replace(bank, bias=bias)


@dataclass(frozen=True, eq=False)
class Delete(Edit):
    """Remove tokens from the attended set of every head."""

    def apply(self, layer: LayerCapture, bank: Bank) -> Bank:
        """The removed set grows; something must remain attended."""
        removed = bank.removed.index_fill(0, bank.places(self.columns(layer)), True)
        held = layer.attended if bank.columns is None else layer.attended[bank.columns]
        gone = int((held & removed).sum())
        if layer.sinks is None and gone == int(layer.attended.sum()):
            raise ValueError(
                f"`tokens` must leave at least one attended key; Delete removes all "
                f"{int(layer.attended.sum())} of layer {layer.layer}. Name fewer tokens."
            )
        return replace(bank, removed=removed)


@dataclass(frozen=True, eq=False)
class ScaleValues(Edit):
    """Multiply the values of tokens by a factor; 0 silences them."""

    factor: float | int = 0.0

    def apply(self, layer: LayerCapture, bank: Bank) -> Bank:
        """Values scaled in float32."""
        places = bank.places(self.columns(layer))
        return _replaced(bank, places, values=bank.values[:, places] * self.factor)


@dataclass(frozen=True, eq=False)
class Quantise(Edit):
    """Replace keys and values of tokens by their symmetric per-vector quantisation."""

    bits: int
    keys: bool = True
    values: bool = True

    def apply(self, layer: LayerCapture, bank: Bank) -> Bank:
        """The simulated quantiser of the core, in float32."""
        places = bank.places(self.columns(layer))
        keys = quantise(bank.keys[:, places], self.bits) if self.keys else None
        values = quantise(bank.values[:, places], self.bits) if self.values else None
        return _replaced(bank, places, keys=keys, values=values)


@dataclass(frozen=True, eq=False)
class Restore(Edit):
    """Put the captured keys and values of tokens back, after an edit that changed them."""

    keys: bool = True
    values: bool = True

    def apply(self, layer: LayerCapture, bank: Bank) -> Bank:
        """Captured tensors in place of edited ones; biases and deletions stay."""
        columns = self.columns(layer)
        keys = layer.keys[:, columns] if self.keys else None
        values = layer.values[:, columns] if self.values else None
        return _replaced(bank, bank.places(columns), keys=keys, values=values)


@dataclass(frozen=True, eq=False)
class QueryEdit(Edit):
    """Add a rotated query increment of shape (heads, width); `tokens` stays empty."""

    delta: Float[Tensor, "heads width"]

    def apply(self, layer: LayerCapture, bank: Bank) -> Bank:
        """q̃ + Δ in float32."""
        if self.delta.shape != layer.query.shape:
            raise ValueError(
                f"`delta` must have shape {tuple(layer.query.shape)}, that is (heads, width); got "
                f"{tuple(self.delta.shape)}. It is an increment of the rotated query."
            )
        return replace(bank, query=bank.query + self.delta.to(bank.query.dtype))


Edits = Edit | tuple[Edit, ...]


def as_tuple(edits: Edits) -> tuple[Edit, ...]:
    """One edit or several as a tuple, all of one layer: a counterfactual edits one readout."""
    found = edits if isinstance(edits, tuple) else (edits,)
    if not found or len({edit.layer for edit in found}) != 1:
        raise ValueError(
            f"A counterfactual must edit exactly one layer; got layers "
            f"{sorted({edit.layer for edit in found})}. Exactness is about one readout at a time."
        )
    return found


def edited_bank(layer: LayerCapture, edits: Edits) -> Bank:
    """The bank after all edits, from left to right."""
    return applied(layer, as_tuple(edits), layer.bank())


def applied(layer: LayerCapture, edits: tuple[Edit, ...], bank: Bank) -> Bank:
    """A bank after edits, from left to right; it holds at least the columns that they touch."""
    for edit in edits:
        if edit.layer != layer.layer:
            raise ValueError(
                f"`edits` must be of layer {layer.layer}; got one of layer {edit.layer}. "
                f"Take that layer's capture."
            )
        bank = edit.apply(layer, bank)
    return bank


def _replaced(
    bank: Bank, places: Tensor, *, keys: Tensor | None = None, values: Tensor | None = None
) -> Bank:
    changed = bank.changed.index_fill(0, places, True)
    return replace(
        bank,
        keys=bank.keys if keys is None else bank.keys.index_copy(1, places, keys),
        values=bank.values if values is None else bank.values.index_copy(1, places, values),
        changed=changed,
    )


def _heads(layer: LayerCapture, heads: Sequence[int] | None) -> Tensor:
    rows = range(layer.heads) if heads is None else heads
    wrong = [head for head in rows if head not in range(layer.heads)]
    if wrong or not list(rows):
        raise ValueError(
            f"`heads` must name heads in 0..{layer.heads - 1}; got {tuple(rows)}. "
            f"Leave it out for all heads."
        )
    return torch.tensor(list(rows))
