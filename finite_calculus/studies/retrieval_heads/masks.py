"""Rotary planes of single heads as masks over the coordinates of their queries.

A score is a product of query and key, so that a coordinate set to zero in the query of one head is as good
as gone from that head's keys, while other heads of its group keep theirs.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from finite_calculus.models.edits.key_shift import third
from finite_calculus.rotary import Band, Rotary, split_planes

BANDS = ("fast", "middle", "slow", "random", "all")
Heads = Sequence[Sequence[int]]


def band_planes(rotary: Rotary, band: str, seed: Sequence[int]) -> Band:
    """The planes of a third, as many as the slow third has at random, or all of them."""
    if band == "all":
        return torch.ones(rotary.planes, dtype=torch.bool)
    if band != "random":
        return third(rotary, band)
    rng = np.random.default_rng(np.random.SeedSequence([*seed]))
    count = int(third(rotary, "slow").sum())
    planes = torch.zeros(rotary.planes, dtype=torch.bool)
    planes[torch.from_numpy(rng.choice(rotary.planes, count, replace=False))] = True
    return planes


def coordinates(rotary: Rotary, planes: Band) -> Bool[Tensor, " width"]:
    """The coordinates of a head that belong to some planes."""
    chosen = torch.zeros(rotary.head_width)
    for place in split_planes(rotary, chosen):
        place.copy_(planes)
    return chosen.bool()


def heads_by_layer(heads: Heads) -> Mapping[int, list[int]]:
    """Heads of each layer that has some."""
    layers: dict[int, list[int]] = {}
    for layer, head in heads:
        layers.setdefault(layer, []).append(head)
    return layers
