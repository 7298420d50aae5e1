"""The report archive of a finished run: records, manifest and summary; no tensors, no text, no paths.

A part of an unfinished run can be archived too, if one is named; manifest and summary say which it is. The
manifest holds the sha256 of every record, and a run can go on from the archive. What can be made from the
records again (CSV, LaTeX) is not kept: `finite-calculus summary ARCHIVE` makes it.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from finite_calculus.harness import directory
from finite_calculus.harness.archived import UNITS_FILE, units_of_run
from finite_calculus.harness.directory import MANIFEST
from finite_calculus.harness.errors import StoreError
from finite_calculus.harness.identity import study_sources
from finite_calculus.harness.options import command_words, place_words
from finite_calculus.harness.records import SavedRun, read_saved
from finite_calculus.harness.rows import encode_table
from finite_calculus.harness.shards import read_seal
from finite_calculus.harness.stages import policy_file
from finite_calculus.harness.summary import summary_files
from finite_calculus.provenance.commits import code_commit
from finite_calculus.provenance.digests import digest
from finite_calculus.provenance.files import read_json, read_plain, replace_file

_SUMMARY = "summary.md"


def archive(path: Path, target: Path, *, first: int | None = None) -> Path:
    """Write the archive of a finished run into an empty directory; returns its manifest.

    `first` archives a part: so many units of the last stage, from its beginning.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StoreError(f"`archive` must be empty or new; {target.name} is not. Name another one.")
    record = directory.read_run(path)
    saved = read_saved(path, first=first)
    if not (saved.complete or saved.part):
        raise StoreError(
            "The run must be finished before it is archived; units are missing. Name a part with `first`."
        )
    files = _files(path, saved)
    target.mkdir(parents=True, exist_ok=True)
    for name, blob in {**files, _SUMMARY: summary_files(saved)[_SUMMARY]}.items():
        replace_file(target / name, blob)
    units = saved.units
    origin = path / directory.ORIGIN
    manifest = {
        "study": record.study,
        "fingerprint": record.fingerprint,
        "root": directory.root_hash(path, record, units),
        "identity": dict(record.identity),
        "repeatable": saved.study.repeatable,
        "command": command(saved),
        "again": f"finite-calculus again ARCHIVE UNIT{place_words(saved.settings)}",
        "commit": _commit(record, saved),
        **({"part": saved.part} if saved.part else {}),
        **({"from": read_json(origin)} if origin.exists() else {}),
        "started": record.started,
        "seconds": _seconds(path, units),
        "rows": {name: table.num_rows for name, table in saved.tables.items()},
        "replay": _replay(path),
        "sha256": {name: digest(blob) for name, blob in files.items()},
    }
    replace_file(target / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
    return target / MANIFEST


def command(saved: SavedRun) -> str:
    """The command that reproduces a run, with DIR for every directory of the user."""
    words = ["finite-calculus", "run", saved.study.name, *command_words(saved.settings)]
    threads = saved.identity["made_with"].get("threads")
    words += [] if threads is None else ["--threads", threads]
    return " ".join([*words, "--out DIR"])


def _files(path: Path, saved: SavedRun) -> dict[str, bytes]:
    files = {f"{name}.parquet": encode_table(table) for name, table in saved.tables.items()}
    stages = saved.study.stages
    names = [directory.plan_file(stage) for stage in stages]
    names += [policy_file(stage) for stage in stages[:-1]]
    names += [directory.PREFLIGHT] if (path / directory.PREFLIGHT).exists() else []
    files |= {name: read_plain(path / name) for name in names}
    return {**files, UNITS_FILE: units_of_run(path, saved.units)}


def _commit(record: directory.RunRecord, saved: SavedRun) -> str | None:
    """A commit with the code of the run: the one at hand if its code is the same, else the run's own."""
    alike = study_sources(saved.study) == dict(saved.identity["sources"])
    return (code_commit() if alike else None) or record.commit


def _seconds(path: Path, units: tuple[str, ...]) -> dict[str, float]:
    """Time spent in the units: in total and the median."""
    spent = [read_seal(path / directory.UNITS / unit)["seconds"] for unit in units]
    return {"total": round(sum(spent), 1), "median": round(float(np.median(spent)), 3)}


def _replay(path: Path) -> Any:
    """The outcome of the last replay, or that there was none."""
    target = path / directory.REPLAY
    return read_json(target) if target.exists() else "not done"
