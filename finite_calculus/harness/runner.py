"""Run a study: plan, identity, gate, then one unit after the other, each committed when finished.

Called again it goes on at the next unit, and several processes may call it on one directory at once: each
takes units that nobody holds. A kill at any moment loses the unit in hand and nothing else.
"""

import io
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finite_calculus.harness import directory
from finite_calculus.harness.archived import read_archive, require_same_run, take_over
from finite_calculus.harness.checks import CHECKS
from finite_calculus.harness.directory import CAPTURES, RunRecord, StagePlan
from finite_calculus.harness.errors import StoreError, UnitError
from finite_calculus.harness.identity import identify
from finite_calculus.harness.picking import Picking
from finite_calculus.harness.records import kinds_of
from finite_calculus.harness.rows import encode_rows
from finite_calculus.harness.settings import StudySettings, require_layers
from finite_calculus.harness.shards import commit, discard_part, parts_of, unit_words
from finite_calculus.harness.stages import fix_policy
from finite_calculus.harness.store import Folder, Store
from finite_calculus.harness.study import Plan, Policy, Study, UnitResult
from finite_calculus.harness.subjects import LOGGER, Subject, open_subject
from finite_calculus.provenance.digests import digest
from finite_calculus.provenance.files import open_plain

Report = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Progress:
    """Where a run stands when it returns; `total` counts the units of the stages that were reached."""

    done: int
    total: int


@dataclass(frozen=True, eq=False)
class Run:
    """One process's hold on a run: what it computes, where, on what."""

    study: Study[Any, Any]
    settings: StudySettings
    store: Store
    record: RunRecord
    subject: Subject
    report: Report

    @property
    def out(self) -> Path:
        """The directory of the run's files."""
        return self.store.path


@dataclass(frozen=True, eq=False)
class Stage:
    """A stage that has been planned."""

    plan: Plan[Any]
    saved: StagePlan
    policy: Policy | None


