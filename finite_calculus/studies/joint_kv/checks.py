"""The numerical checks of one pair at one layer; every intervention is checked five times.

Sparse against dense and against effective matrices in float64, the executed float32 write against its
prediction, the unedited row of its batch, finiteness.
"""

from collections.abc import Sequence

import pyarrow as pa

from finite_calculus.harness import Check, compare, count
from finite_calculus.harness.checks import CheckRow
from finite_calculus.harness.rows import schema_of
from finite_calculus.studies.joint_kv.rows import Intervention

Budget = tuple[float, float]


def place_checks(rows: Sequence[Intervention], budgets: Sequence[Budget]) -> list[Check]:
    """The checks of all interventions of one pair at one layer.

    `budgets` are what rounding may put between the sparse form and the dense and effective ones.
    """
    at = f"layer {rows[0].layer}: "
    return [
        compare(
            at + "sparse against dense",
            [(abs(r.predicted_joint - r.dense), b[0]) for r, b in zip(rows, budgets, strict=True)],
        ),
        compare(
            at + "sparse against effective matrices",
            [
                (abs(r.predicted_joint - r.effective), b[1])
                for r, b in zip(rows, budgets, strict=True)
            ],
        ),
        compare(
            at + "executed write against its prediction",
            [(abs(r.local_executed - r.local_predicted), r.local_bound) for r in rows],
        ),
        count(at + "unedited row moved", [r.row_drift != 0 for r in rows]),
        count(at + "numbers that are not finite", [not r.finite for r in rows]),
    ]


def checks_of_audit(audit: pa.Table) -> pa.Table:
    """The checks of a run of the first version, whose audit held one row for each pair and layer.

    It counted failures without saying of which check: they stand in a row of their own.
    """
    rows = []
    for row in audit.to_pylist():
        unit, at = f"{row['task']}-{row['pair']:03d}", f"layer {row['layer']}: "
        rows += [
            CheckRow(unit, at + name, row[key], row[f"{key}_bound"], True, row["rows"], 0)
            for key, name in (
                ("sparse_dense", "sparse against dense"),
                ("effective", "sparse against effective matrices"),
                ("local", "executed write against its prediction"),
            )
        ]
        rows.append(
            CheckRow(unit, at + "unedited row moved", row["row_drift"], 0.0, True, row["rows"], 0)
        )
        failed, rest = row["failed"], row["checks"] - 4 * row["rows"]
        rows.append(
            CheckRow(unit, at + "all others", float(failed), 0.0, failed == 0, rest, failed)
        )
    return pa.Table.from_pylist([vars(row) for row in rows], schema=schema_of(CheckRow))
