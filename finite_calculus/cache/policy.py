"""Bits of every stored key and value of one prompt: a cache of mixed precision, as data.

A policy is a transform like any other, so that its error is found, gated and executed as theirs is. Keys and
values have bits of their own, by layer, group and token. Memory counts a scale, and for asymmetric levels a
smallest number, as 16 bits each; the simulated ones are not rounded.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from finite_calculus.cache.transforms import Quantiser

# Bits that mean "as stored".
FULL = 32
PARTS = ("keys", "values")
_SCALE = 16
Bits = Int[Tensor, "groups tokens"]


@dataclass(frozen=True)
class Rounding:
    """How numbers are rounded whatever the bits: symmetric or not, a scale for each vector or part of it."""

    symmetric: bool = False
    axis: str = "vector"

    def __post_init__(self) -> None:
        if self.axis == "channel":
            raise ValueError(
                "`axis` must be 'vector', 'group32' or 'group64'; got 'channel', whose scale belongs to no "
                "single token."
            )
        Quantiser(2, self.symmetric, self.axis, self.axis)

    def read(self, stored: Tensor, bits: int) -> Tensor:
        """What so many bits leave of vectors (groups, tokens, width)."""
        if bits == FULL:
            return stored
        return Quantiser(bits, self.symmetric, self.axis, self.axis)(stored, stored, 0)[0]

    def cost(self, bits: int, width: int) -> int:
        """Bits of memory that one vector takes."""
        if bits == FULL:
            return FULL * width
        scales = 1 if self.axis == "vector" else width // int(self.axis.removeprefix("group"))
        return bits * width + scales * _SCALE * (1 if self.symmetric else 2)


@dataclass(frozen=True, eq=False)
class Policy:
    """Bits of the first tokens of a prompt; later ones are read as stored."""

    rounding: Rounding
    keys: Mapping[int, Bits]
    values: Mapping[int, Bits]

    def __call__(self, keys: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """What is read of one layer."""
        if layer not in self.keys:
            return keys, values
        return self._read(keys, self.keys[layer]), self._read(values, self.values[layer])

    def _read(self, stored: Tensor, bits: Bits) -> Tensor:
        groups, tokens = bits.shape
        if stored.shape[0] != groups or stored.shape[1] < tokens:
            raise ValueError(
                f"A policy must be applied to the prompt that it was made for: it has {groups} groups of "
                f"{tokens} tokens; got {stored.shape[0]} of {stored.shape[1]}."
            )
        read, head = stored.clone(), stored[:, :tokens]
        for level in bits.unique().tolist():
            rounded = self.rounding.read(head, level)
            read[:, :tokens] = torch.where((bits == level).unsqueeze(-1), rounded, read[:, :tokens])
        return read

    def content(self) -> dict[str, Any]:
        """For JSON: a list of bits for each layer and group."""
        return {
            "symmetric": self.rounding.symmetric,
            "axis": self.rounding.axis,
            **{p: {str(n): b.tolist() for n, b in getattr(self, p).items()} for p in PARTS},
        }

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(json.dumps(self.content()) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Policy":
        """Read what `save` wrote."""
        if not path.is_file():
            raise ValueError(f"A policy must be a file; there is none at {path}.")
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            rounding = Rounding(bool(content["symmetric"]), content["axis"])
            keys, values = ({int(n): _bits(b) for n, b in content[p].items()} for p in PARTS)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path.name} must be a policy as kv-error --emit-policy writes it; it cannot be read: "
                f"{type(error).__name__}: {error}."
            ) from None
        if keys.keys() != values.keys() or any(keys[n].shape != values[n].shape for n in keys):
            raise ValueError(
                f"{path.name} must name the same layers and tokens for keys and values."
            )
        return cls(rounding, keys, values)


def _bits(listed: list[list[int]]) -> Bits:
    bits = torch.tensor(listed, dtype=torch.int64)
    known = ((bits >= 2) & (bits <= 8)) | (bits == FULL)
    if bits.ndim != 2 or not bool(known.all()):
        raise ValueError(f"bits must be 2 to 8 or {FULL}, a list for each group")
    return bits
