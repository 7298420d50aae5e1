"""The audit in units that many processes share: every check, precision and block of cases by itself.

The cases are those of `finite-calculus audit` with the same number and seed, and `finite-calculus audit
--from DIR` makes the same records of them. So 10⁹ cases of every function can be spread by `--workers`,
`work` or `--ray`, stopped and gone on with.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from finite_calculus.harness import (
    Plan,
    Policy,
    Records,
    Row,
    Study,
    StudySettings,
    Table,
    UnitResult,
    compare,
    count,
)
from finite_calculus.studies.audit.rows import Part

if TYPE_CHECKING:
    from proofs.numeric.spread import Block


class AuditSettings(StudySettings):
    """How many cases of which checks, and how many of them in a unit."""

    study: str = "audit"
    seed: Annotated[int, Field(ge=0, description="First seed; runs with other seeds are new.")] = 0
    cases: Annotated[
        int, Field(ge=1, le=10**10, description="Cases of each check and precision.")
    ] = 10_000
    function: Annotated[str, Field(description="One public function, or all.")] = "all"
    dtypes: Annotated[tuple[str, ...], Field(description="float64, float32 or both.")] = (
        "float64",
        "float32",
    )
    block: Annotated[
        int, Field(ge=1, le=10**8, description="Cases of a unit, rounded up to whole pieces.")
    ] = 100_000


class Audit(Study["AuditSettings", "Block"]):
    """One unit for each check, precision and block of cases, and of the sample for digits."""

    name: ClassVar[str] = "audit"
    Settings = AuditSettings
    tables: ClassVar[Mapping[str, type[Row]]] = {"parts": Part}

    def plan(
        self, subject: Any, settings: AuditSettings, stage: str, policy: Policy | None
    ) -> "Plan[Block]":
        """Blocks in the order of the checks."""
        from proofs.numeric.spread import blocks

        units = blocks(
            None if settings.function == "all" else settings.function,
            settings.dtypes,
            cases=settings.cases,
            seed=settings.seed,
            size=settings.block,
        )
        return Plan(units, {"checks": len({block.name for block in units.values()})})

    def run(
        self, subject: Any, settings: AuditSettings, unit: "Block", policy: Policy | None
    ) -> UnitResult:
        """Measure a block; a violation or lost digits are failed checks of the run."""
        from proofs.numeric.spread import measured, outcome

        part = measured(unit)
        violations, lost = outcome(unit, part)
        checks = [
            count("error beyond its bound", [violations > 0]),
            *([compare("digits lost", [lost])] if lost is not None else []),
        ]
        return UnitResult({"parts": [Part.of(unit, part)]}, checks)

    def report(self, settings: AuditSettings, records: Records) -> Iterable[Table]:
        """The checks, each with what all of its blocks found."""
        from finite_calculus.studies.audit.report import report

        return report(records.rows(Part))


STUDY = Audit()
