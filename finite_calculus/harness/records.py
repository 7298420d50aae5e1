"""Records of a run or of an archive, in the order of the units."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import pyarrow as pa

from finite_calculus.harness import directory
from finite_calculus.harness.archived import read_manifest
from finite_calculus.harness.checks import CHECKS, CheckRow, failure_words
from finite_calculus.harness.directory import MANIFEST
from finite_calculus.harness.errors import StoreError
from finite_calculus.harness.registry import find_study
from finite_calculus.harness.rows import Row, Tables
from finite_calculus.harness.settings import StudySettings
from finite_calculus.harness.shards import read_seal
from finite_calculus.harness.study import Records, Study
from finite_calculus.harness.untrusted import read_bounded, require_schema
from finite_calculus.provenance.files import read_json

_PARQUET = ".parquet"


@dataclass(frozen=True, eq=False)
class SavedRun:
    """A run or an archive as it was read: study, settings, records.

    `units` are those that the records come from, none for an archive. `part` says in words which part of an
    unfinished run this is, if one was asked for.
    """

    study: Study[Any, Any]
    settings: StudySettings
    fingerprint: str
    identity: Mapping[str, Any]
    tables: Mapping[str, pa.Table]
    records: Records
    complete: bool
    units: tuple[str, ...] = ()
    part: str = ""


def read_saved(path: Path, *, first: int | None = None) -> SavedRun:
    """A run directory or an archive; refuses damaged files.

    `first` reads a part of a run: all of its earlier stages, and so many units of the last one, in the
    order of the plan.
    """
    if (path / MANIFEST).is_file():
        if first is not None:
            raise StoreError("`first` must be asked of a run; this is an archive, read as it is.")
        return _from_archive(path)
    record = directory.read_run(path)
    study = find_study(record.study)
    plans = planned(path, record, study)
    surveys = [directory.survey(path, record, plan) for plan in plans]
    directory.require_sound([line for survey in surveys for line in survey.problems])
    units = [unit for survey in surveys for unit in survey.done]
    if not units:
        raise StoreError("The run has no finished unit yet; there is nothing to summarise.")
    complete = len(plans) == len(study.stages) and not any(survey.missing for survey in surveys)
    part = ""
    if first is not None and not complete:
        units, part = _first_units(plans, surveys, study.stages[-1], first)
    manifests = {plan.stage: plan.manifest for plan in plans}
    saved = _saved(
        study, record.identity, record.fingerprint, gather(path, units), manifests, complete
    )
    return replace(saved, units=tuple(units), part=part)


def _first_units(
    plans: list[directory.StagePlan], surveys: list[directory.Survey], last: str, first: int
) -> tuple[list[str], str]:
    """The units of a part, which must be finished, and the words for it."""
    plan, earlier = plans[-1], surveys[:-1]
    chosen = plan.units[:first] if plan.stage == last else ()
    if first < 1 or not chosen or set(chosen) & set(surveys[-1].missing):
        done = sum(1 for _ in takewhile(set(surveys[-1].done).__contains__, plan.units))
        raise StoreError(
            f"`first` must be a number of finished units of the stage {last}, from its beginning; got "
            f"{first}, and {done if plan.stage == last else 0} are finished."
        )
    units = [unit for survey in earlier for unit in survey.done] + list(chosen)
    return units, f"the first {len(chosen)} of {len(plan.units)} units of the stage {last}"


def planned(
    path: Path, record: directory.RunRecord, study: Study[Any, Any]
) -> list[directory.StagePlan]:
    """The plans of all stages that the run has come to."""
    plans = [directory.read_plan(path, stage) for stage in study.stages]
    first = plans[0]
    if first is None or first.sha256 != record.identity["plan"]:
        name = directory.plan_file(study.stages[0])
        raise StoreError(
            f"{name} is missing or damaged: it is not the plan that the run began with."
        )
    return [plan for plan in plans if plan is not None]


def stage_records(
    study: Study[Any, Any],
    settings: StudySettings,
    path: Path,
    record: directory.RunRecord,
    stage: str,
) -> Records:
    """Records of one finished stage."""
    plan = directory.read_plan(path, stage)
    if plan is None:
        raise StoreError(f"The run has not come to the stage {stage} yet.")
    tables = tables_of(study, settings, gather(path, list(plan.units)))
    return Records(tables, {stage: plan.manifest})


def unit_tables(study: Study[Any, Any], settings: StudySettings, shard: Path) -> Tables:
    """Tables of one unit."""
    return tables_of(study, settings, gather(shard.parent.parent, [shard.name]))


def study_of(record: directory.RunRecord) -> tuple[Study[Any, Any], StudySettings]:
    """The study of a run and its settings, which must be some of the study's."""
    study = find_study(record.study)
    try:
        return study, study.Settings.model_validate(record.identity["settings"])
    except (ValueError, KeyError) as error:
        words = " ".join(str(error).split())[:300]
        raise StoreError(
            f"{directory.RUN} holds settings that {study.name} does not take: {words}"
        ) from None


