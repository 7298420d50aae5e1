"""The stratified sample of candidates that calibrates a table: by depth and size of write, then by kind.

A stratum is a third of the depth and a class of size: the half of the smallest writes, the next three
tenths, the next, and the largest twentieth, where predictions fail. Inside a stratum rows are put in
order of layer, kind and size and cut into equal runs; one row of each run is drawn, so that every row of
a stratum is as likely as any other and all layers and kinds are met.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finite_calculus.search.table import ScoreTable

_DEPTHS = 3
_CLASSES = (0.5, 0.8, 0.95)


def strata(table: ScoreTable, size: Float[Tensor, " rows"]) -> Int[Tensor, " rows"]:
    """The stratum of every row."""
    numbers = torch.tensor([layer.layer for layer in table.capture.layers])
    depth = torch.searchsorted(numbers, table.layer) * _DEPTHS // len(numbers)
    edges = torch.quantile(size, torch.tensor(_CLASSES, dtype=size.dtype))
    return depth * (len(_CLASSES) + 1) + torch.bucketize(size, edges)


def draw(
    table: ScoreTable,
    group: Int[Tensor, " rows"],
    size: Float[Tensor, " rows"],
    count: int,
    *,
    seed: int,
    among: Bool[Tensor, " rows"],
) -> Bool[Tensor, " rows"]:
    """About `count` rows of those allowed, the same number from every stratum, or all of a smaller one."""
    generator = torch.Generator().manual_seed(seed)
    numbers = group[among].unique().tolist()
    each = max(1, -(-count // max(1, len(numbers))))
    order = _order(table, size)
    sampled = torch.zeros(len(table), dtype=torch.bool)
    for number in numbers:
        rows = order[(group[order] == number) & among[order]]
        runs = min(each, len(rows))
        starts = torch.arange(runs + 1) * len(rows) // runs
        width = starts[1:] - starts[:-1]
        drawn = starts[:-1] + (torch.rand(runs, generator=generator) * width).long()
        sampled[rows[drawn]] = True
    return sampled


def _order(table: ScoreTable, size: Tensor) -> Tensor:
    """Rows by layer, then kind, then size of write."""
    part = torch.repeat_interleave(
        torch.arange(len(table.parts)), torch.tensor([len(p.effect) for p in table.parts])
    )
    order = torch.argsort(size, stable=True)
    order = order[torch.argsort(part[order], stable=True)]
    return order[torch.argsort(table.layer[order], stable=True)]
