"""Records of a run or of an archive as one table, in the order of the units."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from finite_calculus.studies import directory
from finite_calculus.studies.settings import StudySettings, digest
from finite_calculus.studies.shards import ShardError, read_table
from finite_calculus.studies.study import Study, find_study

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Records:
    """All that tables may be made from: settings and records."""

    study: Study
    settings: StudySettings
    fingerprint: str
    tables: dict[str, pa.Table]
    complete: bool


def gather(
    path: Path, record: directory.RunRecord, found: directory.Survey, name: str
) -> pa.Table | None:
    """One table of all finished units, or None if there is none yet."""
    parts = [read_table(path / directory.UNITS / unit / f"{name}.parquet") for unit in found.done]
    if not parts:
        return None
    # The metadata of a shard names its unit; the whole has no unit.
    return pa.concat_tables([part.replace_schema_metadata(None) for part in parts])


def read_records(path: Path) -> Records:
    """Records of a run directory or of an archive; refuses damaged files."""
    if (path / MANIFEST).is_file():
        return _from_archive(path)
    record = directory.read_run(path)
    found = directory.survey(path, record)
    directory.require_sound(found)
    study = find_study(record.study)
    tables = {name: gather(path, record, found, name) for name in study.schemas}
    kept = {name: table for name, table in tables.items() if table is not None}
    if not kept:
        raise ShardError("The run has no finished unit yet; there is nothing to summarise.")
    return _records(study, record.identity["settings"], record.fingerprint, kept, not found.missing)


def _from_archive(path: Path) -> Records:
    manifest = json.loads((path / MANIFEST).read_text())
    study = find_study(manifest["study"])
    for name, wanted in manifest["sha256"].items():
        if not (path / name).is_file() or digest((path / name).read_bytes()) != wanted:
            raise ShardError(f"{name} is missing or damaged: its sha256 is not that of {MANIFEST}.")
    tables = {
        name: read_table(path / f"{name}.parquet").replace_schema_metadata(None)
        for name in study.schemas
    }
    settings = manifest["identity"]["settings"]
    return _records(study, settings, manifest["fingerprint"], tables, True)


def _records(
    study: Study, settings: Any, fingerprint: str, tables: dict[str, pa.Table], complete: bool
) -> Records:
    return Records(study, study.settings.model_validate(settings), fingerprint, tables, complete)
