"""Tables of cache decisions, from the records of their benches."""

import json
import random
from collections.abc import Callable

from archives import ROOT


def cache_gap() -> list[str]:
    """Entries evicted by a plan, by the greedy rule, and at most."""
    rows = json.loads((ROOT / "results/cache/gap.json").read_text("utf-8"))["rows"]
    lines = ["| model | tokens | budget | ours | greedy | largest |", "|---|--:|--:|--:|--:|--:|"]
    for row in rows:
        most = "" if row["largest"] is None else row["largest"]
        cells = (row["model"], row["tokens"], row["budget"], row["ours"], row["greedy"], most)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def cache_rounding() -> list[str]:
    """Runs called rounding and planted faults named."""
    record = json.loads((ROOT / "results/cache/rounding.json").read_text("utf-8"))
    lines = ["| runs | of | right |", "|---|--:|--:|"]
    words = "that differ by rounding, called rounding"
    lines.append(f"| {words} | {record['runs']:,} | {record['called_rounding']:,} |")
    for kind, counts in record["faults"].items():
        lines.append(f"| with {kind}, named | {counts['planted']} | {counts['named']} |")
    worst = f"largest difference of a run over what rounding allows: {record['largest_ratio']:.2g}"
    return [*lines, "", f"{worst}; {record['equal_bits']} runs were equal bit for bit."]


def cache_quality() -> list[str]:
    """Mean KL of every method, and its paired difference from ours."""
    path = ROOT / "results/cache/smollm2-135m-instruct/quality.json"
    if not path.exists():
        command = (
            "python -m bench.cache_quality --out results/cache/smollm2-135m-instruct/quality.json"
        )
        return [f"No record of it is saved yet. `{command}` makes one."]
    rows = json.loads(path.read_text("utf-8"))["rows"]
    lines = ["| method | kept | KL, nats a token | minus ours |", "|---|--:|--:|---|"]
    for keep in sorted({row["keep"] for row in rows}, reverse=True):
        by_method: dict[str, dict[int, float]] = {}
        for row in rows:
            if row["keep"] == keep:
                by_method.setdefault(row["method"], {})[row["text"]] = row["kl"]
        ours = by_method["write distortion"]
        for method, values in by_method.items():
            apart = [values[text] - ours[text] for text in ours]
            low, high = _interval(apart)
            mean = sum(values.values()) / len(values)
            shown = "" if method == "write distortion" else f"{low:+.3f} to {high:+.3f}"
            lines.append(f"| {method} | {keep:.0%} | {mean:.3f} | {shown} |")
    texts = len({row["text"] for row in rows})
    return [*lines, "", f"{texts} texts."]


def _interval(apart: list[float]) -> tuple[float, float]:
    """The bootstrap's 95 % interval of a mean, seeded."""
    draw = random.Random(0)
    means = sorted(sum(draw.choices(apart, k=len(apart))) / len(apart) for _ in range(2000))
    return means[50], means[1949]


TABLES: dict[str, Callable[[], list[str]]] = {
    "cache-gap": cache_gap,
    "cache-rounding": cache_rounding,
    "cache-quality": cache_quality,
}
