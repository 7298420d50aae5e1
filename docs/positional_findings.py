"""What the paper found on its model, on each of ours: contrasts with intervals, and the words that follow.

Both are made from the findings of the archives, so that the page says of new records what they show.
"""

from collections.abc import Callable, Iterator
from itertools import groupby

from archives import TASKS, archive_tables, archives, heading, line
from positional_tables import STUDY, ours

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


TABLES: dict[str, Callable[[], list[str]]] = {
    "positional-findings": findings,
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
