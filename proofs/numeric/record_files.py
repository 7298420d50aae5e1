"""The folder that an audit keeps its records in: tables of JSON lines, and a manifest of their digests.

`records.jsonl` has a row for each check and precision, `worst.jsonl` the inputs of its worst cases,
`sweeps.jsonl` a row for each exhaustive sweep. The manifest is renamed into place first and each table
after it, from a draft; a writer that is stopped in between leaves drafts that the manifest vouches for,
and the next reader takes those.
"""

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

AUDITS, WORST, SWEEPS = "records.jsonl", "worst.jsonl", "sweeps.jsonl"
MANIFEST = "manifest.json"

Row = dict[str, Any]


class RecordsError(ValueError):
    """A folder that cannot be read or written as one of records."""


@dataclass
class AuditRecords:
    """All records of a folder: audits by check and precision, sweeps by kernel."""

    audits: dict[tuple[str, str], Row] = field(default_factory=dict)
    sweeps: dict[str, Row] = field(default_factory=dict)


def read(folder: Path) -> AuditRecords:
    """The records of a folder, none if there is no folder; raises if a table is damaged."""
    path = folder / MANIFEST
    if not path.exists():
        strays = [name for name in (AUDITS, WORST, SWEEPS) if (folder / name).exists()]
        if strays:
            raise _damage(folder, f"{', '.join(strays)} without {MANIFEST}")
        return AuditRecords()
    try:
        manifest = json.loads(path.read_text())
        tables = {name: _table(folder, name, manifest[name]) for name in (AUDITS, WORST, SWEEPS)}
        inputs = {(row["function"], row["dtype"]): row for row in tables[WORST]}
        audits = {key: _join(row, inputs[key]) for row in tables[AUDITS] if (key := _key(row))}
    except (OSError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise _damage(folder, f"{type(error).__name__}: {error}") from None
    return AuditRecords(audits, {row["kernel"]: row for row in tables[SWEEPS]})


def write(folder: Path, records: AuditRecords) -> None:
    """Write every table whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    pairs = [_split(records.audits[key]) for key in sorted(records.audits)]
    tables = {
        AUDITS: [row for row, _ in pairs],
        WORST: [inputs for _, inputs in pairs],
        SWEEPS: [records.sweeps[kernel] for kernel in sorted(records.sweeps)],
    }
    manifest = {}
    for name, rows in tables.items():
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        _draft(folder, name).write_bytes(text)
        manifest[name] = {"sha256": hashlib.sha256(text).hexdigest(), "rows": len(rows)}
    _draft(folder, MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    for name in (MANIFEST, *tables):
        _draft(folder, name).replace(folder / name)


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[AuditRecords]:
    """The records of a folder while no other process may write there."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise RecordsError(
            f"`{folder}` must have one writer at a time; another process is writing records there. "
            f"Wait for it or name another folder."
        ) from None
    try:
        yield read(folder)
    finally:
        os.close(handle)


def _key(row: Row) -> tuple[str, str]:
    return row["function"], row["dtype"]


def _draft(folder: Path, name: str) -> Path:
    return folder / f"{name}.partial"


def _table(folder: Path, name: str, entry: Row) -> list[Row]:
    """The rows of a table, from its draft if that is the one that the manifest names."""
    for path in (folder / name, _draft(folder, name)):
        data = path.read_bytes() if path.exists() else b""
        if path.exists() and hashlib.sha256(data).hexdigest() == entry["sha256"]:
            return [json.loads(line) for line in data.splitlines()]
    raise _damage(folder, f"{name} has another digest than {MANIFEST} says")


def _damage(folder: Path, symptom: str) -> RecordsError:
    return RecordsError(
        f"`{folder}` must hold records as `finite-calculus audit --out DIR` writes them; got {symptom}. "
        f"Restore it, or remove it and make the records again."
    )


def _split(record: Row) -> tuple[Row, Row]:
    """A record without the inputs of its worst cases, and these."""
    row = {name: item for name, item in record.items() if name != "inputs"}
    inputs = {"function": record["function"], "dtype": record["dtype"], "inputs": record["inputs"]}
    if "stability" in record:
        part = dict(record["stability"])
        inputs["stability"] = part.pop("inputs")
        row["stability"] = part
    return row, inputs


def _join(row: Row, inputs: Row) -> Row:
    record = {**row, "inputs": inputs["inputs"]}
    if "stability" in row:
        record["stability"] = {**row["stability"], "inputs": inputs["stability"]}
    return record
