"""What a run directory holds: what is done, what is missing, what was checked; no model is needed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finite_calculus.harness import directory
from finite_calculus.harness.checks import CheckRow, failures, totals
from finite_calculus.harness.claims import holders
from finite_calculus.harness.records import gather, planned, study_of, tables_of
from finite_calculus.harness.replay import ALLOWED
from finite_calculus.harness.settings import ModelSettings, StudySettings
from finite_calculus.harness.study import Replayable, Study
from finite_calculus.harness.subjects import gate_state
from finite_calculus.provenance.files import read_json


@dataclass(frozen=True)
class Status:
    """The state of a run in words and numbers.

    `root` is one hash over the whole directory; a user may keep or sign it. `running` are the units in hand.
    """

    title: str
    fingerprint: str
    root: str
    stages: tuple[str, ...]
    units: int
    done: int
    missing: tuple[str, ...]
    running: tuple[str, ...]
    problems: tuple[str, ...]
    gate: str
    checks: int
    failed: dict[str, int]
    replay: str
    replay_agrees: bool
    repeatable: bool

    @property
    def sound(self) -> bool:
        """Whether nothing is damaged, foreign or failed."""
        return not self.problems and not self.failed and self.gate_is_open and self.replay_agrees

    @property
    def gate_is_open(self) -> bool:
        """Whether the gate is open, or there is none."""
        return not self.gate.startswith("SHUT")

    @property
    def only_shut(self) -> bool:
        """Whether nothing but the gate is wrong."""
        return not (self.gate_is_open or self.problems or self.failed) and self.replay_agrees

    @property
    def complete(self) -> bool:
        """Whether every unit of every stage is done and nothing is wrong."""
        return not self.missing and not self.problems and self.done == self.units

    def lines(self) -> list[str]:
        """The state as lines of text."""
        words = [f"{self.done} of {self.units} done"]
        words.append(
            f"PROBLEMS: {len(self.problems)}" if self.problems else "every sha256 verified"
        )
        words += [f"next {self.missing[0]}"] if self.missing else []
        words += ["complete"] if self.complete else []
        once = "" if self.repeatable else "; timings: another run gives other records"
        return [
            f"{self.title}, run {self.fingerprint[:12]}{once}",
            f"units     {', '.join(words)}",
            *([f"running   {', '.join(self.running)}"] if self.running else []),
            *([f"stages    {', '.join(self.stages)}"] if len(self.stages) > 1 else []),
            f"gate      {self.gate}",
            f"checks    {self.checks} recorded, {sum(self.failed.values())} failed",
            *(f"FAILED    {name}: {count}" for name, count in self.failed.items()),
            f"replay    {self.replay}",
            f"root      {self.root}",
            *(f"problem   {line}" for line in directory.first_lines(self.problems)),
        ]


def status(path: Path) -> Status:
    """Survey a run directory and verify every hash in it."""
    record = directory.read_run(path)
    study, settings = study_of(record)
    plans = planned(path, record, study)
    surveys = [directory.survey(path, record, plan) for plan in plans]
    done = tuple(unit for survey in surveys for unit in survey.done)
    missing = tuple(unit for survey in surveys for unit in survey.missing)
    unreached = study.stages[len(plans) :]
    wrong = [line for survey in surveys for line in survey.problems]
    wrong += directory.foreign_entries(path, record, plans)
    tables = tables_of(study, settings, gather(path, list(done)))
    checks = tables.rows(CheckRow)
    replay, agrees = _replay(path, record, directory.root_hash(path, record, done), study, settings)
    return Status(
        title=settings.title,
        fingerprint=record.fingerprint,
        root=directory.chain_hash(path, record, done),
        stages=tuple(
            _stage_words(plan.stage, survey) for plan, survey in zip(plans, surveys, strict=True)
        )
        + tuple(f"{stage} not planned yet" for stage in unreached),
        units=sum(len(plan.units) for plan in plans),
        done=len(done),
        missing=missing + tuple(f"the stage {stage}" for stage in unreached),
        running=tuple(holders(path)),
        problems=tuple(wrong),
        gate=_gate(path / directory.PREFLIGHT, record, bool(done), settings),
        checks=totals(checks)[0],
        failed=failures(checks),
        replay=replay,
        replay_agrees=agrees,
        repeatable=study.repeatable,
    )


def _stage_words(stage: str, survey: directory.Survey) -> str:
    total = len(survey.done) + len(survey.missing)
    return f"{stage} {len(survey.done)} of {total}"


def _gate(path: Path, record: directory.RunRecord, begun: bool, settings: StudySettings) -> str:
    if not isinstance(settings, ModelSettings):
        return "none: the study has no model"
    if not path.exists():
        return (
            f"SHUT: {path.name} is gone, on which finished units rest" if begun else "not run yet"
        )
    try:
        saved = read_json(path)
        number, failed = gate_state(saved)
        owner = saved["run"]
    except (OSError, ValueError, KeyError, TypeError):
        return f"SHUT: {path.name} is damaged"
    if owner != record.fingerprint:
        return f"SHUT: {path.name} is of another run"
    if not number:
        return f"SHUT: {path.name} holds no check"
    return f"SHUT by {', '.join(failed)}" if failed else f"open, {number} checks"


def _replay(
    path: Path,
    record: directory.RunRecord,
    root: str,
    study: Study[Any, Any],
    settings: StudySettings,
) -> tuple[str, bool]:
    """What the last replay found in words, and whether it found nothing wrong."""
    target = path / directory.REPLAY
    if not isinstance(study, Replayable):
        return "none: the study records no predictions", True
    if not settings.captures:
        return "none: the run kept no captures", True
    if not target.exists():
        return "not done; `finite-calculus replay` recomputes every prediction", True
    try:
        saved = read_json(target)
        if saved["fingerprint"] != record.fingerprint:
            return "of another run", False
        if saved.get("root", root) != root:
            return "of other records than those that are here now; replay again", True
        passed = saved["passed"] is True and not saved["failed"] and saved["compared"] > 0
        passed = passed and float(saved["worst"]) <= ALLOWED
        state = "all agree" if passed else f"{saved['failed']} DISAGREE"
        worst = float(saved["worst"])
        units = f"{saved['units']} units"
        if saved.get("without_captures"):
            units += f" ({saved['without_captures']} more have no captures)"
        return f"{saved['compared']} numbers of {units}, {state}, worst {worst:.1e}", passed
    except (OSError, ValueError, KeyError, TypeError):
        return f"{target.name} is damaged; replay again", False
