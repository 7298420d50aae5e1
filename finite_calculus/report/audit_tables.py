"""The records of an audit as one table: a row for each check and precision."""

from collections.abc import Mapping, Sequence
from typing import Any

from finite_calculus.harness.tables import Table


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
