"""Tables of the positional study's satellites: what an edit costs, and recall without slow planes."""

from collections.abc import Callable

from archives import MODELS, TASKS, Rows, archive_tables, archives, heading, line

_PARTS = ("prefix", "gradient", "predict", "execute", "check")


def cost() -> list[str]:
    """Milliseconds of the processor for one edit, part by part, beside a plain forward pass."""
    lines = heading(2, "model", "task", "variants", *_PARTS, "in all", "plain pass",
                    "plain over all", "without checks", "edits a second")  # fmt: skip
    for archive in archives("positional-cost"):
        for row in archive_tables("positional-cost", archive)["cost"]:
            names = (*(f"{part} ms" for part in _PARTS), "total ms", "plain pass ms")
            bare = float(row["plain pass ms"]) / float(row["total without checks ms"])
            lines.append(
                line(MODELS[archive], TASKS.get(row["task"], row["task"]), row["variants"],
                     *(f"{float(row[name]):.3g}" for name in names),
                     f"{float(row['plain over total']):.1f}", f"{bare:.1f}",
                     f"{float(row['edits a second']):.1f}")
            )  # fmt: skip
    return lines


def heads() -> list[str]:
    """Recall with planes of all retrieval heads at zero in every query: slow ones beside random ones."""
    lines = heading(2, "model", "task", "contrast", "recall", "slow planes at zero", "random planes at zero",
                    "slow − random, points", "interval", "slow, other heads")  # fmt: skip
    for archive in archives("retrieval-heads"):
        tables = archive_tables("retrieval-heads", archive)
        recall = {(r["task"], r["heads"], r["planes zeroed"]): float(r["recall %"])
                  for r in tables["recall"] if r["queries"] in ("all", "–")}  # fmt: skip
        for row in tables["anchor"]:
            if (row["heads"], row["queries"]) != ("retrieval", "all"):
                continue
            task = row["task"]
            shown = (recall[task, "–", "none"], float(row["slow recall %"]),
                     float(row["random recall %"]))  # fmt: skip
            ends = ", ".join(f"{float(row[end]):.1f}" for end in ("low", "high"))
            lines.append(
                line(MODELS[archive], TASKS.get(task, task), f"{_contrast(tables['heads']):.2f}",
                     *(f"{x:.1f} %" for x in shown),
                     f"{float(row['difference %']):+.1f}", f"[{ends}]",
                     f"{recall[task, 'other', 'slow']:.1f} %")
            )  # fmt: skip
    return lines


def anchor() -> list[str]:
    """Whether slow planes matter more than random ones, a model at a time."""
    lines = []
    for archive in archives("retrieval-heads"):
        tables = archive_tables("retrieval-heads", archive)
        rows = [r for r in tables["anchor"] if (r["heads"], r["queries"]) == ("retrieval", "all")]
        held = [TASKS.get(r["task"], r["task"]) for r in rows if float(r["high"]) < 0]
        answers = [r for r in tables["recall"] if r["planes zeroed"] == "none"]
        best = max(float(row["recall %"]) for row in answers)
        lowest = min(float(row["slow recall %"]) for row in rows)
        where = f" ({', '.join(held)})" if held else ""
        lines.append(
            f"- {MODELS[archive]}: largest contrast {_contrast(tables['heads']):.2f}, unedited recall at "
            f"most {best:.1f} %. Without slow planes recall is {lowest:.1f} % at least; it is below that "
            f"without random planes, with its whole interval, on {len(held)} of {len(rows)} tasks{where}."
        )
    return lines


TABLES: dict[str, Callable[[], list[str]]] = {
    "positional-cost": cost,
    "retrieval-heads": heads,
    "retrieval-heads-anchor": anchor,
}


def _contrast(heads: Rows) -> float:
    """The largest contrast of a head."""
    return max(float(row["contrast"]) for row in heads)
