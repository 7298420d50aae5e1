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

Nothing in it is trusted: every file must be a plain one, no link is followed, and what names a file names one
beside it. All of it is in one hash, `chain_hash`, which `status` prints: whoever keeps or signs it can tell
later that nothing was changed. Without it, hashes find damage, not a forger who makes them again.
"""

import json
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from finite_calculus.harness.claims import CLAIMS
from finite_calculus.harness.errors import ChangedRunError, StoreError
from finite_calculus.harness.identity import Identity, differences
from finite_calculus.harness.settings import Frozen
from finite_calculus.harness.shards import (
    foreign_tables,
    is_unit_name,
    problems,
    read_seal,
    unit_of_part,
)
from finite_calculus.provenance.commits import code_commit
from finite_calculus.provenance.digests import canonical, digest
from finite_calculus.provenance.files import (
    PART,
    is_folder,
    read_json,
    replace_file,
    sha256_of_plain,
)

RUN, PREFLIGHT, REPLAY, LOG = "run.json", "preflight.json", "replay.json", "run.log"
ORIGIN = "from.json"
UNITS, WEIGHTS, CAPTURES = "units", "weights", "captures.safetensors"
MANIFEST = "manifest.json"  # of an archive
FIRST_PROMPTS = "prompts.json"  # of archives of the first version
_BEFORE_RUN = {LOG, CLAIMS}
# So few units are asked for one by one; a listing reads the names of all.
FEW = 1000
# Whoever joins a run verifies so many of its units at most; `status` verifies all.
VERIFIED = 10_000


R = TypeVar("R", bound=Frozen)


class NoRunError(StoreError):
    """A directory that was named for a run and is none."""


class RunRecord(Frozen):
    """What run.json holds; `commit` is that of the code."""

    study: str
    fingerprint: str
    identity: Mapping[str, Any]
    started: str
    commit: str | None = None


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
    """What a run directory holds of one stage: finished and missing units, what is wrong."""

    done: tuple[str, ...]
    missing: tuple[str, ...]
    problems: tuple[str, ...]


def require_free(path: Path) -> None:
    """Refuse a directory that holds something else than a run, before anything is written to it."""
    if path.exists() and not path.is_dir():
        raise NoRunError(f"`out` must be a directory; {path.name} is a file. Name another one.")
    if not path.exists() or (path / RUN).exists():
        return
    names = sorted(os.listdir(path))
    foreign = [name for name in names if name not in _BEFORE_RUN and not _is_draft(name)]
    if foreign:
        raise NoRunError(
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
        raise NoRunError(
            f"{path} must be the directory of a run; it is an archive, which only `finite-calculus "
            f"summary` reads."
        )
    if not (path / RUN).exists() and not (path / RUN).is_symlink():
        raise NoRunError(
            f"{path} must be the directory of a run; it holds no {RUN}. "
            f"Start one with `finite-calculus run`."
        )
    record = _read(path / RUN, RunRecord)
    if digest(record.identity) != record.fingerprint:
        raise StoreError(f"{RUN} is damaged: its fingerprint is not that of its contents.")
    return record


def _is_draft(name: str) -> bool:
    """Whether a name is one that a file has while it is written."""
    return name.endswith(PART) and name.startswith(".")


def _read(target: Path, kind: type[R]) -> R:
    """A record from its file, which must be whole and plain."""
    try:
        return kind.model_validate(read_json(target))
    except ValidationError as error:
        raise StoreError(f"{target.name} is damaged: {error.errors()[0]['msg']}.") from None
    except (OSError, ValueError) as error:
        raise StoreError(f"{target.name} is damaged: {error}.") from None


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


def read_plan(path: Path, stage: str) -> StagePlan | None:
    """The plan of a stage, or None if the run has not come to it."""
    target = path / plan_file(stage)
    return read_plan_file(target) if target.exists() or target.is_symlink() else None


def stage_fingerprint(record: RunRecord, plan: StagePlan) -> str:
    """What seals the units of a stage: the run's fingerprint, and for later stages plan and policy too."""
    if plan.sha256 == record.identity.get("plan"):
        return record.fingerprint
    parts = {"run": record.fingerprint, "plan": plan.sha256, "policy": plan.policy}
    return digest(parts)


def survey(path: Path, record: RunRecord, plan: StagePlan, most: int | None = None) -> Survey:
    """Look at every unit of a stage and verify every hash; at most those of `most` units, drawn at random."""
    fingerprint = stage_fingerprint(record, plan)
    here, weights = entries(path), weights_hash(path)
    finished = [unit for unit in plan.units if unit in here]
    verified = finished if most is None or len(finished) <= most else random.sample(finished, most)
    unsound = {unit: _unsound(path / UNITS / unit, fingerprint, weights) for unit in verified}
    return Survey(
        done=tuple(unit for unit in finished if not unsound.get(unit)),
        missing=tuple(unit for unit in plan.units if unit not in here),
        problems=tuple(f"{UNITS}/{line}" for lines in unsound.values() for line in lines),
    )


