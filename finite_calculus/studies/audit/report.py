"""The table of an audit in units, from its records."""

from collections.abc import Iterable, Iterator

from finite_calculus.harness import Table
from finite_calculus.studies.audit.rows import Part


def report(parts: Iterable[Part]) -> Iterator[Table]:
    """Cases, violations and the worst of every check and precision."""
    groups: dict[tuple[str, str, bool], list[Part]] = {}
    for part in parts:
        groups.setdefault((part.function, part.dtype, part.digits), []).append(part)
    rows = tuple(
        (
            function,
            dtype,
            "bits lost" if digits else "error over bound",
            sum(part.cases for part in group),
            sum(part.violations for part in group),
            max(part.worst for part in group),
        )
        for (function, dtype, digits), group in groups.items()
    )
    columns = ("function", "dtype", "measured", "cases", "violations", "worst")
    yield Table(
        "audit", "Cases against their derived bounds, and against the problem", columns, rows
    )
