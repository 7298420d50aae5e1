"""Donor keys, values and both at every span of paired prompts, predicted and executed.

The paper's initial single-layer run and its supplement (sec:jointexperiment, app:jointinitial,
app:jointsupplement): eight spans a pair, three kinds of replacement, fractional strengths at one setting.
Nothing is filtered by what the model answers or by what an edit does.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from finite_calculus.harness import (
    Comparison,
    Figure,
    Plan,
    Policy,
    Records,
    Row,
    Study,
    Table,
    Tables,
    UnitResult,
)
from finite_calculus.harness.checks import CHECKS
from finite_calculus.studies.joint_kv.checks import checks_of_audit
from finite_calculus.studies.joint_kv.figures import figures
from finite_calculus.studies.joint_kv.replay import replay_unit
from finite_calculus.studies.joint_kv.report import report
from finite_calculus.studies.joint_kv.rows import Intervention
from finite_calculus.studies.joint_kv.settings import (
    JointKVSettings as JointKVSettings,
    joint_settings as joint_settings,
)

if TYPE_CHECKING:
    from torch import Tensor

    from finite_calculus.harness.subjects import ModelSubject
    from finite_calculus.tasks.pairs import PairTokens

# The table of checks in the first version, and a column that it did not have.
_AUDIT, _SECOND = "audit", "predicted_second"


class JointKV(Study["JointKVSettings", "PairTokens"]):
    """The study as the harness runs it; what needs a model is imported when it runs."""

    name: ClassVar[str] = "joint-kv"
    Settings = JointKVSettings
    tables: ClassVar[Mapping[str, type[Row]]] = {"records": Intervention}

    def plan(
        self, subject: "ModelSubject", settings: JointKVSettings, stage: str, policy: Policy | None
    ) -> "Plan[PairTokens]":
        """One unit for each pair of prompts."""
        from finite_calculus.studies.joint_kv.plan import plan_pairs

        return plan_pairs(settings, subject.tokenizer, subject.context)

    def run(
        self,
        subject: "ModelSubject",
        settings: JointKVSettings,
        unit: "PairTokens",
        policy: Policy | None,
    ) -> UnitResult:
        """Capture one pair, predict every edit at every layer of its task, execute them all."""
        from finite_calculus.studies.joint_kv.unit import run_pair

        return run_pair(subject.instrument, settings, unit)

    def shared(self, subject: "ModelSubject", settings: JointKVSettings) -> "dict[str, Tensor]":
        """Output projections of the studied layers."""
        from finite_calculus.studies.joint_kv.unit import output_projections

        return output_projections(subject.instrument, settings.layers)

    def report(self, settings: JointKVSettings, records: Records) -> Iterable[Table]:
        """The paper's tables."""
        return report(settings, records)

    def figures(self, settings: JointKVSettings, records: Records) -> Iterable[Figure]:
        """Errors, interactions and strengths as they are drawn."""
        return figures(records)

    def replay(
        self, settings: Any, shared: Any, tensors: Any, tables: Tables
    ) -> Iterable[Comparison]:
        """Every prediction again, from the definition."""
        return replay_unit(shared, tensors, tables.rows(Intervention))

    def upgrade(
        self, settings: JointKVSettings, tables: Mapping[str, pa.Table]
    ) -> Mapping[str, pa.Table]:
        """The audit of the first version as checks; its records lack the second order."""
        upgraded = {name: table for name, table in tables.items() if name != _AUDIT}
        if _AUDIT in tables:
            upgraded[CHECKS] = checks_of_audit(tables[_AUDIT])
        records = tables.get("records")
        if records is not None and _SECOND not in records.column_names:
            upgraded["records"] = records.append_column(
                _SECOND, pa.nulls(records.num_rows, pa.float64())
            )
        return upgraded


STUDY = JointKV()
