"""The directory of a run: what it holds, and whether it is sound.

run.json         study, settings, versions, hashes and their fingerprint; written first, never changed
plan-STAGE.json  the units of a stage and the manifest of its prompts: seeds or rows, spans, hashes; no text
policy-STAGE.json  what a finished stage fixed for the next one
preflight.json   the gate
weights/         tensors that all units share, a shard
units/NAME/      one shard per finished unit
claims/          which process works on which unit
replay.json      the last replay
from.json        the archive that finished units were taken from, if there is one
run.log          what happened when

Runs of the first version (prompts.json, units in run.json) are read, replayed and summarised, not resumed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from finite_calculus.harness.claims import CLAIMS
from finite_calculus.harness.errors import ChangedRunError, StoreError
from finite_calculus.harness.identity import Identity, differences
from finite_calculus.harness.settings import Frozen
from finite_calculus.harness.shards import problems, read_seal
from finite_calculus.provenance.commits import code_commit
from finite_calculus.provenance.digests import canonical, digest
from finite_calculus.provenance.files import PART, replace_file

RUN, PREFLIGHT, REPLAY, LOG = "run.json", "preflight.json", "replay.json", "run.log"
ORIGIN = "from.json"
UNITS, WEIGHTS, CAPTURES = "units", "weights", "captures.safetensors"
MANIFEST = "manifest.json"  # of an archive
FIRST_PROMPTS = "prompts.json"  # of the first version
_BEFORE_RUN = {LOG, RUN + PART, CLAIMS}


class RunRecord(Frozen):
    """What run.json holds; `commit` is that of the code, `units` is of runs of the first version only."""

    study: str
    fingerprint: str
    identity: Mapping[str, Any]
    started: str
    commit: str | None = None
    units: tuple[str, ...] | None = None


class StagePlan(Frozen):
    """What plan-STAGE.json holds; `policy` is the sha256 of the policy that the stage follows."""

    stage: str
    units: tuple[str, ...]
    manifest: Mapping[str, Any]
    policy: str | None = None

    @property
    def sha256(self) -> str:
        """The hash that the run's identity, or the stage's fingerprint, holds."""
        return digest(self.model_dump(mode="json"))


@dataclass(frozen=True)
class Survey:
    """What a run directory holds of one stage: finished and missing units, leftovers, what is wrong."""

    done: tuple[str, ...]
    missing: tuple[str, ...]
    parts: tuple[Path, ...]
    problems: tuple[str, ...]


def require_free(path: Path) -> None:
    """Refuse a directory that holds something else than a run, before anything is written to it."""
    if path.exists() and not path.is_dir():
        raise StoreError(f"`out` must be a directory; {path.name} is a file. Name another one.")
    if not path.exists() or (path / RUN).exists():
        return
    foreign = sorted(entry.name for entry in path.iterdir() if entry.name not in _BEFORE_RUN)
    if foreign:
        raise StoreError(
            f"`out` must be empty or the directory of a run; it holds {foreign[0]} and no {RUN}. "
            f"Name another directory."
        )


def require_same(path: Path, study: str, identity: Identity) -> RunRecord | None:
    """The run that is in a directory, if nothing has changed; None if there is none. Writes nothing."""
    if not (path / RUN).exists():
        require_free(path)
        return None
    record = read_run(path)
    changed = differences(record.identity, identity.as_dict())
    if record.study != study or changed:
        raise ChangedRunError(
            "The directory belongs to a run with other settings, model, code or versions; it is "
            "left as it is. Use the same ones, or another directory. What differs:\n  "
            + "\n  ".join(changed or [f"study: {record.study} → {study}"])
        )
    return record


def open_run(path: Path, study: str, identity: Identity) -> RunRecord:
    """Begin a run in an empty directory, or take up the one that is there if nothing has changed."""
    record = require_same(path, study, identity)
    if record is not None:
        return record
    record = RunRecord(
        study=study,
        fingerprint=identity.fingerprint,
        identity=identity.as_dict(),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=code_commit(),
    )
    replace_file(path / RUN, json.dumps(record.model_dump(exclude_none=True), indent=1).encode())
    return record


def read_run(path: Path) -> RunRecord:
    """The record of the run in a directory; refuses one that is missing or was changed."""
    if (path / MANIFEST).is_file():
        raise StoreError(
            f"{path} must be the directory of a run; it is an archive, which only `finite-calculus "
            f"summary` reads."
        )
    if not (path / RUN).is_file():
        raise StoreError(
            f"{path} must be the directory of a run; it holds no {RUN}. "
            f"Start one with `finite-calculus run`."
        )
    try:
        record = RunRecord.model_validate_json((path / RUN).read_text())
    except ValidationError as error:
        raise StoreError(f"{RUN} is damaged: {error.errors()[0]['msg']}.") from None
    if digest(record.identity) != record.fingerprint:
        raise StoreError(f"{RUN} is damaged: its fingerprint is not that of its contents.")
    return record


def plan_file(stage: str) -> str:
    """The name of a stage's plan."""
    return f"plan-{stage}.json"


