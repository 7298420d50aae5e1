"""Runs of tokens read as one: the simplest merging of a cache, as a transform."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Merge:
    """Runs of so many neighbouring tokens read as their mean, each as often as it has tokens.

    Attention then counts a run by its tokens. Keys keep the rotations that they were written with. What is
    left over at the end stays as it is.
    """

    tokens: int

    def __post_init__(self) -> None:
        if self.tokens < 2:
            raise ValueError(f"`tokens` to merge must be at least 2; got {self.tokens}.")

    def __call__(self, keys: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """The merged tensors."""
        return self._merged(keys), self._merged(values)

    def _merged(self, stored: Tensor) -> Tensor:
        whole = stored.shape[1] // self.tokens * self.tokens
        runs = stored[:, :whole].unflatten(1, (-1, self.tokens))
        merged = runs.mean(2, keepdim=True).expand_as(runs).flatten(1, 2)
        return torch.cat([merged, stored[:, whole:]], 1)
