"""Recompute every prediction of a run in float64 from its captures, without the model, and compare.

The replay of a study starts from the definition and shares no code with its predictors, so that a
wrong capture and a wrong predictor are both found.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from safetensors.numpy import load_file

from finite_calculus.studies import directory
from finite_calculus.studies.directory import CAPTURES
from finite_calculus.studies.shards import ShardError, read_table, replace_file
from finite_calculus.studies.study import Comparison, find_study

# The paper's figure for its own replay, here relative to the scale of the summed terms.
ALLOWED = 3e-15


@dataclass(frozen=True)
class Replay:
    """The outcome: how many numbers were compared, which disagree, and the worst of each kind."""

    units: int
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
    """Replay every finished unit of a run and save the outcome beside it."""
    record = directory.read_run(path)
    found = directory.survey(path, record)
    directory.require_sound(found)
    study = find_study(record.study)
    settings = study.settings.model_validate(record.identity["settings"])
    if not settings.captures:
        raise ShardError("The run kept no captures, so nothing can be replayed. Run with captures.")
    if not found.done:
        raise ShardError("The run has no finished unit yet; there is nothing to replay.")
    weights = load_file(path / directory.WEIGHTS / CAPTURES)
    compared, wrong, worst = 0, [], {}
    report("", 0, len(found.done))
    for n, unit in enumerate(found.done, start=1):
        shard = path / directory.UNITS / unit
        rows = read_table(shard / "records.parquet").to_pylist()
        pairs = study.replay(settings, weights, load_file(shard / CAPTURES), rows)
        compared += len(pairs)
        wrong += [pair for pair in pairs if not pair.relative <= ALLOWED]
        for pair in pairs:
            worst[pair.name] = max(worst.get(pair.name, 0.0), pair.relative)
        report(unit, n, len(found.done))
    result = Replay(len(found.done), compared, tuple(wrong), worst)
    _save(path, record.fingerprint, result)
    return result


def _save(path: Path, fingerprint: str, result: Replay) -> None:
    saved = {
        "fingerprint": fingerprint,
        "units": result.units,
        "compared": result.compared,
        "failed": len(result.disagreeing),
        "passed": result.passed,
        "allowed": ALLOWED,
        "worst": max(result.worst.values(), default=0.0),
        "worst_by_name": result.worst,
    }
    replace_file(path / directory.REPLAY, json.dumps(saved, indent=1).encode())
