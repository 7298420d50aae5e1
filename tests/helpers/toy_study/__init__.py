"""A toy of two stages without a model: calibrate a threshold on draws, then test it on others.

It stands for a study of a third party: only the harness is known to it, and only an entry point to the
harness.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from pydantic import Field

from finite_calculus.harness import (
    Comparison,
    Plan,
    Policy,
    Records,
    Row,
    Study,
    StudySettings,
    Table,
    Tables,
    UnitResult,
    compare,
)
from tests.helpers.toy_study.draws import draw


class ToySettings(StudySettings):
    """How many draws, in how many units a stage."""

    study: str = "toy"
    seed: Annotated[int, Field(ge=0, description="Seed of the draws.")] = 5
    draws: Annotated[int, Field(ge=1, description="Draws of a unit.")] = 8
    units: Annotated[int, Field(ge=1, description="Units of a stage.")] = 2


@dataclass(frozen=True)
class Mean(Row):
    """The mean of a unit's draws, and whether it is above the threshold, once there is one."""

    stage: str
    mean: float
    above: bool | None


@dataclass(frozen=True)
class Unit:
    """What one unit draws."""

    stage: str
    seed: int


class Toy(Study[ToySettings, Unit]):
    """Calibrate, then test."""

    name: ClassVar[str] = "toy"
    Settings = ToySettings
    tables: ClassVar[Mapping[str, type[Row]]] = {"means": Mean}
    stages: ClassVar[tuple[str, ...]] = ("calibrate", "test")

    def plan(
        self, subject: Any, settings: ToySettings, stage: str, policy: Policy | None
    ) -> Plan[Unit]:
        """Units with seeds of their own."""
        first = settings.seed + settings.units * self.stages.index(stage)
        units = {f"{stage}-{n}": Unit(stage, first + n) for n in range(settings.units)}
        return Plan(units, {"seeds": [unit.seed for unit in units.values()]})

    def run(
        self, subject: Any, settings: ToySettings, unit: Unit, policy: Policy | None
    ) -> UnitResult:
        """The mean of the draws, held to the interval that they come from."""
        values = draw(unit.seed, settings.draws)
        mean = float(values.mean())
        above = None if policy is None else mean > policy["threshold"]
        return UnitResult(
            rows={"means": [Mean(unit.stage, mean, above)]},
            checks=[compare("mean within the unit interval", [(abs(mean - 0.5), 0.5)])],
            tensors={"draws": torch.from_numpy(values)},
        )

    def decide(self, settings: ToySettings, stage: str, records: Records) -> Policy:
        """The middle of the calibration's means."""
        return {"threshold": float(np.mean([row.mean for row in records.rows(Mean)]))}

    def replay(
        self, settings: Any, shared: Any, tensors: Any, tables: Tables
    ) -> Iterable[Comparison]:
        """The means again."""
        for row in tables.rows(Mean):
            again = float(tensors["draws"].mean())
            yield Comparison(row.stage, "mean", row.mean, again, scale=1.0)

    def report(self, settings: ToySettings, records: Records) -> Iterable[Table]:
        """One row a unit."""
        rows = tuple((row.stage, row.mean, str(row.above)) for row in records.rows(Mean))
        return [Table("means", "Means of the draws", ("stage", "mean", "above"), rows)]


STUDY = Toy()
