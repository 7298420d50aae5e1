"""Statistics of the positional tables: means inside a prompt set first, then over sets (Appendix G).

The harness has the interval of a mean difference; reductions in percent and pooled projections are ratios
of means, for which the same sets are drawn in numerator and denominator.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

import numpy as np

from finite_calculus.harness import Interval, cluster_means, paired_interval
from finite_calculus.studies.positional.settings import PositionalSettings

T = TypeVar("T")


@dataclass(frozen=True)
class Bootstrap:
    """How intervals are drawn: percentile intervals of resampled prompt sets."""

    resamples: int
    coverage: float
    seed: int

    @classmethod
    def of(cls, settings: PositionalSettings, *, part: bool = False) -> "Bootstrap":
        """That of the settings; `part` for the parts of the study that the paper resamples less often."""
        resamples = settings.part_resamples if part else settings.resamples
        return cls(resamples, settings.coverage, settings.bootstrap_seed)

    def options(self) -> dict[str, Any]:
        """The same for `paired_interval`."""
        return {"resamples": self.resamples, "coverage": self.coverage, "seed": self.seed}

    def words(self) -> str:
        """For the note of a table."""
        return (
            f"{100 * self.coverage:g}% percentile intervals of {self.resamples} resamples of the prompt "
            f"sets (seed {self.seed})"
        )

    def ratio(
        self, numerator: Sequence[float], denominator: Sequence[float], clusters: Sequence[str]
    ) -> Interval:
        """Mean over sets of one quantity over that of another, with its interval; NaN over nothing."""
        names = np.asarray(clusters)
        above = cluster_means(np.asarray(numerator, dtype=float), names)
        below = cluster_means(np.asarray(denominator, dtype=float), names)
        drawn = np.random.default_rng(self.seed).integers(
            0, len(above), (self.resamples, len(above))
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = above[drawn].mean(axis=1) / below[drawn].mean(axis=1)
            estimate = float(above.mean() / below.mean())
        tail = (1 - self.coverage) / 2
        low, high = np.quantile(ratios, [tail, 1 - tail])
        return Interval(estimate, float(low), float(high), len(above))

    def mean(self, values: Sequence[float] | np.ndarray, clusters: Sequence[str]) -> Interval:
        """The mean over sets of the mean inside each, with its interval."""
        listed = np.asarray(values, dtype=float)
        return paired_interval(
            listed, np.zeros_like(listed), np.asarray(clusters), **self.options()
        )

    def reduction(
        self, errors: Sequence[float], others: Sequence[float], clusters: Sequence[str]
    ) -> Interval:
        """By how many percent the first mean error is below the second."""
        ratio = self.ratio(errors, others, clusters)
        low, high = 100 * (1 - ratio.high), 100 * (1 - ratio.low)
        return Interval(100 * (1 - ratio.estimate), low, high, ratio.clusters)


def set_mean(values: Iterable[float], clusters: Sequence[str]) -> float:
    """The mean over prompt sets of the mean inside each."""
    return float(cluster_means(np.fromiter(values, dtype=float), np.asarray(clusters)).mean())


def grouped(rows: Sequence[T], key: Callable[[T], Any]) -> list[tuple[Any, list[T]]]:
    """Rows by a key, in the order of the keys."""
    return [(value, list(alike)) for value, alike in groupby(sorted(rows, key=key), key=key)]


def set_sign_accuracy(
    predicted: Sequence[float], executed: Sequence[float], clusters: Sequence[str]
) -> float | None:
    """Percent of right signs where the executed change is not zero, sets weighted equally; None if none."""
    right = [
        (float(np.sign(p) == np.sign(e)), cluster)
        for p, e, cluster in zip(predicted, executed, clusters, strict=True)
        if e != 0
    ]
    if not right:
        return None
    return 100 * set_mean((value for value, _ in right), [cluster for _, cluster in right])
