"""The paired cluster bootstrap of the paper: prompts are resampled, everything inside one stays together.

A contrast is the mean over prompts of the mean difference inside each prompt (eq:jointprimary), so a
prompt counts once however many edits it has. Percentile interval, no adjustment for multiplicity.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Shaped


@dataclass(frozen=True)
class Interval:
    """An estimate with its percentile interval, and how many clusters it rests on."""

    estimate: float
    low: float
    high: float
    clusters: int

    @property
    def favours_first(self) -> bool:
        """Whether the whole interval lies below zero: the first error is the smaller one."""
        return self.high < 0


def cluster_means(
    values: Float[np.ndarray, " rows"], clusters: Shaped[np.ndarray, " rows"]
) -> Float[np.ndarray, " clusters"]:
    """The mean of each cluster, in the sorted order of the cluster names."""
    if len(values) == 0 or len(values) != len(clusters):
        raise ValueError(
            f"`values` and `clusters` must have one equal length of at least 1; got {len(values)} "
            f"and {len(clusters)}. Name the cluster of every row."
        )
    _, inverse, counts = np.unique(clusters, return_inverse=True, return_counts=True)
    return np.bincount(inverse, weights=values) / counts


def paired_interval(
    first: Float[np.ndarray, " rows"],
    second: Float[np.ndarray, " rows"],
    clusters: Shaped[np.ndarray, " rows"],
    *,
    resamples: int = 5000,
    coverage: float = 0.95,
    seed: int = 981,
) -> Interval:
    """Percentile interval of the mean over clusters of the mean of first − second.

    Rows are paired by position; whole clusters are drawn with replacement, as many as there are.
    """
    if len(first) != len(second):
        raise ValueError(
            f"`first` and `second` must be paired; got {len(first)} and {len(second)} rows."
        )
    means = cluster_means(np.asarray(first) - np.asarray(second), clusters)
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, len(means), (resamples, len(means)))
    tail = (1 - coverage) / 2
    low, high = np.quantile(means[drawn].mean(axis=1), [tail, 1 - tail])
    return Interval(float(means.mean()), float(low), float(high), len(means))
