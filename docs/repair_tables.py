"""The tables of the page of answer repair."""

import functools
import json
from collections.abc import Callable
from textwrap import wrap

from archives import ROOT

REPAIR = ROOT / "results" / "answer-repair" / "smollm2-135m-instruct"


def repair(title: str, *, note: bool = False) -> list[str]:
    """A table of the study of answer repair, from its summary, which tests hold to the records."""
    text = (REPAIR / "summary.md").read_text()
    section = text.partition(f"## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    if note:
        table, _, words = section.strip().partition("\n\n")
        lines = [*table.splitlines(), "", *wrap(words, 110, break_on_hyphens=False)]
    if not lines:
        raise ValueError(f"The summary of {REPAIR.name} must hold a table {title!r}; it does not.")
    return lines


def repair_extent() -> list[str]:
    """Which part of the cases the record holds, or that it holds all."""
    manifest = json.loads((REPAIR / "manifest.json").read_text())
    planned = manifest["identity"]["settings"]["cases"]
    part = manifest.get("part")
    return [
        f"**The record is a part: {part}.**" if part else f"The record holds all {planned} cases."
    ]


TABLES: dict[str, Callable[[], list[str]]] = {
    "repair-extent": repair_extent,
    "repair-base": functools.partial(repair, "Cases before any edit"),
    "repair-rates": functools.partial(repair, "Repairs", note=True),
    "repair-kinds": functools.partial(repair, "Repairs by kind of case"),
    "repair-damage": functools.partial(repair, "Damage"),
    "repair-predictions": functools.partial(repair, "Predicted and executed effects"),
    "repair-search": functools.partial(repair, "The search for an example, every case"),
    "repair-example": functools.partial(repair, "The confirmed example", note=True),
}
