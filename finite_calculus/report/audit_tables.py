"""The records of an audit as a table, a row for each check and precision, and as a figure."""

from collections.abc import Mapping, Sequence
from typing import Any

from finite_calculus.harness.figures import Figure, Panel, Series
from finite_calculus.harness.tables import Table

# Quartiles far above, up to 1e18, would flatten everything else.
_TOP = 1e4


def audit_table(records: Sequence[Mapping[str, Any]]) -> Table:
    """Cases, violations, the worst error over its bound and what half of the errors come to."""
    rows = tuple(
        (
            record["function"],
            record["dtype"],
            record["cases"],
            record["violations"],
            float(record["worst_over_bound"]),
            record.get("slack_quantiles", {}).get("0.5"),
        )
        for record in sorted(records, key=lambda record: (record["function"], record["dtype"]))
    )
    return Table(
        "audit",
        "Every function against its derived bound on adversarial inputs",
        (
            "check",
            "precision",
            "cases",
            "violations",
            "worst error / bound",
            "median bound / error",
        ),
        rows,
        "An error beyond its bound is a violation. The references are Arb balls whose precision is raised "
        "until they are proven.",
    )


def audit_figure(records: Sequence[Mapping[str, Any]]) -> Figure:
    """Bound over error of every check that has one: medians in rising order, and quartiles."""
    panels = tuple(_spreads(dtype, records) for dtype in ("float64", "float32"))
    return Figure(
        "audit",
        "How much larger the derived bounds are than the errors",
        "Each point is the median of one check over its adversarial cases, the line spans the quartiles. "
        f"A line that ends at {_TOP:,.0f} goes on: there errors happen to be all but zero. "
        "Nothing may lie below one.",
        panels,
    )


def _spreads(dtype: str, records: Sequence[Mapping[str, Any]]) -> Panel:
    spreads = sorted(
        (
            record["slack_quantiles"]
            for record in records
            if record["dtype"] == dtype and record.get("slack_quantiles")
        ),
        key=lambda quantiles: quantiles["0.5"],
    )
    low, middle, high = (
        tuple(float(each[level]) for each in spreads) for level in ("0.25", "0.5", "0.75")
    )
    high = tuple(min(end, max(_TOP, median)) for end, median in zip(high, middle, strict=True))
    places = tuple(float(n) for n in range(1, len(spreads) + 1))
    return Panel(
        "points",
        "checks, by their median",
        "bound over actual error",
        (Series("median of a check", places, middle, low, high),),
        title=dtype,
        y_scale="log",
        level=("an error at its bound", 1.0),
    )
