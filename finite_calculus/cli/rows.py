"""The rows of a table of scores on the console and in JSON."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from finite_calculus.cli.question import show

if TYPE_CHECKING:
    from finite_calculus.search import ExecutedRow, LocalCheck, ScoreRow, ScoreTable

LOCAL_COLUMNS = ["local error", "its bound", "probable bound"]


def summary_lines(table: "ScoreTable") -> list[str]:
    """How many candidates there are, and how much of their order is certain."""
    kinds = len({part.kind.name for part in table.parts if part.kind is not None})
    lines = [f"{len(table)} candidates: {kinds} kinds of edits, every place, every layer"]
    certain = certified_counts(table)
    if certain:
        share = certain["certified_pairs"] / max(1, certain["pairs"])
        lines.append(
            f"certified: {certain['certified_signs']} of {len(table)} signs, "
            f"{certain['certified_pairs']} of {certain['pairs']} pairs ({share:.1%})"
        )
        if certain["tightness"]:
            low, _, median, _, high = certain["tightness"].values()
            lines.append(
                f"bound over actual error of the first order: median {median:.3g}, "
                f"{low:.3g} to {high:.3g} for nine in ten"
            )
    return lines


def certified_counts(table: "ScoreTable") -> dict[str, Any]:
    """Certified signs and pairs, and how tight the bounds are; empty without a certificate."""
    from finite_calculus.search import counts, tightness

    if table.certificate is None:
        return {}
    totals = counts(table.certificate)
    return {
        "certified_signs": totals.signs,
        "certified_pairs": totals.pairs,
        "pairs": totals.all_pairs,
        "tightness": {str(q): ratio for q, ratio in tightness(table).items()},
    }


def show_rows(
    title: str, rows: "Any", done: "dict[int, ExecutedRow]", names: list[str] | None = None
) -> None:
    """A table of predictions, beside what was executed of them; `names` stand for the kinds of edits."""
    split = any(row.value or row.interaction for row in rows)
    columns = ["layer", "tokens", "text", "edit", "predicted"]
    columns += ["key", "value", "both"] if split else []
    certified = any(row.bound is not None for row in rows)
    columns += ["first-order", "± bound"] if certified else []
    columns += ["executed", *LOCAL_COLUMNS] if done else []
    shown = []
    for place, row in enumerate(rows):
        kind = row.kind if names is None else names[place]
        line = [str(row.layer), _tokens(row), repr(row.text), kind]
        parts = (row.key, row.value, row.interaction) if split else ()
        line += [f"{number:+.4f}" for number in (row.effect, *parts)]
        if certified:
            line += [f"{row.first_order:+.4f}", f"{row.bound:.4f}"]
        if done:
            item = done.get(row.index)
            line.append("" if item is None else f"{item.effect:+.4f}")
            line += local_cells(None if item is None else item.local)
        shown.append(line)
    show(title, columns, shown)


def local_cells(check: "LocalCheck | None") -> list[str]:
    """The error of an executed write, its sure bound and its probable one, with what was exceeded."""
    if check is None:
        return [""] * len(LOCAL_COLUMNS)
    failed = "" if check.within_bound else " FAILED"
    warned = "" if check.likely else " WARNING"
    return [
        f"{check.error:.1e}",
        f"{check.bound:.1e}{failed}",
        f"{check.probable_bound:.1e}{warned}",
    ]


def row_entry(row: "ScoreRow", done: "dict[int, ExecutedRow]") -> dict[str, Any]:
    """One row for JSON, with its execution if there was one."""
    item = done.get(row.index)
    entry = asdict(row)
    if item is not None:
        entry["executed"] = {
            "effect": item.effect,
            "margin": item.margin,
            "local": asdict(item.local),
        }
    return entry


def _tokens(row: "ScoreRow") -> str:
    if len(row.tokens) > 2 and row.tokens == tuple(range(row.tokens[0], row.tokens[-1] + 1)):
        return f"{row.tokens[0]}-{row.tokens[-1]}"
    return ",".join(map(str, row.tokens))
