"""The report archive of a finished run: records, manifest and tables; no tensors, no text, no paths.

The manifest holds the sha256 of every record. Tables are made from the records and can be made again.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from finite_calculus.studies import directory
from finite_calculus.studies.records import MANIFEST, Records, read_records
from finite_calculus.studies.settings import digest
from finite_calculus.studies.shards import ShardError, encode_arrow, replace_file
from finite_calculus.studies.summary import summary_files


def archive(path: Path, target: Path) -> Path:
    """Write the archive of a finished run into an empty directory; returns its manifest."""
    if target.exists() and any(target.iterdir()):
        raise ShardError(f"`archive` must be empty or new; {target.name} is not. Name another one.")
    record = directory.read_run(path)
    records = read_records(path)
    if not records.complete:
        raise ShardError("The run must be finished before it is archived; units are missing.")
    files = _files(path, records)
    target.mkdir(parents=True, exist_ok=True)
    for name, blob in (files | summary_files(records)).items():
        replace_file(target / name, blob)
    manifest = {
        "study": record.study,
        "fingerprint": record.fingerprint,
        "identity": dict(record.identity),
        "command": command(records),
        "started": record.started,
        "seconds": _seconds(path),
        "rows": {name: table.num_rows for name, table in records.tables.items()},
        "replay": _replay(path),
        "sha256": {name: digest(blob) for name, blob in files.items()},
    }
    replace_file(target / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
    return target / MANIFEST


def command(records: Records) -> str:
    """The command that reproduces a run, with DIR for every directory of the user."""
    words = ["finite-calculus", "run", records.study.name, *records.study.options(records.settings)]
    return " ".join([*words, "--out DIR"])


def _files(path: Path, records: Records) -> dict[str, bytes]:
    files = {f"{name}.parquet": encode_arrow(table) for name, table in records.tables.items()}
    kept = (directory.PROMPTS, directory.PREFLIGHT)
    return files | {name: (path / name).read_bytes() for name in kept}


def _seconds(path: Path) -> dict[str, float]:
    """Time spent in the units: in total and the median."""
    seals = sorted((path / directory.UNITS).glob("*/seal.json"))
    spent = [json.loads(seal.read_text())["seconds"] for seal in seals]
    return {"total": round(sum(spent), 1), "median": round(float(np.median(spent)), 3)}


def _replay(path: Path) -> Any:
    """The outcome of the last replay, or that there was none."""
    target = path / directory.REPLAY
    return json.loads(target.read_text()) if target.exists() else "not done"
