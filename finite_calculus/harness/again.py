"""One unit of an archive computed again, and every number of it beside the recorded one.

Settings and policy come from the archive; with the model and the code at hand they give the unit. Other code
or versions are no obstacle, but they are named. The preflight is not run: the records are the check.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finite_calculus.harness.archived import Archive, read_archive
from finite_calculus.harness.checks import CHECKS
from finite_calculus.harness.errors import StoreError
from finite_calculus.harness.identity import differences, identify
from finite_calculus.harness.joining import settings_of
from finite_calculus.harness.records import kinds_of
from finite_calculus.harness.registry import find_study
from finite_calculus.harness.rows import Row, decode_rows
from finite_calculus.harness.stages import policy_file, read_policy
from finite_calculus.harness.study import Policy, Study
from finite_calculus.harness.subjects import open_subject
from finite_calculus.provenance.digests import digest


@dataclass(frozen=True)
class Differing:
    """A value that came out otherwise than it was recorded."""

    table: str
    row: int
    column: str
    recorded: Any
    again: Any


@dataclass(frozen=True)
class Again:
    """A unit beside its records: rows and values by table, what differs, and what of the identity does.

    `pairs` are recorded rows beside those computed again, by table.
    """

    rows: Mapping[str, int]
    pairs: Mapping[str, tuple[tuple[Row, Row], ...]]
    values: int
    differing: tuple[Differing, ...]
    changed: tuple[str, ...]
    repeatable: bool

    def matching(self, wanted: Mapping[str, str]) -> list[tuple[str, Row, Row]]:
        """Table, recorded row and row computed again, wherever columns have the wanted values."""
        matches = [
            (name, before, now)
            for name, pairs in self.pairs.items()
            for before, now in pairs
            if all(str(getattr(before, column, None)) == value for column, value in wanted.items())
        ]
        if not matches:
            words = ", ".join(f"{column}={value}" for column, value in wanted.items())
            raise ValueError(
                f"`wanted` must be columns of a row of the unit with their values; no row has {words}. "
                f"The tables hold {'; '.join(self._columns())}."
            )
        return matches

    def _columns(self) -> Iterator[str]:
        for name, pairs in self.pairs.items():
            if pairs:
                names = [field.name for field in dataclasses.fields(pairs[0][0])]
                yield f"{name}: {', '.join(names)}"


def again(
    path: Path,
    unit: str,
    *,
    places: Mapping[str, str] | None = None,
    device: str = "cpu",
    loaded: tuple[Any, Any] | None = None,
) -> Again:
    """Compute a unit of an archive again; `places` are folders of the user that the settings do not keep."""
    archive = read_archive(path)
    stage = archive.stage_of(unit).stage
    study = find_study(archive.record.study)
    settings = settings_of(study, archive.record, places or {})
    with open_subject(settings, device=device, loaded=loaded) as subject:
        first = study.plan(subject, settings, study.stages[0], None)
        policy = _policy(study, archive, stage)
        plan = first if policy is None else study.plan(subject, settings, stage, policy)
        if digest(dict(plan.manifest)) != digest(dict(archive.plans[stage].manifest)):
            raise StoreError(
                f"The prompts or rows of {stage} must be those of the archive; their hashes are others. "
                f"Use the same model and data."
            )
        recorded_plan = archive.record.identity["plan"]
        identity = identify(study, settings, subject.describe(), recorded_plan)
        result = study.run(subject, settings, plan.units[unit], policy)
    computed = {**dict.fromkeys(study.tables, ()), **result.rows}
    computed[CHECKS] = [check.row(unit) for check in result.checks]
    recorded = {
        name: decode_rows(table, kinds_of(study)[name])
        for name, table in archive.tables()[unit].items()
    }
    differing = [
        each
        for name, rows in recorded.items()
        for each in _differing(name, rows, computed.get(name, ()))
    ]
    return Again(
        rows={name: len(rows) for name, rows in recorded.items()},
        pairs={
            name: tuple(zip(rows, computed.get(name, ()), strict=False))
            for name, rows in recorded.items()
        },
        values=sum(
            len(rows) * len(dataclasses.fields(kinds_of(study)[n])) for n, rows in recorded.items()
        ),
        differing=tuple(differing),
        changed=tuple(differences(archive.record.identity, identity.as_dict())),
        repeatable=study.repeatable,
    )


def _policy(study: Study[Any, Any], archive: Archive, stage: str) -> Policy | None:
    """The policy that a stage followed; the first one follows none."""
    number = study.stages.index(stage)
    if number == 0:
        return None
    policy = read_policy(archive.path, study.stages[number - 1])
    if digest(dict(policy)) != archive.plans[stage].policy:
        name = policy_file(study.stages[number - 1])
        raise StoreError(f"{name} is damaged: the plan of {stage} names another policy.")
    return policy


def _differing(table: str, recorded: Sequence[Row], computed: Sequence[Row]) -> Iterator[Differing]:
    """Values that are not the same; a number that is none equals another that is none."""
    if len(recorded) != len(computed):
        yield Differing(table, len(recorded), "rows", len(recorded), len(computed))
    for number, pair in enumerate(zip(recorded, computed, strict=False)):
        for field in dataclasses.fields(pair[0]):
            before, now = (getattr(row, field.name) for row in pair)
            if before != now and not (_is_nan(before) and _is_nan(now)):
                yield Differing(table, number, field.name, before, now)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
