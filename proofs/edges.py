"""Which entry stands on which: edges drawn from the proofs themselves, not written down.

An entry stands on another when a clause uses one of its statements, when a statement of it has a link to a
lemma of the other, or when a Coq proof of it names a theorem of the other, directly or through helper lemmas
without a label. A statement belongs to the entry whose label or row begins its name.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping

from proofs import coq_source
from proofs.catalogue import entries, find
from proofs.entry import Entry
from proofs.prover.links import Link
from proofs.prover.statements import Statement


def owner(statement: Statement) -> Entry:
    """The entry to which a statement belongs, by the beginning of its name."""
    for entry in entries():
        if re.split(r"[ ,]|:(?= )", statement.name)[0].rstrip(":") in entry.names:
            return entry
    raise KeyError(f"the name of {statement.name!r} begins with no label or row")


@functools.cache
def stands_on(label: str) -> tuple[str, ...]:
    """The labels of the entries on which an entry stands directly."""
    entry = find(label)
    symbolic = {owner(lemma).label for lemma in _lemmas(entry.statements)}
    formal = {find(name).label for name in _coq_labels(entry.theorems)}
    return tuple(sorted((symbolic | formal) - {entry.label}))


def foundations(label: str) -> frozenset[str]:
    """Every entry on which an entry stands, through any number of others."""
    reached: set[str] = set()
    waiting = [find(label).label]
    while waiting:
        for below in stands_on(waiting.pop()):
            if below not in reached:
                reached.add(below)
                waiting.append(below)
    return frozenset(reached - {find(label).label})


def is_green(label: str, holds: Mapping[str, bool]) -> bool:
    """Whether an entry holds and all that it stands on does; `holds` is the verdict on each entry alone."""
    return holds[find(label).label] and all(holds[below] for below in foundations(label))


def _lemmas(statements: Iterable[Statement]) -> Iterator[Statement]:
    for statement in statements:
        yield statement
        for link in statement.links:
            if isinstance(link, Link):
                yield from _lemmas((link.lemma,))


def _coq_labels(theorems: Iterable[str]) -> set[str]:
    """The labels of the theorems that the proofs of these ones name."""
    known, uses = coq_source.theorems(), _coq_uses()
    labels: set[str] = set()
    reached: set[str] = set()
    waiting = [name for theorem in theorems for name in uses.get(theorem, ())]
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        if known[name].labels:
            labels.update(known[name].labels)
        else:
            waiting += uses.get(name, ())
    return labels


@functools.cache
def _coq_uses() -> Mapping[str, tuple[str, ...]]:
    """The theorems that each Coq proof names, its own module's before those of the modules it requires."""
    known = coq_source.theorems()
    files = coq_source.source_files(coq_source.SOURCE)
    requires = coq_source.dependencies(files)
    uses: dict[str, tuple[str, ...]] = {}
    for file in files:
        lines = re.sub(r"\(\*.*?\*\)", _blank, file.read_text(encoding="utf-8"), flags=re.DOTALL)
        text = lines.splitlines()
        mine = sorted((t for t in known.values() if t.module == file.stem), key=lambda t: t.line)
        modules = [file.stem, *sorted(requires[file.stem])]
        visible = {t.name: t.id for m in reversed(modules) for t in known.values() if t.module == m}
        for theorem, end in zip(mine, [t.line for t in mine[1:]] + [len(text) + 1], strict=True):
            words = set(re.findall(r"[A-Za-z_][\w']*", "\n".join(text[theorem.line - 1 : end - 1])))
            uses[theorem.id] = tuple(
                sorted(visible[w] for w in words if w in visible and visible[w] != theorem.id)
            )
    return uses


def _blank(comment: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", comment.group())