def _unsound(shard: Path, fingerprint: str, weights: str | None) -> list[str]:
    return problems(shard, fingerprint) or _strange(shard, weights)


def entries(path: Path) -> set[str]:
    """The names that are in the folder of the units, which must be a folder itself."""
    folder = path / UNITS
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise StoreError(
            f"{UNITS} must be a folder of the run; it is a link or a file. Move it away."
        )
    return set(os.listdir(folder)) if folder.is_dir() else set()


def unfinished(path: Path, units: list[str]) -> list[str]:
    """Those of the units that are not finished yet, by whichever process."""
    if len(units) <= FEW:
        return [unit for unit in units if not (path / UNITS / unit).exists()]
    here = entries(path)
    return [unit for unit in units if unit not in here]


def unfinished_parts(path: Path) -> dict[str, list[Path]]:
    """What interrupted commits left beside the units, by the unit."""
    parts: dict[str, list[Path]] = {}
    for name in sorted(name for name in entries(path) if name.endswith(PART)):
        parts.setdefault(unit_of_part(name) or name, []).append(path / UNITS / name)
    return parts


def weights_hash(path: Path) -> str | None:
    """The sha256 of the tensors that all units share, as they are sealed; None where there are none."""
    return read_seal(path / WEIGHTS)["sha256"].get(CAPTURES) if is_folder(path / WEIGHTS) else None


def _strange(shard: Path, weights: str | None) -> list[str]:
    """Whether a sound shard rests on other shared tensors, or its tables say that they are another unit's."""
    seal = read_seal(shard)
    rests = seal["weights"]
    if rests is not None and rests != weights:
        state = "missing" if weights is None else "other ones"
        return [f"{shard.name}: rests on {WEIGHTS} {rests[:12]}…, which are {state}"]
    return [f"{shard.name}/{line}" for line in foreign_tables(shard, seal)]


def foreign_entries(path: Path, record: RunRecord, plans: list[StagePlan]) -> list[str]:
    """What is wrong outside the units: foreign entries beside them, damaged shared tensors."""
    units = {unit for plan in plans for unit in plan.units}
    wrong = [
        f"{UNITS}/{name}: foreign; this run has no such unit"
        for name in sorted(entries(path))
        if (unit_of_part(name) or name) not in units or _is_no_folder(path / UNITS / name)
    ]
    if (path / WEIGHTS).exists() or (path / WEIGHTS).is_symlink():
        wrong += problems(path / WEIGHTS, record.fingerprint)
    links = (PREFLIGHT, REPLAY, LOG, ORIGIN, CLAIMS)
    return wrong + [
        f"{name}: foreign; it is a link" for name in links if (path / name).is_symlink()
    ]


def _is_no_folder(path: Path) -> bool:
    """Whether something is there that is no folder; a commit may have ended meanwhile, and be gone."""
    return not is_folder(path) and os.path.lexists(path)


def require_sound(wrong: list[str]) -> None:
    """Refuse a directory with damaged or foreign files; they are named and stay as they are."""
    if wrong:
        raise StoreError(
            "The directory holds damaged or foreign files, which are left as they are. Move them away "
            "and run again to compute those units anew:\n  " + "\n  ".join(first_lines(wrong))
        )


def first_lines(lines: Sequence[str], most: int = 20) -> list[str]:
    """A list that can be read: its first lines, and how many more there are."""
    more = [f"and {len(lines) - most} more"] if len(lines) > most else []
    return [*lines[:most], *more]


def root_hash(path: Path, record: RunRecord, units: tuple[str, ...]) -> str:
    """One hash over all that was recorded: the run, and the hashes of every finished unit's files."""
    seals = {unit: read_seal(path / UNITS / unit) for unit in units}
    hashes = {unit: {**seal["sha256"], **seal["dropped"]} for unit, seal in seals.items()}
    return digest({"run": record.fingerprint, "units": hashes})


def chain_hash(path: Path, record: RunRecord, units: tuple[str, ...]) -> str:
    """One hash over the whole run: its records, and every file beside them that they rest on or that is said
    of them (the run, plans, policies, gate, shared tensors, replay, the archive it went on from)."""
    named = sorted(name for name in os.listdir(path) if name.endswith(".json") and name[0] != ".")
    return digest(
        {
            "records": root_hash(path, record, units),
            "files": {name: sha256_of_plain(path / name) for name in named},
            "weights": weights_hash(path),
        }
    )


def read_plan_file(target: Path) -> StagePlan:
    """The plan in a file, which must be whole and name its units plainly."""
    plan = _read(target, StagePlan)
    odd = [unit for unit in plan.units if not is_unit_name(unit)]
    if odd or len(set(plan.units)) != len(plan.units):
        raise StoreError(f"{target.name} is damaged: a unit has no plain name of its own.")
    return plan
