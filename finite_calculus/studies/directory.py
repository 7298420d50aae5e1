"""The directory of a run: what it holds, whether it is sound, and who may write to it.

run.json        settings, versions, hashes and their fingerprint; written first, never changed
prompts.json    the prompt manifest: seeds or row numbers, token spans, hashes; no text
preflight.json  the gate
weights/        tensors that all units share, a shard
units/NAME/     one shard per finished unit
replay.json     the last replay
run.log         what happened when
"""

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from finite_calculus.studies.identity import Identity, differences
from finite_calculus.studies.settings import Frozen, canonical, digest
from finite_calculus.studies.shards import PART, ShardError, problems, replace_file
from finite_calculus.studies.study import Prompts

RUN, PROMPTS, PREFLIGHT, REPLAY = "run.json", "prompts.json", "preflight.json", "replay.json"
UNITS, WEIGHTS, LOG = "units", "weights", "run.log"
CAPTURES = "captures.safetensors"
_BEFORE_RUN = {LOG, RUN + PART}


class ChangedRunError(ValueError):
    """A directory that belongs to a run with another fingerprint."""


class RunRecord(Frozen):
    """What run.json holds."""

    study: str
    fingerprint: str
    identity: Mapping[str, Any]
    units: tuple[str, ...]
    started: str


@dataclass(frozen=True)
class Survey:
    """What a run directory holds: finished and missing units, leftovers of a kill, and what is wrong."""

    done: tuple[str, ...]
    missing: tuple[str, ...]
    parts: tuple[Path, ...]
    problems: tuple[str, ...]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the directory for one process; the lock ends with the process, however it ends."""
    path.mkdir(parents=True, exist_ok=True)
    with (path / LOG).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ShardError(
                f"`out` must not be in use; another process runs in {path.name}. Wait for it."
            ) from None
        yield


def open_run(path: Path, study: str, identity: Identity, prompts: Prompts) -> RunRecord:
    """Begin a run in an empty directory, or take up the one that is there if nothing has changed."""
    if (path / RUN).exists():
        record = read_run(path)
        changed = differences(record.identity, identity.as_dict())
        if record.study != study or changed:
            raise ChangedRunError(
                "The directory belongs to a run with other settings, model, code or versions; it is "
                "left as it is. Use the same ones, or another directory. What differs:\n  "
                + "\n  ".join(changed or [f"study: {record.study} → {study}"])
            )
    else:
        record = _begin(path, study, identity, prompts)
    _keep_manifest(path, record, prompts)
    return record


def read_run(path: Path) -> RunRecord:
    """The record of the run in a directory; refuses one that is missing or was changed."""
    if not (path / RUN).is_file():
        raise ShardError(
            f"{path.name or path} must be the directory of a run; it holds no {RUN}. "
            f"Start one with `finite-calculus run`."
        )
    try:
        record = RunRecord.model_validate_json((path / RUN).read_text())
    except ValidationError as error:
        raise ShardError(f"{RUN} is damaged: {error.errors()[0]['msg']}.") from None
    if digest(record.identity) != record.fingerprint:
        raise ShardError(f"{RUN} is damaged: its fingerprint is not that of its contents.")
    return record


def survey(path: Path, record: RunRecord) -> Survey:
    """Look at every unit and verify every hash."""
    wrong: list[str] = []
    done, parts = [], []
    here = sorted((path / UNITS).iterdir()) if (path / UNITS).is_dir() else []
    if (path / WEIGHTS).exists():
        wrong += problems(path / WEIGHTS, record.fingerprint)
    if (path / (WEIGHTS + PART)).exists():
        parts.append(path / (WEIGHTS + PART))
    for entry in here:
        if entry.name.removesuffix(PART) not in record.units or not entry.is_dir():
            wrong.append(f"{UNITS}/{entry.name}: foreign; this run has no such unit")
        elif entry.name.endswith(PART):
            parts.append(entry)
        else:
            found = problems(entry, record.fingerprint)
            wrong += [f"{UNITS}/{line}" for line in found]
            done += [] if found else [entry.name]
    finished = tuple(unit for unit in record.units if unit in done)
    present = {entry.name for entry in here}
    missing = tuple(unit for unit in record.units if unit not in present)
    return Survey(finished, missing, tuple(parts), tuple(wrong))


def require_sound(found: Survey) -> None:
    """Refuse a directory with damaged or foreign files; they are named and stay as they are."""
    if found.problems:
        raise ShardError(
            "The directory holds damaged or foreign files, which are left as they are. Move them away "
            "and run again to compute those units anew:\n  " + "\n  ".join(found.problems)
        )


def _begin(path: Path, study: str, identity: Identity, prompts: Prompts) -> RunRecord:
    foreign = sorted(entry.name for entry in path.iterdir() if entry.name not in _BEFORE_RUN)
    if foreign:
        raise ShardError(
            f"`out` must be empty or the directory of a run; it holds {foreign[0]} and no {RUN}. "
            f"Name another directory."
        )
    record = RunRecord(
        study=study,
        fingerprint=identity.fingerprint,
        identity=identity.as_dict(),
        units=prompts.units,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    replace_file(path / RUN, json.dumps(record.model_dump(mode="json"), indent=1).encode())
    return record


def _keep_manifest(path: Path, record: RunRecord, prompts: Prompts) -> None:
    """The manifest is written once; later it must be the one whose hash the run holds."""
    target = path / PROMPTS
    if not target.exists():
        replace_file(target, canonical(prompts.manifest).encode())
    elif digest(target.read_bytes()) != record.identity["prompts"]:
        raise ShardError(f"{PROMPTS} is damaged: its sha256 is not the one in {RUN}.")
