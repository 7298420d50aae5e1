"""Bands from executed candidates: split conformal prediction, and the tail beyond it.

Of n residuals drawn like the next one, the next is at most the ⌈(n+1)·level⌉-th smallest with probability
at least `level` (split conformal), whatever their law. Residuals are divided by a scale known before
execution, so that a band follows the candidate. Beyond the sample nothing is known without a law: `Tail`
assumes a power law above the largest tenth (Hill's estimator), and says so.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


def conformal_quantile(ratios: Float[Tensor, " sample"], level: float, *, whole: bool) -> float:
    """The ⌈(n+1)·level⌉-th smallest ratio; infinite if n is too small for the level.

    `whole` says that the sample is all there is: then its largest ratio holds for everything, and none
    is needed where there is nothing.
    """
    if not 0 < level < 1:
        raise ValueError(f"`level` must lie between 0 and 1; got {level}.")
    count = ratios.shape[0]
    if whole:
        return float(ratios.max()) if len(ratios) else 0.0
    place = math.ceil((count + 1) * level)
    return math.inf if place > count else float(ratios.sort().values[place - 1])


@dataclass(frozen=True)
class Tail:
    """The share of ratios above x: counted up to `start`, a power law with `exponent` beyond."""

    sample: Float[Tensor, " sample"]
    start: float
    share: float
    exponent: float

    def above(self, x: Float[Tensor, " rows"]) -> Float[Tensor, " rows"]:
        """The estimated probability that a ratio is at least x, one for x ≤ 0."""
        count = self.sample.shape[0]
        larger = count - torch.searchsorted(self.sample, x.contiguous(), side="left")
        counted = (larger + 1) / (count + 1)
        beyond = self.share * (x.clamp(min=self.start) / self.start) ** -self.exponent
        return torch.where(x <= 0, 1.0, torch.where(x <= self.start, counted, beyond)).clamp(max=1)


def tail_of(ratios: Float[Tensor, " sample"]) -> Tail:
    """Fit the tail of executed ratios: Hill's estimator on the largest tenth, three at least."""
    ordered = ratios.sort().values.clamp(min=torch.finfo(ratios.dtype).tiny)
    count = ordered.shape[0]
    if count < 4:
        # Nothing can be said of a tail: every ratio is possible.
        return Tail(ordered, math.inf, 1.0, 0.0)
    largest = max(3, count // 10)
    start = float(ordered[count - largest - 1])
    logs = torch.log(ordered[count - largest :] / start)
    exponent = float(1 / logs.mean().clamp(min=torch.finfo(ratios.dtype).eps))
    return Tail(ordered, start, (largest + 1) / (count + 1), exponent)
