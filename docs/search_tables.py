"""Tables of the search study, from its archives: every candidate executed."""

import json
from collections.abc import Callable

import pyarrow.compute as pc
import pyarrow.parquet as pq
from archives import ROOT, archive_tables

# A layer errs more where the ratio of errors is below this: a tenth more.
_WORSE = 1 / 1.1


def search_recall() -> list[str]:
    """What each predictor would have found, over all executed candidates of each model."""
    shown = (
        "recall of 10",
        "recall of 100",
        "regret",
        "Spearman",
        "right signs",
        "MAE, effects ≥ 0.1",
    )
    return _search_lines("ranking", shown)


def search_time() -> list[str]:
    """Time to find the largest effects over that of executing everything, set-up charged."""
    shown = ("set-up", "executed for 95% of 10", "time for 95% of 10", "executed for 100% of 100",
             "time for 95% of 100", "time for 100% of 100")  # fmt: skip
    return _search_lines("time", shown)


def search_layers() -> list[str]:
    """How many times nearer than the exact write alone, by layer, over large effects."""
    lines = [
        "| model | layers | upper two thirds | second order ≥ 3 × nearer there "
        "| the same, over all candidates | anchors ≥ 3 × nearer there "
        "| least, second order | least, anchors | a tenth farther at, second order | anchors |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---|---|",
    ]
    for model in _searched():
        every = search_rows(model, "layers")
        rows, third = [row for row in every if int(row["effects ≥ 0.1"])], len(every) / 3
        nearer = [
            [(int(row["layer"]), float(row[f"times lower, {name}"])) for row in rows]
            for name in ("second order", "anchors")
        ]
        counts = [
            str(sum(layer >= third and ratio >= 3 for layer, ratio in each)) for each in nearer
        ]
        least = [f"{min(ratio for _, ratio in each):.3g}" for each in nearer]
        worse = [
            ", ".join(str(layer) for layer, ratio in each if ratio < _WORSE) or "none"
            for each in nearer
        ]
        upper = sum(int(row["layer"]) >= third for row in rows)
        counts.insert(1, str(sum(n >= third and r >= 3 for n, r in _over_all(model).items())))
        cells = (model, str(len(rows)), str(upper), *counts, *least, *worse)
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def search_each_layer() -> list[str]:
    """Errors of large effects at every layer of SmolLM2."""
    names = (
        "effects ≥ 0.1",
        "MAE, exact write",
        "MAE, exact + second order",
        "MAE, exact + second order + anchors",
        "times lower, second order",
        "times lower, anchors",
    )
    lines = ["| layer | " + " | ".join(names) + " |", "|---:|" + "---:|" * len(names)]
    for row in search_rows("smollm2-135m-instruct", "layers"):
        lines.append(
            "| " + " | ".join((row["layer"], *(_figure(row[name]) for name in names))) + " |"
        )
    return lines


def search_cost() -> list[str]:
    """What the second order costs: ratios of processor time, and seconds of a prompt's parts."""
    lines = ["| work | over the time of | ratio | at most |", "|---|---|---:|---:|"]
    for row in json.loads((ROOT / "results" / "search" / "second-order.json").read_text()):
        target = row["target"]
        asked = (
            ""
            if target is None
            else f"{1 / target:.3g}{', missed' if row['ratio'] < target else ''}"
        )
        lines.append(f"| {row['name']} | {row['other']} | {1 / row['ratio']:.3g} | {asked} |")
    return lines


def search_parts() -> list[str]:
    """Seconds of the processor that each part of a search takes, means over prompts."""
    shown = ("tokens", "candidates", "plain pass s", "capture s", "score s", "curvature s", "second s",
             "calibrate s", "executing everything s")  # fmt: skip
    return _search_lines("costs", shown)


def search_trust() -> list[str]:
    """Marks and bands on prompts that chose nothing."""
    shown = ("wrong signs", "of them marked", "right signs", "of them marked too",
             "effects within the 95 % band")  # fmt: skip
    return _search_lines("trust", shown)


def _over_all(model: str) -> dict[int, float]:
    """How many times nearer the second order is at each layer, over all large effects, executed or not."""
    names = ["layer", "executed", "exact", "second"]
    table = pq.read_table(
        ROOT / "results" / "search" / model / "candidates.parquet",
        columns=names,
        filters=(pc.abs(pc.field("executed")) >= 0.1),
    )
    errors = {name: pc.abs(pc.subtract(table[name], table["executed"])) for name in names[2:]}
    sums = (
        table.select(["layer"])
        .append_column("exact", errors["exact"])
        .append_column("second", errors["second"])
        .group_by("layer")
        .aggregate([("exact", "sum"), ("second", "sum")])
    )
    return {row["layer"]: row["exact_sum"] / row["second_sum"] for row in sums.to_pylist()}


def search_rows(model: str, table: str) -> list[dict[str, str]]:
    """A table of the search study's archive of a model."""
    return archive_tables("search", model)[table]


def _searched() -> list[str]:
    """Models whose every candidate was executed."""
    return sorted(
        path.parent.name for path in (ROOT / "results" / "search").glob("*/manifest.json")
    )


def _search_lines(table: str, shown: tuple[str, ...]) -> list[str]:
    """Columns of a table for every model, the first one beside the model."""
    first = next(iter(search_rows(_searched()[0], table)[0]))
    lines = [
        "| " + " | ".join(("model", first, *shown)) + " |",
        "|---|---|" + "---:|" * len(shown),
    ]
    for model in _searched():
        for row in search_rows(model, table):
            cells = (_figure(row[name]) for name in shown)
            lines.append("| " + " | ".join((model, row[first], *cells)) + " |")
    return lines


def _figure(text: str) -> str:
    """A cell of a CSV in four digits, whole numbers in full."""
    if not text:
        return "–"
    return f"{int(text):,}" if text.isdigit() else f"{float(text):.4g}"


TABLES: dict[str, Callable[[], list[str]]] = {
    "search-recall": search_recall,
    "search-time": search_time,
    "search-layers": search_layers,
    "search-trust": search_trust,
    "search-each-layer": search_each_layer,
    "search-cost": search_cost,
    "search-parts": search_parts,
}
