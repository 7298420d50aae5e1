"""The catalogue: one entry for each statement of the paper, collected from the topic files.

`entries()` is everything, `find(label)` one entry by its label, alias or row. The labels that must
be present are in proofs/labels.py; `python -m proofs.catalogue` prints a plain list.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Sequence

from proofs.entry import Entry

TOPICS = (
    "phi",
    "rotary",
    "positional",
    "readout",
    "response",
    "joint",
    "quadratic",
    "margin",
    "certificate",
    "sparse",
    "effective",
    "gauge",
    "curvature",
    "control",
    "bands",
    "reordering",
    "deletion",
    "quantise",
    "restoration",
    "regression",
    "studies",
)


@functools.cache
def entries() -> tuple[Entry, ...]:
    """Every entry, in the order of the topics."""
    return collect(
        (name, importlib.import_module(f"proofs.topics.{name}").ENTRIES) for name in TOPICS
    )


def find(label: str) -> Entry:
    """The entry with this label, alias or row of the statement list."""
    for entry in entries():
        if label in entry.names:
            return entry
    raise KeyError(f"no entry has the label {label!r}")


def collect(topics: Iterable[tuple[str, Sequence[Entry]]]) -> tuple[Entry, ...]:
    """The entries of all topics; a label, alias or row used twice is an error."""
    catalogue: list[Entry] = []
    places: dict[str, str] = {}
    for topic, group in topics:
        for entry in group:
            for name in entry.names:
                place = f"{topic}.{entry.label}"
                if name in places:
                    raise ValueError(f"{name!r} is used by both {places[name]} and {place}")
                places[name] = place
            catalogue.append(entry)
    return tuple(catalogue)


def main() -> None:
    """Print every entry with its proof."""
    for entry in entries():
        print(f"\n{', '.join(entry.names)} [{entry.kind}] {entry.title}\n  {entry.text}")
        print(f"  scope: {entry.scope}")
        for statement in entry.statements:
            print("  " + str(statement.prove()).replace("\n", "\n  "))


if __name__ == "__main__":
    main()
