"""The tables of the pages, each a function from saved records to lines of Markdown."""

import functools
import json
from collections.abc import Callable
from typing import Any

import audit_tables
import cache_tables
import joint_tables
import model_tables
import page_tables
import positional_costs
import positional_findings
import positional_tables
import proof_tables
import repair_tables
import scale_tables
import search_tables
import study_tables
from archives import ROOT
from audit_tables import audit_records
from joint_tables import ARCHIVES, joint_rows

# Rows of the benchmark without a target that the page shows as well.
SHOWN = (
    ("an edit executed, 32 a batch", "prefix cache copied and patched, batch 32"),
    ("an edit executed, 512 a batch", "prefix cache copied and patched, batch 32"),
    ("the prefix of a prompt alone", "plain forward pass"),
    ("long context, N=131072, C=16384", "its four matrix products alone"),
    ("the four matrix products alone, N=131072, C=16384", "reading K, V, donors"),
    *(
        (f"sparse arithmetic alone, N={tokens}, C=8, strengths={count}", "dense softmax")
        for tokens in (112, 128)
        for count in (1, 3)
    ),
)


def speed() -> list[str]:
    """Every row of `make bench` that has a target, missed or not, and a few beside them."""
    rows = [row for row in _benchmarks() if row["target"] or (row["name"], row["other"]) in SHOWN]
    lines = ["| work | beside | ratio | target |", "|---|---|---:|---:|"]
    for row in rows:
        target = "" if row["target"] is None else f"{row['target']:.3g}" + ", missed" * _missed(row)
        lines.append(f"| {row['name']} | {row['other']} | {row['ratio']:.3g} | {target} |")
    return lines


def tightness() -> list[str]:
    """Quantiles of a certificate's bound over the true error."""
    audits = {(row["function"], row["dtype"]): row for row in audit_records()[0]}
    search = json.loads((ROOT / "results" / "search" / "retrieval.json").read_text())
    named = {"score": "certify", "with a rotary remainder": "Certificate.jacobian"}
    rows = {
        f"{words}, {dtype}": audits[function, dtype]["slack_quantiles"]
        for words, function in named.items()
        for dtype in ("float64", "float32")
    } | {"SmolLM2-135M, 115 tokens": search["tightness"]}
    lines = [
        "| bound over actual error | 5 % | 25 % | median | 75 % | 95 % |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, quantiles in rows.items():
        lines.append(f"| {name} | " + " | ".join(f"{q:.3g}" for q in quantiles.values()) + " |")
    return lines


def headline() -> list[str]:
    """A few figures for the README, with the record that each comes from."""
    audits, sweeps = audit_records()
    cases, checks = sum(row["cases"] for row in audits), {row["function"] for row in audits}
    search = json.loads((ROOT / "results" / "search" / "retrieval.json").read_text())
    benchmarks = _benchmarks()
    edit, scoring = (
        next(row for row in benchmarks if row["name"].startswith(name))
        for name in ("an edit executed, 512 a batch", "scoring 51750 candidates")
    )
    aims = [row for row in benchmarks if row["target"]]
    joint = [row for archive in ARCHIVES for row in joint_rows(archive)]
    below = [row["below separate"] for row in joint]
    others = ("zero", "first order", "separate", "quadratic")
    lowest = sum(row["exact"] < min(row[name] for name in others) for row in joint)
    rows = (
        (
            f"adversarial cases of {len(checks)} checks; beyond the derived bound",
            f"{cases:,}; {sum(row['violations'] for row in audits)}",
            "results/audit",
        ),
        (
            f"largest error of {len(sweeps)} scalar kernels on all 2^32 float32 inputs",
            f"{max(row['ulps'] for row in sweeps):.4f} ulp",
            "results/audit",
        ),
        (
            f"signs of {search['candidates']:,} candidate edits that are certified, SmolLM2-135M",
            f"{search['certified_signs']:,}",
            "results/search/retrieval.json",
        ),
        (
            f"settings where exact joint errs least, of {len(joint)} on {len(ARCHIVES)} public models; its "
            "error below separate attribution's by",
            f"{lowest}; {min(below):.1f}–{max(below):.1f} %",
            "results/joint-kv",
        ),
        ("time of a plain forward pass over that of an executed edit, 512 a batch",
         f"{edit['ratio']:.0f}", "bench/latest.json"),
        ("time of dense scoring over ours, a candidate, once prepared",
         f"{scoring['ratio']:.3g}", "bench/latest.json"),
        ("targets of speed that are missed", f"{sum(map(_missed, aims))} of {len(aims)}",
         "docs/speed.md"),
    )  # fmt: skip
    return [
        "| what | figure | from |",
        "|---|---:|---|",
        *(f"| {what} | {figure} | [{path}]({path}) |" for what, figure, path in rows),
    ]


def passages() -> list[str]:
    """Edits that several queries see, by thirds of the layers of one checkpoint."""
    name = "smollm2-135m-instruct"
    saved = json.loads((ROOT / "results" / "passages" / f"{name}.json").read_text(encoding="utf-8"))
    lines = [
        f"| {name}, seen by the queries of | layers | edits | signs agree | Σ\\|error\\| / Σ\\|executed\\| "
        "| readouts beyond their bound | nearest, error over bound |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for title, rows in saved["passages"].items():
        third = -(-(1 + max(row["layer"] for row in rows)) // 3)
        for first in range(0, 3 * third, third):
            own = [row for row in rows if first <= row["layer"] < first + third]
            error = sum(abs(row["predicted"] - row["executed"]) for row in own)
            lines.append(
                f"| {title} | {first}–{first + third - 1} | {len(own)} "
                f"| {sum(row['predicted'] * row['executed'] > 0 for row in own)} "
                f"| {error / sum(abs(row['executed']) for row in own):.2f} "
                f"| {sum(row['beyond'] for row in own)} of {sum(row['queries'] for row in own)} "
                f"| {max(row['nearest'] for row in own):.3f} |"
            )
    return lines


TABLES: dict[str, Callable[[], list[str]]] = {
    "speed": speed,
    "tightness": tightness,
    "headline": headline,
    "passages": passages,
    **cache_tables.TABLES,
    **joint_tables.TABLES,
    **model_tables.TABLES,
    **page_tables.TABLES,
    **positional_costs.TABLES,
    **positional_findings.TABLES,
    **positional_tables.TABLES,
    **audit_tables.TABLES,
    **proof_tables.TABLES,
    **repair_tables.TABLES,
    **scale_tables.TABLES,
    **search_tables.TABLES,
    **study_tables.TABLES,
}


@functools.cache
def _benchmarks() -> list[dict[str, Any]]:
    return json.loads((ROOT / "bench" / "latest.json").read_text())


def _missed(row: dict[str, Any]) -> bool:
    return row["target"] is not None and row["ratio"] < row["target"]