def keep_plan(path: Path, plan: StagePlan) -> None:
    """Write the plan of a stage once; later it must be the same one."""
    target = path / plan_file(plan.stage)
    if not target.exists():
        replace_file(target, canonical(plan.model_dump(mode="json")).encode())
    elif read_plan_file(target).sha256 != plan.sha256:
        raise StoreError(f"{target.name} is damaged: it is not the plan of this run.")


def read_plan(path: Path, record: RunRecord, stage: str) -> StagePlan | None:
    """The plan of a stage, or None if the run has not come to it; the first stage's must fit the run."""
    if record.units is not None:
        return _first_version(path, record, stage)
    target = path / plan_file(stage)
    return read_plan_file(target) if target.is_file() else None


def stage_fingerprint(record: RunRecord, plan: StagePlan) -> str:
    """What seals the units of a stage: the run's fingerprint, and for later stages plan and policy too."""
    if record.units is not None or plan.sha256 == record.identity.get("plan"):
        return record.fingerprint
    parts = {"run": record.fingerprint, "plan": plan.sha256, "policy": plan.policy}
    return digest(parts)


def survey(path: Path, record: RunRecord, plan: StagePlan) -> Survey:
    """Look at every unit of a stage and verify every hash."""
    fingerprint = stage_fingerprint(record, plan)
    wrong: list[str] = []
    done: list[str] = []
    for unit in plan.units:
        shard = path / UNITS / unit
        if shard.exists():
            unsound = problems(shard, fingerprint)
            wrong += [f"{UNITS}/{line}" for line in unsound]
            done += [] if unsound else [unit]
    missing = tuple(unit for unit in plan.units if not (path / UNITS / unit).exists())
    parts = [path / UNITS / (unit + PART) for unit in plan.units]
    left = tuple(part for part in parts if part.exists())
    return Survey(tuple(done), missing, left, tuple(wrong))


def foreign_entries(path: Path, record: RunRecord, plans: list[StagePlan]) -> list[str]:
    """What is wrong outside the units: foreign entries beside them, damaged shared tensors."""
    units = {unit for plan in plans for unit in plan.units}
    folder = path / UNITS
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    wrong = [
        f"{UNITS}/{entry.name}: foreign; this run has no such unit"
        for entry in entries
        if entry.name.removesuffix(PART) not in units or not entry.is_dir()
    ]
    if (path / WEIGHTS).exists():
        wrong += problems(path / WEIGHTS, record.fingerprint)
    return wrong


def require_sound(wrong: list[str]) -> None:
    """Refuse a directory with damaged or foreign files; they are named and stay as they are."""
    if wrong:
        raise StoreError(
            "The directory holds damaged or foreign files, which are left as they are. Move them away "
            "and run again to compute those units anew:\n  " + "\n  ".join(wrong)
        )


def root_hash(path: Path, record: RunRecord, units: tuple[str, ...]) -> str:
    """One hash over all that was recorded: the run, and the hashes of every finished unit's files."""
    seals = {unit: read_seal(path / UNITS / unit) for unit in units}
    hashes = {unit: {**seal["sha256"], **seal["dropped"]} for unit, seal in seals.items()}
    return digest({"run": record.fingerprint, "units": hashes})


def read_plan_file(target: Path) -> StagePlan:
    """The plan in a file, which must be whole."""
    try:
        return StagePlan.model_validate_json(target.read_text())
    except ValidationError as error:
        raise StoreError(f"{target.name} is damaged: {error.errors()[0]['msg']}.") from None


def _first_version(path: Path, record: RunRecord, stage: str) -> StagePlan:
    target = path / FIRST_PROMPTS
    try:
        manifest = json.loads(target.read_text())
    except (OSError, ValueError):
        raise StoreError(f"{FIRST_PROMPTS} is missing or damaged.") from None
    if digest(target.read_bytes()) != record.identity["prompts"]:
        raise StoreError(f"{FIRST_PROMPTS} is damaged: its sha256 is not the one in {RUN}.")
    return StagePlan(stage=stage, units=record.units or (), manifest=manifest)
