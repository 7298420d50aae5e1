"""What a path holds: a run or its archive, a ledger, a preflight, an audit, or a folder of these.

A path that the user names must hold something; what lies beside it in a folder and is none of these is left
out. Every file is read once and nothing is written.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finite_calculus.harness.archive import command
from finite_calculus.harness.directory import MANIFEST, RUN
from finite_calculus.harness.records import SavedRun, read_saved
from finite_calculus.provenance.digests import digest

_AUDIT = "records.jsonl"


class NothingToReportError(ValueError):
    """A path holds nothing that a report can show."""


@dataclass(frozen=True, eq=False)
class RunSource:
    """A run of a study, with the command that makes it again."""

    name: str
    saved: SavedRun
    command: str
    replay: Mapping[str, Any] | None


@dataclass(frozen=True, eq=False)
class Document:
    """A JSON record: its data and the sha256 of its file."""

    name: str
    data: Mapping[str, Any]
    sha256: str


class LedgerSource(Document):
    """What `finite-calculus verify --json` wrote."""


class PreflightSource(Document):
    """What `finite-calculus preflight --json` wrote."""


@dataclass(frozen=True, eq=False)
class AuditSource:
    """The records of `finite-calculus audit --out`, one for each check and precision."""

    name: str
    records: tuple[Mapping[str, Any], ...]
    sha256: str


Source = RunSource | LedgerSource | PreflightSource | AuditSource


def preflight_command(model: str, fingerprint: Mapping[str, Any]) -> str:
    """The command that makes the record of a model again, as far as its fingerprint says."""
    dtype = str(fingerprint.get("dtype", "")).removeprefix("torch.")
    named = fingerprint.get("source") in (None, "name")
    words = ["finite-calculus preflight", model if named else "DIR"]
    words += ["--dtype", dtype] if dtype not in ("", "float32") else []
    return " ".join([*words, "--only-target --json FILE"])


def read_sources(paths: Sequence[Path]) -> list[Source]:
    """Everything that the paths hold, in their order; a path that holds nothing is an error."""
    sources: list[Source] = []
    for path in paths:
        if not path.exists():
            raise NothingToReportError(f"`paths` must exist; {path} does not.")
        held = list(_read(path, path.name))
        if not held:
            raise NothingToReportError(
                f"`paths` must hold a run, an archive, a ledger, a preflight or an audit, or folders of "
                f"these; {path} holds none. `finite-calculus run`, `verify --json`, `preflight --json` "
                f"and `audit --out` make them."
            )
        sources += held
    return sources


def _read(path: Path, name: str) -> Iterator[Source]:
    if path.is_file():
        if path.suffix == ".json":
            yield from _document(path, name)
    elif (path / RUN).is_file() or _is_archive(path):
        saved = read_saved(path)
        yield RunSource(name, saved, command(saved), _replay(path))
    elif (path / _AUDIT).is_file():
        blob = (path / _AUDIT).read_bytes()
        records = tuple(json.loads(line) for line in blob.splitlines())
        yield AuditSource(name, records, digest(blob))
    else:
        for child in sorted(path.iterdir()):
            yield from _read(child, f"{name}/{child.name}")


def _document(path: Path, name: str) -> Iterator[LedgerSource | PreflightSource]:
    blob = path.read_bytes()
    try:
        data = json.loads(blob)
    except ValueError as error:
        raise NothingToReportError(f"{path} must be JSON; it is damaged: {error}.") from None
    if not isinstance(data, dict):
        return
    if {"summary", "entries"} <= data.keys():
        yield LedgerSource(name, data, digest(blob))
    elif {"passed", "models"} <= data.keys():
        yield PreflightSource(name, data, digest(blob))


def _is_archive(path: Path) -> bool:
    if not (path / MANIFEST).is_file():
        return False
    manifest = json.loads((path / MANIFEST).read_text())
    return isinstance(manifest, dict) and "study" in manifest


def _replay(path: Path) -> Mapping[str, Any] | None:
    """The outcome of the replay that an archive's manifest holds."""
    if not (path / MANIFEST).is_file():
        return None
    replay = json.loads((path / MANIFEST).read_text()).get("replay")
    return replay if isinstance(replay, dict) else None
