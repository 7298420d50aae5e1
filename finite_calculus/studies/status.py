"""What a run directory holds: what is done, what is missing, what was checked; no model is needed."""

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from finite_calculus.studies import directory, records
from finite_calculus.studies.study import find_study


@dataclass(frozen=True)
class Status:
    """The state of a run in words and numbers."""

    study: str
    model: str
    fingerprint: str
    units: int
    done: int
    missing: tuple[str, ...]
    problems: tuple[str, ...]
    gate: str
    checks: int
    failed: int
    replay: str

    @property
    def sound(self) -> bool:
        """Whether nothing is damaged, foreign or failed."""
        return not self.problems and not self.failed and not self.gate.startswith("SHUT")

    def lines(self) -> list[str]:
        """The state as lines of text."""
        found = [f"{self.done} of {self.units} done"]
        found.append(
            f"PROBLEMS: {len(self.problems)}" if self.problems else "every sha256 verified"
        )
        found += [f"next {self.missing[0]}"] if self.missing else []
        found += ["complete"] if self.done == self.units and not self.problems else []
        return [
            f"{self.study} on {self.model}, run {self.fingerprint[:12]}",
            f"units     {', '.join(found)}",
            f"gate      {self.gate}",
            f"checks    {self.checks} recorded, {self.failed} failed",
            f"replay    {self.replay}",
            *(f"problem   {line}" for line in self.problems),
        ]


def status(path: Path) -> Status:
    """Survey a run directory and verify every hash in it."""
    record = directory.read_run(path)
    found = directory.survey(path, record)
    find_study(record.study)
    audit = records.gather(path, record, found, "audit")
    return Status(
        study=record.study,
        model=record.identity["settings"]["model"],
        fingerprint=record.fingerprint,
        units=len(record.units),
        done=len(found.done),
        missing=found.missing,
        problems=found.problems,
        gate=_gate(path / directory.PREFLIGHT),
        checks=_total(audit, "checks"),
        failed=_total(audit, "failed"),
        replay=_replay(path / directory.REPLAY, record.fingerprint),
    )


def _total(audit: pa.Table | None, column: str) -> int:
    return 0 if audit is None else sum(audit[column].to_pylist())


def _gate(path: Path) -> str:
    if not path.exists():
        return "not run yet"
    checks = json.loads(path.read_text())["checks"]
    failed = [check["name"] for check in checks if not check["passed"]]
    return f"SHUT by {', '.join(failed)}" if failed else f"open, {len(checks)} checks"


def _replay(path: Path, fingerprint: str) -> str:
    if not path.exists():
        return "not done; `finite-calculus replay` recomputes every prediction"
    saved = json.loads(path.read_text())
    if saved["fingerprint"] != fingerprint:
        return "of another run"
    state = "all agree" if saved["passed"] else f"{saved['failed']} DISAGREE"
    return f"{saved['compared']} numbers of {saved['units']} units, {state}, worst {saved['worst']:.1e}"
