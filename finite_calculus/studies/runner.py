"""Run a study: prompts, identity, gate, then one unit after the other, each committed when finished.

Called again it goes on at the next unit. A kill at any moment loses the unit in hand and nothing else.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save
from transformers import PreTrainedModel

from finite_calculus.models import attach
from finite_calculus.studies import directory
from finite_calculus.studies.directory import CAPTURES
from finite_calculus.studies.identity import identify
from finite_calculus.studies.settings import StudySettings
from finite_calculus.studies.shards import ShardError, commit, discard_part, encode_table
from finite_calculus.studies.study import GateShutError, Prompts, Study, UnitResult
from native_checks.preflight import preflight

LOGGER = logging.getLogger("finite_calculus.studies")
Report = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Progress:
    """Where a run stands when it returns."""

    done: int
    total: int


def run(
    study: Study,
    settings: StudySettings,
    out: Path,
    *,
    model: PreTrainedModel,
    tokenizer: Any,
    data: Path | None = None,
    limit: int | None = None,
    report: Report = lambda unit, done, total: None,
) -> Progress:
    """Run a study into a directory, or go on with it; at most `limit` units in this call.

    `report(unit, done, total)` is called before the first unit and after each.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"`limit` must be at least 1 unit; got {limit}. Leave it out for all.")
    prompts = study.prompts(settings, tokenizer, data)
    with directory.locked(out), _logging(out):
        record = directory.open_run(
            out, study.name, identify(settings, model, prompts.manifest), prompts
        )
        missing = _clear(study, out, record)
        LOGGER.info(
            "%d of %d units are done", len(prompts.units) - len(missing), len(prompts.units)
        )
        _pass_gate(out, model, tokenizer, prompts)
        _run_units(study, settings, out, record, prompts, missing[:limit], model, tokenizer, report)
        left = len(directory.survey(out, record).missing)
    return Progress(len(prompts.units) - left, len(prompts.units))


def _clear(study: Study, out: Path, record: directory.RunRecord) -> tuple[str, ...]:
    """The missing units, after leftovers of a kill are removed; refuses what is not sound."""
    found = directory.survey(out, record)
    directory.require_sound(found)
    names = [*(f"{name}.parquet" for name in study.schemas), CAPTURES]
    for part in found.parts:
        LOGGER.info("%s was left by an interrupted run and is done again", part.name)
        discard_part(part, names)
    return found.missing


def _pass_gate(out: Path, model: PreTrainedModel, tokenizer: Any, prompts: Prompts) -> None:
    """Run the preflight on the first prompt, unless it was saved open by this same run."""
    target = out / directory.PREFLIGHT
    if target.exists():
        try:
            checks = json.loads(target.read_text())["checks"]
            passed = [check["name"] for check in checks if check["passed"]]
        except (ValueError, KeyError, TypeError):
            raise ShardError(f"{target.name} is damaged; move it away and run again.") from None
        if checks and len(passed) == len(checks):
            return
    result = preflight(model, tokenizer, prompt=prompts.first)
    result.save(target)
    LOGGER.info("preflight: %d checks, %s", len(result.checks), result.lines()[-1])
    if not result.passed:
        raise GateShutError(
            f"The gate is shut by {', '.join(result.failed)}; nothing was run. "
            f"See {directory.PREFLIGHT} for the figures."
        )


def _run_units(
    study: Study,
    settings: StudySettings,
    out: Path,
    record: directory.RunRecord,
    prompts: Prompts,
    units: tuple[str, ...],
    model: PreTrainedModel,
    tokenizer: Any,
    report: Report,
) -> None:
    total = len(units)
    report("", 0, total)
    with attach(model, tokenizer=tokenizer) as instrument:
        if settings.captures and units and not (out / directory.WEIGHTS).exists():
            files = {CAPTURES: _tensors(study.weights(instrument, settings))}
            commit(out / directory.WEIGHTS, files, fingerprint=record.fingerprint)
        for n, unit in enumerate(units, start=1):
            start = time.perf_counter()
            result = study.unit(instrument, settings, prompts, unit)
            seconds = round(time.perf_counter() - start, 3)
            files = _files(study, settings, record.fingerprint, unit, result)
            target = out / directory.UNITS / unit
            commit(target, files, fingerprint=record.fingerprint, seconds=seconds)
            LOGGER.info("%s in %.1f s", unit, seconds)
            report(unit, n, total)


def _files(
    study: Study, settings: StudySettings, fingerprint: str, unit: str, result: UnitResult
) -> dict[str, bytes]:
    words = {"study": study.name, "unit": unit, "fingerprint": fingerprint}
    files = {
        f"{name}.parquet": encode_table(result.tables[name], schema, **words)
        for name, schema in study.schemas.items()
    }
    if settings.captures:
        files[CAPTURES] = _tensors(result.tensors)
    return files


def _tensors(tensors: Any) -> bytes:
    return save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})


@contextmanager
def _logging(out: Path) -> Iterator[None]:
    """Write what happens to the log of the directory."""
    handler = logging.FileHandler(out / directory.LOG, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    before = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield
    except BaseException as error:
        LOGGER.error("stopped: %s: %s", type(error).__name__, error)
        raise
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(before)
        handler.close()
