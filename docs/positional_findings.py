"""What the paper found on its model, on each of ours: contrasts with intervals, and the words that follow.

Both are made from the findings of the archives, so that the page says of new records what they show.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from archives import TASKS, archive_tables, archives, heading, line
from positional_tables import STUDY, ours

from proofs.printed import tables as printed

Row = dict[str, str]
# Where the whole interval of a finding lies; without a place if it holds zero.
_VERDICTS = ("above zero", "below zero, against the paper", "undecided")


def findings() -> list[str]:
    """Every finding with its interval, a model's tasks side by side."""
    lines = heading(3, "model", "finding", "in", "Corrupt", "Ordered", "third task")
    for archive in archives(STUDY):
        for (name, unit), rows in _by_finding(archive):
            lines.append(line(ours(archive), name, unit, *map(_cell, rows)))
    return lines


def holds() -> list[str]:
    """Findings by how many settings their interval stands in: a setting is a model with a task."""
    places: dict[str, dict[str, list[str]]] = {}
    for archive in archives(STUDY):
        for (name, unit), rows in _by_finding(archive):
            if unit != "share":
                for row in rows:
                    place = f"{ours(archive).removesuffix(' (here)')} {TASKS[row['task']]}"
                    places.setdefault(name, {}).setdefault(_verdict(row), []).append(place)
    everywhere = [name for name, found in places.items() if set(found) == {_VERDICTS[0]}]
    lines = ["The whole interval lies above zero in every setting that has the figure:", ""]
    lines += [f"- {name} ({len(places[name][_VERDICTS[0]])})" for name in everywhere]
    others = [name for name in places if name not in everywhere]
    if others:
        lines += ["", "It depends on the setting:", ""]
        lines += [f"- {name}: {'; '.join(_counts(places[name]))}" for name in others]
    return lines


def shares() -> list[str]:
    """Phase and context under reordering, a setting at a time."""
    lines = heading(2, "model", "task", "phase in the first layer", "phase above", "context above")
    for archive in archives(STUDY):
        cells: dict[str, list[str]] = {}
        for (_, unit), rows in _by_finding(archive):
            for row in rows if unit == "share" else ():
                cells.setdefault(row["task"], []).append(_cell(row))
        lines += [line(ours(archive), TASKS[task], *each) for task, each in cells.items()]
    return lines


def differs() -> list[str]:
    """Where the first archive's model and the paper's part, in ranges over tasks and layers."""
    archive = archives(STUDY)[0]
    tables = archive_tables(STUDY, archive)
    below = [row for row in tables["prediction"] if row["against"] == "zero"]
    theirs = {task: cells for (task,), cells in printed.PHASE_PREDICTION.items()}
    above = sum(
        float(r["low"]) > _number(theirs[r["task"]][5]) for r in below if r["task"] in theirs
    )
    here = _range(row["reduction %"] for row in below)
    there = _range(cells[3] for cells in theirs.values())
    lines = [
        f"- The finite predictor errs less than predicting nothing by {here} % here and by {there} % in the "
        f"paper; the whole interval lies above the paper's on {above} of {len(below)} tasks. Effects are "
        f"smaller here, over which a frozen gradient may hold better; that was not tested."
    ]
    shares = [
        [row["interaction %"] for row in tables["interaction"] if row["shift"] == shift]
        for shift in ("16", "128")
    ]
    printed_shares = [[cells[n] for cells in printed.BAND_INTERACTION.values()] for n in (0, 3)]
    parts = (
        f"{_range(mine)} % at shift {shift} (paper: {_range(paper)} %)"
        for shift, mine, paper in zip((16, 128), shares, printed_shares, strict=True)
    )
    lines.append(f"- The fast–middle interaction is {' and '.join(parts)}.")
    found = dict(_by_finding(archive))
    for bits in (2, 4):
        exact, both, once = (
            found[f"{bits} bits: {name}", "relative RMSE"]
            for name in ("exact beats second order, both re-scored",
                         "exact re-scored beats second order once",
                         "exact re-scored beats exact once")
        )  # fmt: skip
        won = sum(_verdict(row) == _VERDICTS[0] for row in exact)
        gains = [_range((row["figure"] for row in each), 4) for each in (exact, both, once)]
        lines.append(
            f"- **The matched control, {bits} bits.** Exact scores beat second-order ones that are re-scored "
            f"just as often by {gains[0]} of relative RMSE, the whole interval above zero on {won} of "
            f"{len(exact)} tasks. The paper's contrast, against second order scored once, is {gains[1]} "
            f"here; re-scoring brings exact scores {gains[2]}."
        )
    return lines


TABLES: dict[str, Callable[[], list[str]]] = {
    "positional-findings": findings,
    "positional-differs": differs,
    "positional-holds": holds,
    "positional-shares": shares,
}


def _by_finding(archive: str) -> Iterator[tuple[tuple[str, str], list[Row]]]:
    """Findings in the order of the first task, each with its rows by task."""
    rows = archive_tables(STUDY, archive)["findings"]
    names = list(dict.fromkeys((row["finding"], row["in"]) for row in rows))
    rows = sorted(rows, key=lambda row: names.index((row["finding"], row["in"])))
    for key, alike in groupby(rows, lambda row: (row["finding"], row["in"])):
        yield key, list(alike)


def _verdict(row: Row) -> str:
    above, below, undecided = _VERDICTS
    if float(row["low"]) > 0:
        return above
    return below if float(row["high"]) < 0 else undecided


def _counts(found: dict[str, list[str]]) -> Iterator[str]:
    for verdict in _VERDICTS:
        if verdict in found:
            yield f"{len(found[verdict])} {verdict} ({', '.join(found[verdict])})"


def _cell(row: Row) -> str:
    return f"{float(row['figure']):.3g} [{float(row['low']):.3g}, {float(row['high']):.3g}]"


def _number(cell: str) -> float:
    return float(cell.rstrip("% "))


def _range(cells: Iterable[str], digits: int = 1) -> str:
    """The smallest and the largest of some figures."""
    numbers = [_number(cell) for cell in cells]
    return f"{min(numbers):.{digits}f} to {max(numbers):.{digits}f}"
