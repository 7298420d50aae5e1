"""One budget for all layers: each further eviction goes where it costs least.

A layer's order of evictions has a curve, the figure after each of them. Steps are taken along the lower
convex hull of the curves, cheapest slope first, so that a dear entry does not hide the cheap ones behind it.
The curves are exact for each layer on its own; layers evicted together act on one another downstream, and
adding up their figures is a rule for sharing, not a bound on anything.
"""

import itertools
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor


def shared_counts(curves: Sequence[Float[Tensor, " prefixes"]], total: int) -> tuple[int, ...]:
    """How many entries each layer loses if all lose `total` together."""
    most = sum(len(curve) - 1 for curve in curves)
    if not 0 <= total <= most:
        raise ValueError(
            f"`total` must be between 0 and the {most} entries that may be evicted; got {total}."
        )
    counts = [0] * len(curves)
    for layer, _, stop in _cheapest_first(curves):
        counts[layer] += min(stop - counts[layer], total - sum(counts))
    return tuple(counts)


def counts_within(curves: Sequence[Float[Tensor, " prefixes"]], budget: float) -> tuple[int, ...]:
    """How many entries each layer loses while the mean of the layers' figures stays within a budget."""
    counts, figures = [0] * len(curves), [0.0] * len(curves)
    for layer, _, stop in _cheapest_first(curves):
        curve = curves[layer]
        others = sum(figures) - figures[layer]
        for count in range(stop, counts[layer], -1):
            if others + float(curve[count]) <= budget * len(curves):
                counts[layer], figures[layer] = count, float(curve[count])
                break
    return tuple(counts)


def _cheapest_first(curves: Sequence[Tensor]) -> list[tuple[int, float, int]]:
    """Segments of all hulls as (layer, slope, end), cheapest first; a hull's own are in order."""
    segments = [
        (layer, slope, stop)
        for layer, curve in enumerate(curves)
        for slope, stop in _hull(curve.tolist())
    ]
    return sorted(segments, key=lambda each: (each[1], each[2]))


def _hull(curve: Sequence[float]) -> Iterator[tuple[float, int]]:
    """Slopes and ends of the segments of a curve's lower convex hull; infinite ends are left out."""
    corners: list[int] = [0]
    for place in range(1, len(curve)):
        if curve[place] == torch.inf:
            continue
        while len(corners) > 1 and _slope(curve, corners[-2], corners[-1]) >= _slope(
            curve, corners[-2], place
        ):
            corners.pop()
        corners.append(place)
    for before, after in itertools.pairwise(corners):
        yield _slope(curve, before, after), after


def _slope(curve: Sequence[float], first: int, second: int) -> float:
    return (curve[second] - curve[first]) / (second - first)
