"""The rows of a table of scores on the console and in JSON."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from finite_calculus.cli.question import show

if TYPE_CHECKING:
    from collections.abc import Iterable

    from finite_calculus.models import Floor
    from finite_calculus.search import (
        ExecutedRow,
        LocalCheck,
        ScoreRow,
        ScoreTable,
        Verification,
    )

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


def trust_lines(table: "ScoreTable") -> list[str]:
    """How many predictions are to be trusted and how that is known; empty if nothing was executed."""
    totals = trust_counts(table)
    lines = []
    if totals:
        lines.append(
            f"{totals['calibrated_on']} executed, {totals['sampled']} of them as a sample: "
            f"{totals['trusted']} of {len(table)} predictions keep their sign within a band calibrated at "
            f"{totals['level']:.0%}; the others are marked ?"
        )
    bent = table.capture.curvature
    if bent is not None and bent.not_smooth:
        lines.append(f"curvature: {bent.not_smooth}")
    return lines


def trust_counts(table: "ScoreTable") -> dict[str, Any]:
    """Executed and trusted rows and the rate of the band; empty if the table is not calibrated."""
    if table.downstream is None or table.downstream.calibrated is None:
        return {}
    done = table.downstream.calibrated
    return {
        "calibrated_on": int((~done.executed.isnan()).sum()),
        "sampled": int(done.sampled.sum()),
        "trusted": int(done.trusted.sum()),
        "level": done.level,
    }


def missed_words(check: "Verification") -> str:
    """The probability of having missed something, in words, if it was estimated."""
    if check.missed is None:
        return ""
    return (
        f" after {check.spent} on the shared path; estimated probability of a larger effect among the "
        f"others: {check.missed:.2g}"
    )


def show_rows(
    title: str,
    rows: "Any",
    done: "dict[int, ExecutedRow]",
    names: list[str] | None = None,
    *,
    table: "ScoreTable | None" = None,
    floor: "Floor",
) -> None:
    """A table of predictions, beside what was executed of them; `names` stand for the kinds of edits.

    With a calibrated `table`, effects that its sample executed are shown too, without a local check.
    """
    sample = sampled_effects(table)
    # The parts are worth their columns where a row has more than one of them.
    split = any(row.interaction or (row.key and row.value) for row in rows)
    bent = any(row.second is not None for row in rows)
    banded = any(row.band is not None for row in rows)
    certified = any(row.bound is not None for row in rows)
    columns = ["layer", "tokens", "text", "edit", "predicted"]
    columns += ["key", "value", "both"] if split else []
    columns += ["second"] if bent else []
    columns += ["corrected", "± band"] if banded else []
    columns += ["first-order", "± bound"] if certified else []
    columns += ["executed"] if done or sample else []
    columns += LOCAL_COLUMNS if done else []
    shown = []
    for place, row in enumerate(rows):
        kind = row.kind if names is None else names[place]
        line = [str(row.layer), _tokens(row), repr(row.text), kind]
        parts = (row.key, row.value, row.interaction) if split else ()
        line += [f"{number:+.4f}" for number in (row.effect, *parts)]
        line += [f"{row.second:+.4f}"] if bent else []
        if banded:
            line += [f"{row.corrected:+.4f}", f"{row.band:.2g}{'  ' if row.trusted else ' ?'}"]
        line += [f"{row.first_order:+.4f}", f"{row.bound:.4f}"] if certified else []
        item = done.get(row.index)
        effect = sample.get(row.index) if item is None else item.effect
        if done or sample:
            line.append(floor.cell(effect))
        if done:
            line += local_cells(None if item is None else item.local)
        shown.append(line)
    show(title, columns, shown)


def tell_floor(floor: "Floor", effects: "Iterable[float | None]") -> None:
    """Say how many effects are not resolved, if any is not."""
    told = floor.told(effects)
    if told:
        print(told)


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


def row_entry(
    row: "ScoreRow",
    done: "dict[int, ExecutedRow]",
    floor: "Floor",
    table: "ScoreTable | None" = None,
) -> dict[str, Any]:
    """One row for JSON, with its execution if there was one; `sampled` is that of the sample."""
    item = done.get(row.index)
    entry = asdict(row)
    sample = sampled_effects(table)
    if row.index in sample:
        entry["sampled"] = sample[row.index]
        entry["sampled_resolved"] = floor.resolves(sample[row.index])
    if item is not None:
        entry["executed"] = {
            **floor.entry(item.effect),
            "margin": item.margin,
            "local": asdict(item.local),
        }
    return entry


def sampled_effects(table: "ScoreTable | None") -> dict[int, float]:
    """Effects that a calibration executed, by row."""
    if table is None or table.downstream is None or table.downstream.calibrated is None:
        return {}
    executed = table.downstream.calibrated.executed
    rows = (~executed.isnan()).nonzero().squeeze(-1)
    return dict(zip(rows.tolist(), executed[rows].tolist(), strict=True))


def _tokens(row: "ScoreRow") -> str:
    if len(row.tokens) > 2 and row.tokens == tuple(range(row.tokens[0], row.tokens[-1] + 1)):
        return f"{row.tokens[0]}-{row.tokens[-1]}"
    return ",".join(map(str, row.tokens))
