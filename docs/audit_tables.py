"""The tables about the audit, from its saved records."""

import functools
import json
from collections.abc import Callable
from typing import Any

from archives import ROOT

DTYPES = ("float64", "float32")
# How many checks the table of stability names.
_NAMED = 12


@functools.cache
def audit_records() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Records of the audit, and of its sweeps over every float32."""
    folder = ROOT / "results" / "audit"
    audits, sweeps = (
        [json.loads(row) for row in (folder / name).read_text().splitlines()]
        for name in ("records.jsonl", "sweeps.jsonl")
    )
    return audits, sweeps


def stability() -> list[str]:
    """Checks by the digits they lose and by how far bounds lie above errors, those that lose most first."""
    records: dict[str, dict[str, dict[str, Any]]] = {}
    for row in audit_records()[0]:
        records.setdefault(row["function"], {})[row["dtype"]] = row
    held = {name: rows for name, rows in records.items() if "stability" in rows[DTYPES[0]]}
    named = sorted(held, key=lambda name: -max(map(_share, held[name].values())))[:_NAMED]
    allowed = [_allowed(held, dtype) for dtype in DTYPES]
    lines = [
        "| check | bits lost, float64, of "
        f"{allowed[0]:g} | float32, of {allowed[1]:g} | bound over error, float64 | float32 |",
        "|---|---:|---:|---:|---:|",
    ]
    for name in named:
        rows = [held[name][dtype] for dtype in DTYPES]
        cells = [f"{row['stability']['bits']:.1f}" for row in rows]
        cells += [f"{_median(row):.3g}" for row in rows]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    most = [max(rows[dtype]["stability"]["bits"] for rows in held.values()) for dtype in DTYPES]
    medians = [max(map(_median, _of(records, dtype))) for dtype in DTYPES]
    cells = [f"{bits:.1f}" for bits in most] + [f"{median:.3g}" for median in medians]
    lines.append(f"| the most of all {len(records)} | " + " | ".join(cells) + " |")
    return lines


def sizes() -> list[str]:
    """How many cases the records hold, by their number a check and precision."""
    audits = audit_records()[0]
    counts = sorted({row["cases"] for row in audits}, reverse=True)
    lines = ["| cases each | records | violations | checks |", "|---:|---:|---:|---|"]
    for count in counts:
        rows = [row for row in audits if row["cases"] == count]
        names = sorted({row["function"] for row in rows})
        words = ", ".join(f"`{name}`" for name in names) if len(names) <= 6 else f"{len(names)}"
        violations = sum(row["violations"] for row in rows)
        lines.append(f"| {count:,} | {len(rows)} | {violations} | {words} |")
    return lines


def _of(records: dict[str, dict[str, dict[str, Any]]], dtype: str) -> list[dict[str, Any]]:
    """Records in which some error was seen, so that there is a bound over an error."""
    return [rows[dtype] for rows in records.values() if rows[dtype]["slack"]]


def _median(row: dict[str, Any]) -> float:
    return row["slack_quantiles"]["0.5"]


def _share(row: dict[str, Any]) -> float:
    return row["stability"]["bits"] / row["stability"]["allowed"]


def _allowed(held: dict[str, dict[str, dict[str, Any]]], dtype: str) -> float:
    return next(iter(held.values()))[dtype]["stability"]["allowed"]


TABLES: dict[str, Callable[[], list[str]]] = {"audit-sizes": sizes, "stability": stability}
