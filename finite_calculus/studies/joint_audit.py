"""The numerical audit of one pair at one layer: figures with their bounds, and how many checks failed.

Every record is checked five times: sparse against dense and against effective matrices in float64,
the executed float32 write against its prediction, the unedited row of its batch, finiteness.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

PARTS = ("linear", "key", "value", "interaction", "quadratic")
NUMBERS = (
    *("strength", "baseline", "control", "margin", "effect", "control_drift", "row_drift"),
    *(f"part_{name}" for name in PARTS),
    *(f"predicted_{name}" for name in ("first_order", "separate", "quadratic", "joint")),
    *("dense", "effective", "local_executed", "local_predicted", "local_bound"),
)
_FIGURES = ("sparse_dense", "effective", "local")
AUDIT = pa.schema(
    [
        ("task", pa.string()),
        *((name, pa.int32()) for name in ("layer", "pair", "rows", "checks", "failed")),
        *((name, pa.float64()) for name in _FIGURES),
        *((f"{name}_bound", pa.float64()) for name in _FIGURES),
        *((name, pa.float64()) for name in ("control_drift", "row_drift")),
    ]
)


def audit_row(
    records: Sequence[Mapping[str, Any]], budgets: Sequence[tuple[float, float]]
) -> dict[str, Any]:
    """The largest differences, each with the bound of its row, and how many checks failed."""
    first = records[0]
    compared = {
        "sparse_dense": [
            (abs(row["predicted_joint"] - row["dense"]), budget[0])
            for row, budget in zip(records, budgets, strict=True)
        ],
        "effective": [
            (abs(row["predicted_joint"] - row["effective"]), budget[1])
            for row, budget in zip(records, budgets, strict=True)
        ],
        "local": [
            (abs(row["local_executed"] - row["local_predicted"]), row["local_bound"])
            for row in records
        ],
    }
    failed = sum(not apart <= bound for pairs in compared.values() for apart, bound in pairs)
    failed += sum(row["row_drift"] != 0 for row in records)
    failed += sum(not all(math.isfinite(row[name]) for name in NUMBERS) for row in records)
    worst = {name: max(pairs, key=_size) for name, pairs in compared.items()}
    return {
        **{name: first[name] for name in ("task", "layer", "pair")},
        "rows": len(records),
        "checks": len(records) * (len(compared) + 2),
        "failed": failed,
        **{name: apart for name, (apart, _) in worst.items()},
        **{f"{name}_bound": bound for name, (_, bound) in worst.items()},
        "control_drift": max(abs(row["control_drift"]) for row in records),
        "row_drift": max(abs(row["row_drift"]) for row in records),
    }


def _size(pair: tuple[float, float]) -> float:
    """The difference of a pair; what is not a number is the largest."""
    return math.inf if math.isnan(pair[0]) else pair[0]
