"""The figure of the runtime study: medians of the rounds with their quartiles."""

from collections.abc import Sequence

from finite_calculus.harness import Figure, Panel, Series
from finite_calculus.studies.runtime.report import WORDS, spread
from finite_calculus.studies.runtime.rows import METHODS, MODES, Timing

_NAMES = {"ours": "sparse", "dense": "dense", "fused": "fused attention"}


def figure(rows: Sequence[Timing]) -> Figure:
    """Time by case and method, a panel for each mode."""
    cases = tuple(dict.fromkeys(row.case for row in rows))
    panels = []
    for mode in MODES:
        series = []
        for method in METHODS:
            times = {
                case: times
                for case in cases
                if (times := spread([row for row in rows if row.case == case], mode, method))
            }
            if times:
                low, middle, high = zip(*times.values(), strict=True)
                series.append(Series(_NAMES[method], tuple(times), middle, low, high))
        panels.append(
            Panel("bars", "", "milliseconds", tuple(series), title=WORDS[mode], y_scale="log")
        )
    return Figure(
        "runtime",
        "Time of local responses",
        "Medians over the rounds, and quartiles. The left panel has the preparation behind it; in the others "
        "it is charged. Model execution and gradients are not part of any of them. Another run gives other "
        "numbers.",
        tuple(panels),
    )
