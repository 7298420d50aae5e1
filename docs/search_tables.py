"""Tables of the search study, from its archives: every candidate executed."""

import json
from collections.abc import Callable

import numpy as np
import pyarrow.parquet as pq
from archives import ROOT, archive_tables

# A layer errs more where the ratio of errors is below this: a tenth more.
_WORSE = 1 / 1.1

# Other sums of the first order d and the second-order term t that cost nothing more.
_FORMS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "d + t, the second order": lambda d, t: d + t,
    "d/(1 − t/d), Padé [1/1]": lambda d, t: d / (1 - t / d),
    "the same where t opposes d, else d + t": lambda d, t: np.where(
        t * d < 0, d / (1 - t / d), d + t
    ),
    "d + \\|d\\| tanh(t/\\|d\\|)": lambda d, t: d + np.abs(d) * np.tanh(t / np.abs(d)),
    "d + 2 tanh(t/2)": lambda d, t: d + 2 * np.tanh(t / 2),
}


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
        counts.insert(1, str(sum(ratio >= 3 for ratio in _upper(_over_all(model)))))
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


def search_forms() -> list[str]:
    """Ways to join first and second order, over all large effects, executed by the calibration or not."""
    lines = [
        "| model | prediction | MAE, effects ≥ 0.1 | upper layers ≥ 3 × nearer | of | least there |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for model in _searched():
        columns = _large(model)
        for name, form in _FORMS.items():
            errors = _errors(columns, form)
            upper = _upper(_times_nearer(columns, errors))
            counts = (str(sum(each >= 3 for each in upper)), str(len(upper)))
            cells = (model, name, f"{errors.mean():.4g}", *counts, f"{min(upper):.3g}")
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def search_hessian() -> list[str]:
    """What the second derivative along each write leaves, no subspace between: the bound of second order."""
    lines = [
        "| model | effects ≥ 0.1 | upper layers | 16 directions ≥ 3 × nearer | whole H ≥ 3 × nearer "
        "| least, 16 directions | least, whole H |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    rows = json.loads((ROOT / "results" / "search" / "exact-hessian.json").read_text())["rows"]
    for model in sorted({row["model"] for row in rows}):
        own = [row for row in rows if row["model"] == model]
        ratios = [
            [row["mae_first"] / row[f"mae_{name}"] for row in own]
            for name in ("directions", "hessian")
        ]
        counts = [str(sum(each >= 3 for each in some)) for some in ratios]
        least = [f"{min(some):.3g}" for some in ratios]
        effects = f"{sum(row['candidates'] for row in own):,}"
        lines.append("| " + " | ".join((model, effects, str(len(own)), *counts, *least)) + " |")
    return lines


def search_bands() -> list[str]:
    """The share of effects within the 95 % band, prompt by prompt."""
    lines = [
        "| model | prompts | of them below 0.95 | lowest | highest |",
        "|---|---:|---:|---:|---:|",
    ]
    for model in _searched():
        columns = _candidates(model, ("task", "prompt", "executed", "corrected", "band", "known"))
        within = np.abs(columns["corrected"] - columns["executed"]) <= columns["band"]
        names = np.char.add(columns["task"].astype(str), columns["prompt"].astype(str))
        rates = [within[(names == name) & ~columns["known"]].mean() for name in np.unique(names)]
        low = sum(rate < 0.95 for rate in rates)
        cells = (model, str(len(rates)), str(low), f"{min(rates):.3g}", f"{max(rates):.3g}")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _over_all(model: str) -> dict[int, float]:
    """How many times nearer the second order is at each layer, over all large effects, executed or not."""
    columns = _large(model)
    return _times_nearer(columns, _errors(columns, lambda first, term: first + term))


def _errors(
    columns: dict[str, np.ndarray], form: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """What a form of first order and second-order term is off by."""
    first = columns["exact"]
    return np.abs(form(first, columns["second"] - first) - columns["executed"])


def _times_nearer(columns: dict[str, np.ndarray], errors: np.ndarray) -> dict[int, float]:
    """The error of the exact write along the gradient over these, by layer."""
    plain, layers = np.abs(columns["exact"] - columns["executed"]), columns["layer"]
    return {
        int(n): float(plain[layers == n].sum() / errors[layers == n].sum())
        for n in np.unique(layers)
    }


def _upper(ratios: dict[int, float]) -> list[float]:
    """Those of the upper two thirds of the layers."""
    third = (1 + max(ratios)) / 3
    return [ratio for layer, ratio in ratios.items() if layer >= third]


def _large(model: str) -> dict[str, np.ndarray]:
    """The candidates of a model whose executed effect is at least 0.1."""
    columns = _candidates(model, ("layer", "executed", "exact", "second"))
    chosen = np.abs(columns["executed"]) >= 0.1
    return {name: column[chosen] for name, column in columns.items()}


def _candidates(model: str, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Columns of every candidate of a model's archive, in double precision."""
    path = ROOT / "results" / "search" / model / "candidates.parquet"
    table = pq.read_table(path, columns=list(names))
    columns = {name: table[name].to_numpy() for name in names}
    return {
        name: column.astype(np.float64) if column.dtype.kind == "f" else column
        for name, column in columns.items()
    }


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
    "search-forms": search_forms,
    "search-hessian": search_hessian,
    "search-trust": search_trust,
    "search-bands": search_bands,
    "search-each-layer": search_each_layer,
    "search-cost": search_cost,
    "search-parts": search_parts,
}