def run(
    study: Study[Any, Any],
    settings: StudySettings,
    place: Path | Store,
    *,
    device: str = "cpu",
    loaded: tuple[Any, Any] | None = None,
    limit: int | None = None,
    archive: Path | None = None,
    report: Report = lambda unit, done, total: None,
) -> Progress:
    """Run a study into a directory or another store, or go on with it; at most `limit` units in this call.

    The units of an `archive` of this very run are taken from it and not computed.

    `report(unit, done, total)` is called before the first unit of a stage and after each; `loaded` is a
    model with its tokenizer, in place of loading the settings' one.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"`limit` must be at least 1 unit; got {limit}. Leave it out for all.")
    store = Folder(place) if isinstance(place, Path) else place
    out = store.path
    directory.require_free(out)
    earlier = None if archive is None else read_archive(archive)
    with open_subject(settings, device=device, loaded=loaded) as subject:
        if subject.layers is not None:
            require_layers(settings, subject.layers)
        first = _planned(study, settings, subject, study.stages[0], None)
        identity = identify(study, settings, subject.describe(), first.saved.sha256)
        record = directory.require_same(out, study.name, identity)  # before a log is begun in it
        if earlier is not None:
            require_same_run(earlier, study.name, identity)
        out.mkdir(parents=True, exist_ok=True)
        with _logging(out):
            is_open = record is not None and subject.gate_is_open(out, record.fingerprint)
            # Who joins a run that is set up waits for nobody: thousands may join at once.
            ready = is_open and earlier is None
            with nullcontext() if ready else store.setup():
                record = directory.open_run(out, study.name, identity)
                directory.keep_plan(out, first.saved)
                subject.pass_gate(out, record.fingerprint, first.plan.prompt)
                if earlier is not None:
                    take_over(earlier, out)
            return _run_stages(Run(study, settings, store, record, subject, report), first, limit)


def _run_stages(job: Run, first: Stage, limit: int | None) -> Progress:
    """Every stage in order, each under the policy of the one before it."""
    stage, left, done, total = first, limit, 0, 0
    for name, following in zip(job.study.stages, (*job.study.stages[1:], None), strict=True):
        finished, ran = _run_stage(job, stage, left)
        done, total = done + finished, total + len(stage.saved.units)
        left = None if left is None else left - ran
        if finished < len(stage.saved.units) or following is None:
            break
        job.store.pull(units=True)
        policy = fix_policy(job.study, job.settings, job.out, job.record, name)
        stage = _planned(job.study, job.settings, job.subject, following, policy)
        directory.keep_plan(job.out, stage.saved)
        job.store.push()
    return Progress(done, total)


def _planned(
    study: Study[Any, Any],
    settings: StudySettings,
    subject: Subject,
    stage: str,
    policy: Policy | None,
) -> Stage:
    plan = study.plan(subject, settings, stage, policy)
    if not plan.units:
        raise ValueError(f"The stage {stage} of {study.name} must have a unit; its plan has none.")
    saved = StagePlan(
        stage=stage,
        units=tuple(plan.units),
        manifest=plan.manifest,
        policy=None if policy is None else digest(dict(policy)),
    )
    return Stage(plan, saved, policy)


def _run_stage(job: Run, stage: Stage, limit: int | None) -> tuple[int, int]:
    """Run the missing units of a stage that nobody holds; waits for those that others hold.

    Returns how many units of the stage are finished, and how many were run here.
    """
    weights = _keep_shared(job)
    survey = job.store.survey(job.record, stage.saved)
    reached = [stage.saved, *_other_plans(job, stage)]
    foreign = directory.foreign_entries(job.out, job.record, reached)
    directory.require_sound([*survey.problems, *foreign])
    total = len(survey.missing)
    LOGGER.info(
        "%s: %d of %d units are done", stage.saved.stage, len(survey.done), len(stage.saved.units)
    )
    _clear_parts(job)
    job.report("", 0, total)
    picking, ran = Picking(list(survey.missing), job.store.unfinished), 0
    while picking.missing and (limit is None or ran < limit):
        unit = picking.next()
        if _run_if_free(job, stage, unit, weights):
            ran += 1
            picking.ran()
            job.report(unit, total - len(picking.missing), total)
        elif pause := picking.was_refused(job.store.finished(unit)):
            time.sleep(pause)
    if not picking.missing:
        _clear_parts(job)
    return len(stage.saved.units) - len(picking.missing), ran


def _clear_parts(job: Run) -> None:
    """Remove what interrupted commits left, of units that nobody holds."""
    for unit, parts in directory.unfinished_parts(job.out).items():
        with job.store.claimed(unit) as mine:
            # Another process may have cleared them meanwhile.
            for part in parts if mine else ():
                if part.is_symlink() or part.exists():
                    LOGGER.info("%s was left by an interrupted run and is removed", part.name)
                    with suppress(OSError):  # of a worker that was frozen and writes again
                        discard_part(part)


def _other_plans(job: Run, stage: Stage) -> Iterator[StagePlan]:
    for name in job.study.stages:
        plan = directory.read_plan(job.out, name)
        if plan is not None and name != stage.saved.stage:
            yield plan


def _run_if_free(job: Run, stage: Stage, unit: str, weights: str | None) -> bool:
    """Run a unit and commit it, unless another process holds it, has finished it or is faster."""
    if job.store.finished(unit):
        return False
    with job.store.claimed(unit) as mine:
        if not mine or job.store.finished(unit):
            return False
        start = time.perf_counter()
        result = _compute(job, stage, unit)
        seconds = round(time.perf_counter() - start, 3)
        fingerprint = directory.stage_fingerprint(job.record, stage.saved)
        files = _files(job, unit, fingerprint, result)
        words: dict[str, Any] = {"fingerprint": fingerprint, "repeatable": job.study.repeatable}
        first = job.store.commit(unit, files, **words, seconds=seconds, weights=weights)
        if not first:
            LOGGER.info("%s had been taken over and finished meanwhile, with the same bytes", unit)
            return False
        LOGGER.info("%s in %.1f s", unit, seconds)
    return True


def _compute(job: Run, stage: Stage, unit: str) -> UnitResult:
    try:
        return job.study.run(job.subject, job.settings, stage.plan.units[unit], stage.policy)
    except Exception as error:
        LOGGER.exception("%s failed", unit)
        raise UnitError(
            f"The unit {unit} failed with {type(error).__name__}: {error}. The traceback is in "
            f"{directory.LOG}; finished units are kept."
        ) from error


def _keep_shared(job: Run) -> str | None:
    """The tensors that all units share, written once, before the first unit; their sha256, if any."""
    target = job.out / directory.WEIGHTS
    if not target.exists() and job.settings.captures:
        tensors = job.study.shared(job.subject, job.settings)
        if tensors:
            with job.store.setup():
                for part in parts_of(target):
                    discard_part(part)
                commit(target, {CAPTURES: _tensors(tensors)}, fingerprint=job.record.fingerprint)
    return directory.weights_hash(job.out)


def _files(job: Run, unit: str, fingerprint: str, result: UnitResult) -> dict[str, bytes]:
    """The tables and tensors of a unit; every declared table is there, if only empty."""
    unknown = set(result.rows) - set(job.study.tables)
    if unknown:
        raise StoreError(f"`rows` must be of the study's tables; got {sorted(unknown)[0]}.")
    words = unit_words(job.study.name, unit, fingerprint)
    rows: dict[str, Any] = {**dict.fromkeys(job.study.tables, ()), **result.rows}
    rows[CHECKS] = [check.row(unit) for check in result.checks]
    files = {
        f"{name}.parquet": encode_rows(rows[name], kind, **words)
        for name, kind in kinds_of(job.study).items()
    }
    if job.settings.captures and result.tensors:
        files[CAPTURES] = _tensors(result.tensors)
    return files


def _tensors(tensors: Mapping[str, Any]) -> bytes:
    from safetensors.torch import save

    return save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})


@contextmanager
def _logging(out: Path) -> Iterator[None]:
    """Write what happens to the log of the directory, each line with its process."""
    # Opened as it is: a log that is a link would write to wherever that points.
    opened = open_plain(out / directory.LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    stream = io.TextIOWrapper(opened, encoding="utf-8", write_through=True)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter(f"%(asctime)s {os.getpid()} %(levelname)s %(message)s"))
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
        with suppress(OSError):
            stream.close()
