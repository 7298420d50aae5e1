"""What the harness asks of a study: a small protocol, and the plain values that pass between the two.

A study is one folder of `finite_calculus/studies` (or of any package that registers it by entry point) whose
`STUDY` extends `Study`. The harness knows nothing else about it. `plan` says which units a stage has, `run`
computes one of them, `report` makes tables from what was saved; nothing is reported that was not.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
import pyarrow as pa

from finite_calculus.harness.checks import Check
from finite_calculus.harness.figures import Figure
from finite_calculus.harness.rows import Row, Tables
from finite_calculus.harness.settings import StudySettings
from finite_calculus.harness.tables import Table

Arrays = Mapping[str, np.ndarray]
# What a stage decided, frozen for the next one: plain data.
Policy = Mapping[str, Any]

S = TypeVar("S", bound=StudySettings, contravariant=True)
U = TypeVar("U")
R = TypeVar("R", bound=Row)


@dataclass(frozen=True)
class Plan(Generic[U]):
    """The units of one stage by name, in order, and a manifest of numbers and hashes without any text.

    `prompt` are the token ids that the preflight runs on; None leaves the choice to it.
    """

    units: Mapping[str, U] = field(repr=False)
    manifest: Mapping[str, Any]
    prompt: tuple[int, ...] | None = None


@dataclass(frozen=True)
class UnitResult:
    """What one unit leaves: rows by table name, checks, and tensors for replay."""

    rows: Mapping[str, Sequence[Row]]
    checks: Sequence[Check]
    tensors: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Records:
    """All that a report may be made from: the rows, the checks and the manifests of the plans."""

    tables: Tables
    manifests: Mapping[str, Mapping[str, Any]]

    def rows(self, kind: type[R]) -> list[R]:
        """All rows of one kind, in the order of the units."""
        return self.tables.rows(kind)


@dataclass(frozen=True)
class Comparison:
    """One recorded number against its replay, with the sum of the absolute values of its terms."""

    where: str
    name: str
    recorded: float
    replayed: float
    scale: float

    @property
    def relative(self) -> float:
        """The difference in units of the scale of its terms; infinite for what is not a number."""
        difference = abs(self.recorded - self.replayed)
        if difference == 0:
            return 0.0
        return difference / self.scale if difference < np.inf and self.scale > 0 else float("inf")


@runtime_checkable
class Study(Protocol[S, U]):
    """A study. `Settings`, `tables`, `plan`, `run` and `report` are its own; the rest has defaults.

    A study whose settings extend `ModelSettings` runs on a native model behind its gate; any other has no
    subject and makes what it needs. `repeatable` is False where two runs differ by nature (timings).
    """

    name: ClassVar[str]
    Settings: ClassVar[type[StudySettings]]
    tables: ClassVar[Mapping[str, type[Row]]]
    stages: ClassVar[tuple[str, ...]] = ("main",)
    repeatable: ClassVar[bool] = True

    def plan(self, subject: Any, settings: S, stage: str, policy: Policy | None) -> Plan[U]:
        """The units of a stage, all prompts built and checked before anything runs."""
        ...

    def run(self, subject: Any, settings: S, unit: U, policy: Policy | None) -> UnitResult:
        """Compute one unit."""
        ...

    def report(self, settings: S, records: Records) -> Iterable[Table]:
        """Tables from saved records alone."""
        ...

    def figures(self, settings: S, records: Records) -> Iterable[Figure]:
        """Figures from saved records alone."""
        return ()

    def shared(self, subject: Any, settings: S) -> Mapping[str, Any]:
        """Tensors that all units share, kept once for replay."""
        return {}

    def decide(self, settings: S, stage: str, records: Records) -> Policy:
        """The policy that a finished stage fixes for the next one: plain data, hashed and frozen."""
        return {}

    def upgrade(self, settings: S, tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
        """Tables of an older version of the study in the form of this one."""
        return tables


@runtime_checkable
class Replayable(Protocol):
    """A study whose predictions can be recomputed from saved tensors, without the model."""

    def replay(
        self, settings: Any, shared: Arrays, tensors: Arrays, tables: Tables
    ) -> Iterable[Comparison]:
        """Every recorded prediction of a unit beside its replay."""
        ...