def tables_of(
    study: Study[Any, Any], settings: StudySettings, tables: Mapping[str, pa.Table]
) -> Tables:
    """Tables in the form of this version of the study, with its columns and types."""
    kinds = kinds_of(study)
    try:
        upgraded = dict(study.upgrade(settings, tables))
    except Exception as error:  # of a study, about tables that may hold anything
        raise StoreError(f"The tables are none of {study.name}: {error!r}.") from error
    for name, kind in kinds.items():
        if name in upgraded:
            require_schema(name, upgraded[name], kind)
    return Tables(kinds, upgraded)


def kinds_of(study: Study[Any, Any]) -> dict[str, type[Row]]:
    """The tables of a study and the harness's own."""
    return {**study.tables, CHECKS: CheckRow}


def gather(path: Path, units: list[str]) -> dict[str, pa.Table]:
    """Every table that the seals of the units name, all units together."""
    parts: dict[str, list[pa.Table]] = {}
    for unit in units:
        shard = path / directory.UNITS / unit
        for name in read_seal(shard)["sha256"]:
            if name.endswith(_PARQUET):
                listed = parts.setdefault(name.removesuffix(_PARQUET), [])
                listed.append(read_bounded(shard / name))
                if not listed[-1].schema.equals(listed[0].schema):
                    raise StoreError(
                        f"{unit}/{name} must have the columns of {units[0]}/{name}; it has others."
                    )
    return {name: pa.concat_tables(tables) for name, tables in parts.items()}


def failed_checks(path: Path) -> str:
    """Which checks of a run failed, in words; nothing where none did or none is there."""
    record = directory.read_run(path)
    study, settings = study_of(record)
    here = directory.entries(path)
    units = [unit for plan in planned(path, record, study) for unit in plan.units if unit in here]
    tables = tables_of(study, settings, gather(path, units))
    return failure_words(tables.rows(CheckRow))


def _from_archive(path: Path) -> SavedRun:
    manifest = read_manifest(path)
    study, hashes = find_study(manifest["study"]), manifest["sha256"]
    tables = {
        name.removesuffix(_PARQUET): read_bounded(path / name)
        for name in hashes
        if name.endswith(_PARQUET)
    }
    manifests = {stage: _manifest(path, hashes, stage) for stage in study.stages}
    part = manifest.get("part", "")
    saved = _saved(
        study, manifest["identity"], manifest["fingerprint"], tables, manifests, not part
    )
    return replace(saved, part=part)


def _manifest(path: Path, hashes: Mapping[str, str], stage: str) -> Mapping[str, Any]:
    if directory.FIRST_PROMPTS in hashes:
        return read_json(path / directory.FIRST_PROMPTS)
    return read_json(path / directory.plan_file(stage))["manifest"]


def _saved(
    study: Study[Any, Any],
    identity: Mapping[str, Any],
    fingerprint: str,
    tables: Mapping[str, pa.Table],
    manifests: Mapping[str, Mapping[str, Any]],
    complete: bool,
) -> SavedRun:
    settings = study.Settings.model_validate(identity["settings"])
    records = Records(tables_of(study, settings, tables), manifests)
    return SavedRun(study, settings, fingerprint, identity, tables, records, complete)
