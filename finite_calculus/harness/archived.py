"""The units of an archive one by one: whose rows are whose, so that a run can go on from it.

An archive joins the tables of all units. `units.json` says how many rows of each are whose, and which files
of a unit were not archived (captures), by their sha256. With that every shard is made again, byte for byte,
and held to the root hash of the run that the archive is of.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from finite_calculus.harness import directory
from finite_calculus.harness.claims import claimed
from finite_calculus.harness.directory import MANIFEST, RunRecord, StagePlan
from finite_calculus.harness.errors import ChangedRunError, StoreError
from finite_calculus.harness.identity import Identity, differences
from finite_calculus.harness.registry import find_study
from finite_calculus.harness.rows import encode_table
from finite_calculus.harness.shards import (
    commit,
    is_unit_name,
    read_seal,
    unit_words,
)
from finite_calculus.harness.untrusted import read_bounded
from finite_calculus.provenance.digests import digest
from finite_calculus.provenance.files import read_json, read_plain, replace_file, sha256_of_plain

UNITS_FILE = "units.json"
_PARQUET = ".parquet"


@dataclass(frozen=True, eq=False)
class Archive:
    """An archive that was read and is sound: manifest, plans by stage, units in their order."""

    path: Path
    manifest: Mapping[str, Any]
    plans: Mapping[str, StagePlan]
    units: Mapping[str, Mapping[str, Any]]

    @property
    def record(self) -> RunRecord:
        """The record of its run."""
        names = ("study", "fingerprint", "identity", "started")
        return RunRecord(**{name: self.manifest[name] for name in names})

    def stage_of(self, unit: str) -> StagePlan:
        """The plan that a unit belongs to; refuses a unit that the archive has no rows of."""
        if unit not in self.units:
            first, last = next(iter(self.units)), list(self.units)[-1]
            raise StoreError(
                f"`unit` must be one that the archive holds, {first} to {last}; got {unit}."
            )
        return next(plan for plan in self.plans.values() if unit in plan.units)

    def tables(self) -> dict[str, dict[str, pa.Table]]:
        """The tables of every unit."""
        parts: dict[str, dict[str, pa.Table]] = {unit: {} for unit in self.units}
        for name in self._table_names():
            whole, start = read_bounded(self.path / f"{name}{_PARQUET}"), 0
            for unit, saved in self.units.items():
                rows = int(saved["rows"].get(name, 0))
                parts[unit][name] = whole.slice(start, rows).combine_chunks()
                start += rows
            if start != whole.num_rows:
                raise _not_its_units(f"{name} has {whole.num_rows} rows and the units {start}")
        return parts

    def files(self) -> dict[str, dict[str, bytes]]:
        """The files of every unit as the run had them; refuses them where they do not give its root."""
        files: dict[str, dict[str, bytes]] = {}
        seals: dict[str, dict[str, str]] = {}
        for unit, tables in self.tables().items():
            sealed = directory.stage_fingerprint(self.record, self.stage_of(unit))
            words = unit_words(self.record.study, unit, sealed)
            files[unit] = {
                f"{name}{_PARQUET}": encode_table(table.replace_schema_metadata(words))
                for name, table in tables.items()
            }
            hashes = {name: digest(blob) for name, blob in files[unit].items()}
            seals[unit] = {**hashes, **self.units[unit]["dropped"]}
        if digest({"run": self.record.fingerprint, "units": seals}) != self.manifest["root"]:
            raise _not_its_units("the root hash of the units is not that of the run")
        return files

    def _table_names(self) -> list[str]:
        names = [name for name in self.manifest["sha256"] if name.endswith(_PARQUET)]
        return [name.removesuffix(_PARQUET) for name in names]


def units_of_run(path: Path, units: tuple[str, ...]) -> bytes:
    """What `units.json` says of finished units of a run directory."""
    listed = {}
    for unit in units:
        shard = path / directory.UNITS / unit
        seal = read_seal(shard)
        tables = [name for name in seal["sha256"] if name.endswith(_PARQUET)]
        others = {name: sha for name, sha in seal["sha256"].items() if name not in tables}
        listed[unit] = {
            "rows": {
                name.removesuffix(_PARQUET): pq.read_metadata(shard / name).num_rows
                for name in tables
            },
            "dropped": {**others, **seal["dropped"]},
            "seconds": seal["seconds"],
        }
    return (json.dumps(listed, separators=(",", ":")) + "\n").encode()


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of an archive, all of whose files have the sha256 that it says."""
    try:
        manifest = read_json(path / MANIFEST)
        hashes = manifest["sha256"] = dict(manifest["sha256"])
        find_study(manifest["study"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{MANIFEST} is damaged: {error}.") from None
    for name, sealed in hashes.items():
        if not is_unit_name(name) or _sha256(path / name) != sealed:
            raise StoreError(
                f"{name[:80]} is missing or damaged: its sha256 is not that of {MANIFEST}."
            )
    return manifest


def _sha256(target: Path) -> str | None:
    try:
        return sha256_of_plain(target)
    except OSError:
        return None


def read_archive(path: Path) -> Archive:
    """An archive with its units; refuses a damaged one, and one that does not know its units."""
    if not (path / MANIFEST).is_file():
        raise directory.NoRunError(f"`archive` must be one; {path} holds no {MANIFEST}.")
    manifest = read_manifest(path)
    if UNITS_FILE not in manifest["sha256"]:
        raise StoreError(
            f"`archive` must say which rows are of which unit; {path.name} holds no {UNITS_FILE}: an older "
            f"version wrote it. Run the study anew."
        )
    if digest(manifest["identity"]) != manifest["fingerprint"]:
        raise StoreError(f"{MANIFEST} is damaged: its fingerprint is not that of its identity.")
    stages = find_study(manifest["study"]).stages
    plans = {stage: directory.read_plan_file(path / directory.plan_file(stage)) for stage in stages}
    return Archive(path, manifest, plans, _units(path, plans))


def _units(path: Path, plans: Mapping[str, StagePlan]) -> dict[str, dict[str, Any]]:
    """What `units.json` says, which must be of units of the plans."""
    try:
        units = read_json(path / UNITS_FILE)
        strange = set(units) - {unit for plan in plans.values() for unit in plan.units}
        if strange:
            raise ValueError(f"no plan has the unit {min(strange)[:80]}")
        return {
            unit: {
                "rows": {str(name): int(rows) for name, rows in saved["rows"].items()},
                "dropped": {str(name): str(sha) for name, sha in saved["dropped"].items()},
                "seconds": float(saved["seconds"]),
            }
            for unit, saved in units.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{UNITS_FILE} is damaged: {error!r}.") from None


def require_same_run(archive: Archive, study: str, identity: Identity) -> None:
    """Refuse an archive of another run than the one that is asked for."""
    changed = differences(archive.manifest["identity"], identity.as_dict())
    if archive.manifest["study"] != study or changed:
        raise ChangedRunError(
            "The archive is of a run with other settings, model, code or versions, so nothing is taken from "
            "it. Use the same ones: its manifest holds the command and the commit of the code. What differs:"
            "\n  " + "\n  ".join(changed or [f"study: {archive.manifest['study']} → {study}"])
        )


def take_over(archive: Archive, out: Path) -> None:
    """Make the units of an archive finished units of the same run in `out`; those that are there stay."""
    if set(archive.units) <= directory.entries(out):
        return
    files = archive.files()
    # The runner makes plans and policies again and refuses to go on if they are others.
    for name in archive.manifest["sha256"]:
        if name.startswith(("plan-", "policy-")) and not (out / name).exists():
            replace_file(out / name, read_plain(archive.path / name))
    for unit, blobs in files.items():
        with claimed(out, unit) as mine:
            target = out / directory.UNITS / unit
            if not mine or target.exists():
                continue
            saved = archive.units[unit]
            sealed = directory.stage_fingerprint(archive.record, archive.stage_of(unit))
            commit(
                target,
                blobs,
                fingerprint=sealed,
                seconds=saved["seconds"],
                dropped=saved["dropped"],
            )
    origin = {name: archive.manifest.get(name) for name in ("root", "replay", "from")}
    origin["units"] = len(files)
    replace_file(out / directory.ORIGIN, (json.dumps(origin, indent=1) + "\n").encode())


def _not_its_units(why: str) -> StoreError:
    return StoreError(
        f"The archive is damaged: {why}. Nothing is taken from it; get it anew, or run without it."
    )
