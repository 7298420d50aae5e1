"""The summaries of mutated files: one JSON file with a digest, and which of them are of other code."""

import hashlib
import json
from pathlib import Path
from typing import Any

from tests.mutation.journal import identity, key_of, read_equivalents
from tests.mutation.mutants import mutants

Summaries = dict[str, dict[str, Any]]


def read(path: Path) -> Summaries:
    """The summaries by file, none if there is no such path; raises if they are damaged."""
    if not path.exists():
        return {}
    try:
        saved = json.loads(path.read_text())
        undamaged = saved["sha256"] == _digest(saved["files"])
    except (ValueError, KeyError, TypeError):
        undamaged = False
    if not undamaged:
        raise ValueError(
            f"`{path}` must hold summaries as `make mutate` writes them; got other data. Restore it, "
            f"or remove it and run `make mutate` again."
        )
    return saved["files"]


def write(path: Path, summaries: Summaries) -> None:
    """Write all summaries whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files = {file: summaries[file] for file in sorted(summaries)}
    draft = path.with_suffix(".partial")
    saved = {"sha256": _digest(files), "files": files}
    draft.write_text(json.dumps(saved, indent=1, ensure_ascii=False) + "\n")
    draft.replace(path)


def stale(path: Path, core: Path, equivalents: Path) -> list[str]:
    """What is of other code: a line for each summary, with its command, and for each reviewed mutant."""
    summaries = read(path)
    existing = {file.name: own for file in sorted(core.glob("*.py")) if (own := mutants(file))}
    lines = [
        f"{file}: {'its code has changed' if file in summaries else 'there is no summary'}\n"
        f"  make mutate ARGS='--jobs 2 --files {file}'"
        for file, own in existing.items()
        if file not in summaries or summaries[file]["of"] != identity(own)
    ]
    lines += [
        f"{file}: nothing has this name now; the next run drops it"
        for file in summaries
        if file not in existing
    ]
    keys = {key_of(mutant) for own in existing.values() for mutant in own}
    for key, entry in read_equivalents(equivalents).items():
        if key not in keys:
            lines.append(
                f"{entry.file} {entry.function}: {entry.original} => {entry.mutated} is reviewed in "
                f"{equivalents.name}, but gone"
            )
    return lines


def _digest(files: Summaries) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
