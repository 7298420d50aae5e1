"""Tables of cache decisions, from the records of their benches."""

import json
import math
import random
from collections.abc import Callable, Iterable
from typing import Any

from archives import ROOT

from finite_calculus.cache.policy import FULL, Rounding


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


RECORDS = ROOT / "results/cache"
KINDS = ("address", "needle", "retrieval")
FIGURES = "KL, nats a token | minus ours | perplexity | needle | retrieval"
TIMES = "ms a token | plan, s |"


def cache_quality() -> list[str]:
    """Evictions: mean KL on addresses beside ours, and what is answered right."""
    record = _record("smollm2-135m-instruct/quality.json", "bench.cache_quality")
    if isinstance(record, list):
        return record
    rows = [row for row in record["rows"] if "keep" in row]
    head = f"| kept | method | {FIGURES} | memory | {TIMES}"
    lines = [head, "|--:|---|--:|---|--:|--:|--:|--:|--:|--:|"]
    for keep in sorted({row["keep"] for row in rows}, reverse=True):
        some = [row for row in rows if row["keep"] == keep]
        for method in dict.fromkeys(row["method"] for row in some):
            memory = _mean(
                row.get("bytes", 1) / row.get("bytes_before", 1)
                for row in some
                if row["method"] == method
            )
            lines.append(_line(f"{keep:.0%}", method, some, "write distortion", f"{memory:.0%}"))
    return [*lines, "", _counted(rows)]


def cache_restored() -> list[str]:
    """Few bits with some entries restored: as `cache_quality`."""
    record = _record("smollm2-135m-instruct/quality.json", "bench.cache_quality")
    if isinstance(record, list):
        return record
    rows = [row for row in record["rows"] if "bits" in row]
    head = f"| bits, restored | chosen by | {FIGURES} | bits stored | {TIMES}"
    lines = [head, "|--:|---|--:|---|--:|--:|--:|--:|--:|--:|"]
    for bits, share in sorted({(row["bits"], row["restored"]) for row in rows}):
        some = [row for row in rows if (row["bits"], row["restored"]) == (bits, share)]
        for method in dict.fromkeys(row["method"] for row in some):
            few = Rounding(axis="group32").cost(bits, 32) / 32
            own = [row for row in some if row["method"] == method and row["kind"] == "address"]
            back = _mean(row["kept"] for row in own) / record["context"]
            stored = f"{few + (FULL - few) * back:.2f}"
            lines.append(_line(f"{bits}, {share:.0%}", method, some, "exact benefit", stored))
    return [*lines, "", _counted(rows)]


def cache_biases() -> list[str]:
    """Right answers with large key biases, uniform bits beside a policy of the same memory."""
    record = _record("embedded/biases.json", "bench.cache_biases")
    if isinstance(record, list):
        return record
    lines = ["| key bias | cache | bits a number | right | mean KL |", "|--:|---|--:|--:|--:|"]
    rows = record["rows"]
    for bias, name in dict.fromkeys((row["bias"], row["cache"]) for row in rows):
        some = [row for row in rows if (row["bias"], row["cache"]) == (bias, name)]
        bits, right, kl = (_mean(row[x] for row in some) for x in ("bits", "right", "kl"))
        lines.append(f"| {bias:g} | {name} | {bits:.2f} | {right:.0%} | {kl:.2g} |")
    return [*lines, "", f"{len({row['prompt'] for row in rows})} prompts."]


def cache_kvpress() -> list[str]:
    """Our methods as presses beside kvpress's own."""
    record = _record("smollm2-135m-instruct/kvpress.json", "bench.kvpress")
    if isinstance(record, list):
        return record
    rows = record["rows"]
    lines = ["| kept | press | mean KL |", "|--:|---|--:|"]
    for keep, name in dict.fromkeys((row["keep"], row["press"]) for row in rows):
        kl = _mean(r["kl"] for r in rows if (r["keep"], r["press"]) == (keep, name))
        lines.append(f"| {keep:.0%} | {name} | {kl:.3f} |")
    made = record["made_with"]
    texts = len({row["text"] for row in rows})
    words = f"{texts} {'text' if texts == 1 else 'texts'} of {record['tokens']} tokens"
    return [*lines, "", f"{words}, kvpress {made['kvpress']}, transformers {made['transformers']}."]


def _record(name: str, module: str) -> Any:
    """A saved record, or the words that there is none."""
    path = RECORDS / name
    if path.exists():
        return json.loads(path.read_text("utf-8"))
    return [
        f"No record of it is saved yet. `python -m {module} --out results/cache/{name}` makes one."
    ]


def _line(first: str, method: str, rows: list[dict[str, Any]], ours: str, memory: str) -> str:
    """One method's row: KL and perplexity on addresses, answers on the other texts, memory and times."""
    own = [row for row in rows if row["method"] == method]
    by_kind = {kind: [row for row in own if row["kind"] == kind] for kind in KINDS}
    kl = {row["text"]: row["kl"] for row in by_kind["address"]}
    best = {r["text"]: r["kl"] for r in rows if r["method"] == ours and r["kind"] == "address"}
    apart = [kl[text] - best[text] for text in kl if text in best]
    shown = ""
    if method != ours and apart:
        low, high = _interval(apart)
        shown = f"{low:+.3f} to {high:+.3f}"
    perplexity = math.exp(_mean(row["loss"] for row in by_kind["address"]))
    answers = [f"{sum(r['right'] for r in by_kind[k])}/{len(by_kind[k])}" for k in KINDS[1:]]
    # A plan's time is that of the code that made the last texts.
    timed = [row for row in own if row["code"] == own[-1]["code"]]
    token, plan = (_mean(row[x] for row in timed) for x in ("token", "plan"))
    figures = (f"{_mean(kl.values()):.3f}", shown, f"{perplexity:.1f}")
    cells = (first, method, *figures, *answers, memory, f"{1000 * token:.0f}", f"{plan:.2f}")
    return "| " + " | ".join(cells) + " |"


def _counted(rows: list[dict[str, Any]]) -> str:
    counts = {kind: len({row["text"] for row in rows if row["kind"] == kind}) for kind in KINDS}
    words = ", ".join(f"{count} of the kind {kind}" for kind, count in counts.items())
    timed = len({row["ids_sha256"] for row in rows if row["code"] == rows[-1]["code"]})
    times = f"times are processor time, of the {timed} texts made last"
    return f"Texts: {words}. Perplexity is of the scored tokens; {times}."


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)


def _interval(apart: list[float]) -> tuple[float, float]:
    """The bootstrap's 95 % interval of a mean, seeded."""
    draw = random.Random(0)
    means = sorted(sum(draw.choices(apart, k=len(apart))) / len(apart) for _ in range(2000))
    return means[50], means[1949]


TABLES: dict[str, Callable[[], list[str]]] = {
    "cache-gap": cache_gap,
    "cache-rounding": cache_rounding,
    "cache-quality": cache_quality,
    "cache-restored": cache_restored,
    "cache-biases": cache_biases,
    "cache-kvpress": cache_kvpress,
}
