"""Tables of the search study, from its archives: every candidate executed."""

from collections.abc import Callable

from archives import ROOT, archive_tables


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
        "| model | layers | upper two thirds | second order ≥ 3 × nearer there | anchors ≥ 3 × nearer there "
        "| least, second order | least, anchors |",
        "|---|---:|---:|---:|---:|---:|---:|",
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
        upper = sum(int(row["layer"]) >= third for row in rows)
        lines.append("| " + " | ".join((model, str(len(rows)), str(upper), *counts, *least)) + " |")
    return lines


def search_trust() -> list[str]:
    """Marks and bands on prompts that chose nothing."""
    shown = ("wrong signs", "of them marked", "right signs", "of them marked too",
             "effects within the 95 % band")  # fmt: skip
    return _search_lines("trust", shown)


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
}
