"""Quantisers of stored keys and values.

A transform gets one row's keys and values, (groups, tokens, width), and the layer's number, and returns what
is read instead. Quantisers are simulated: numbers are rounded to the levels and stay in their type.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.quantise import quantise

Axis = Literal["vector", "channel", "group32", "group64"]


@dataclass(frozen=True)
class Quantiser:
    """Keys and values rounded to 2^bits levels, with a scale for each vector, channel or part of a vector.

    Symmetric levels are those of the paper, around zero; asymmetric ones span the smallest to the largest
    number. "channel" takes its scale over all tokens, so that later ones change what earlier ones read as.
    """

    bits: int
    symmetric: bool = True
    keys: Axis | str = "vector"
    values: Axis | str = "vector"

    def __post_init__(self) -> None:
        if not 2 <= self.bits <= 8:
            raise ValueError(f"`bits` must be between 2 and 8; got {self.bits}.")
        for name, axis in (("keys", self.keys), ("values", self.values)):
            if axis not in get_args(Axis):
                raise ValueError(f"`{name}` must be one of {get_args(Axis)}; got {axis!r}.")

    def __call__(self, keys: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """The rounded tensors."""
        return self._round(keys, self.keys), self._round(values, self.values)

    def _round(self, stored: Tensor, axis: str) -> Tensor:
        levels = quantise if self.symmetric else asymmetric
        if axis == "channel":
            return levels(stored.mT, self.bits).mT
        if axis == "vector":
            return levels(stored, self.bits)
        size = int(axis.removeprefix("group"))
        if stored.shape[-1] % size:
            raise ValueError(
                f"Groups of {size} must divide the width of a head; it is {stored.shape[-1]}."
            )
        return levels(stored.unflatten(-1, (-1, size)), self.bits).flatten(-2)


def asymmetric(vectors: Float[Tensor, "*batch width"], bits: int) -> Float[Tensor, "*batch width"]:
    """Each vector on 2^bits levels from its smallest to its largest number; |x − Q(x)| ≤ half a level."""
    low, high = vectors.amin(-1, keepdim=True), vectors.amax(-1, keepdim=True)
    step = (high - low) / (2**bits - 1)
    codes = torch.round((vectors - low) / torch.where(step == 0, 1.0, step))
    return torch.where(step == 0, vectors, (low + codes * step).clamp(low, high))
