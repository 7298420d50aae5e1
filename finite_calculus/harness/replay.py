"""Recompute every prediction of a run in float64 from its captures, without the model, and compare.

The replay of a study starts from the definition and shares no code with its predictors, so that a
wrong capture and a wrong predictor are both found.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finite_calculus.harness import directory
from finite_calculus.harness.directory import CAPTURES
from finite_calculus.harness.errors import StoreError
from finite_calculus.harness.records import planned, study_of, unit_tables
from finite_calculus.harness.shards import read_seal
from finite_calculus.harness.study import Arrays, Comparison, Replayable
from finite_calculus.provenance.files import read_plain, replace_file

# The paper's figure for its own replay, here relative to the scale of the summed terms.
ALLOWED = 3e-15


@dataclass(frozen=True)
class Replay:
    """How many numbers were compared, which disagree, and the worst of each kind.

    `without` counts further units whose captures are not here, since they were taken from an archive.
    """

    units: int
    without: int
    compared: int
    disagreeing: tuple[Comparison, ...]
    worst: dict[str, float]

    @property
    def passed(self) -> bool:
        """Whether numbers were compared and all agree."""
        return self.compared > 0 and not self.disagreeing


def replay(
    path: Path, *, report: Callable[[str, int, int], None] = lambda unit, done, total: None
) -> Replay:
    """Replay every finished unit of a run that has its captures, and save the outcome beside it."""
    record = directory.read_run(path)
    study, settings = study_of(record)
    plans = planned(path, record, study)
    surveys = [directory.survey(path, record, plan) for plan in plans]
    wrong = directory.foreign_entries(path, record, plans)
    directory.require_sound([*(line for s in surveys for line in s.problems), *wrong])
    if not isinstance(study, Replayable):
        raise StoreError(f"The study {study.name} has no replay: it records no predictions.")
    if not settings.captures:
        raise StoreError("The run kept no captures, so nothing can be replayed. Run with captures.")
    units = [unit for survey in surveys for unit in survey.done]
    if not units:
        raise StoreError("The run has no finished unit yet; there is nothing to replay.")
    kept = [unit for unit in units if _has_captures(path / directory.UNITS / unit)]
    if not kept:
        raise StoreError(
            f"All {len(units)} finished units were taken from an archive, without captures; there is nothing "
            f"to replay. What their own replay gave is in the archive's manifest."
        )
    shared = _load(path / directory.WEIGHTS)
    compared, disagreeing, worst = 0, [], {}
    report("", 0, len(kept))
    for number, unit in enumerate(kept, start=1):
        for pair in _compare(study, settings, shared, path / directory.UNITS / unit):
            compared += 1
            worst[pair.name] = max(worst.get(pair.name, 0.0), pair.relative)
            disagreeing += [] if pair.relative <= ALLOWED else [pair]
        report(unit, number, len(kept))
    result = Replay(len(kept), len(units) - len(kept), compared, tuple(disagreeing), worst)
    _save(path, record.fingerprint, directory.root_hash(path, record, tuple(units)), result)
    return result


def _compare(study: Any, settings: Any, shared: Arrays, shard: Path) -> Iterator[Comparison]:
    tables = unit_tables(study, settings, shard)
    tensors = _load(shard)
    try:
        yield from study.replay(settings, shared, tensors, tables)
    except Exception as error:  # of a study, about tensors that may be anything
        raise StoreError(
            f"{shard.name} cannot be replayed: its tensors, or those of {directory.WEIGHTS}, are not what "
            f"the study saved ({type(error).__name__}: {error})."
        ) from error


def _has_captures(shard: Path) -> bool:
    """Whether a shard is as the run left it; a unit that had no tensors lacks none."""
    return CAPTURES not in read_seal(shard)["dropped"]


def _load(shard: Path) -> Arrays:
    """The tensors of a shard; none where it kept none."""
    if not (shard / CAPTURES).exists():
        return {}
    from safetensors.numpy import load  # `status` has nothing to load

    try:
        return load(read_plain(shard / CAPTURES))
    except Exception as error:  # of safetensors, whose errors are of no common kind
        raise StoreError(f"{shard.name}/{CAPTURES} must be safetensors: {error}.") from error


def _save(path: Path, fingerprint: str, root: str, result: Replay) -> None:
    saved = {
        "fingerprint": fingerprint,
        "root": root,
        "units": result.units,
        "without_captures": result.without,
        "compared": result.compared,
        "failed": len(result.disagreeing),
        "passed": result.passed,
        "allowed": ALLOWED,
        "worst": max(result.worst.values(), default=0.0),
        "worst_by_name": result.worst,
    }
    replace_file(path / directory.REPLAY, json.dumps(saved, indent=1).encode())
