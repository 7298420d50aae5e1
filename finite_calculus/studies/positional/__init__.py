"""Keys of demonstrations shifted in bands of rotary planes, predicted and executed, and what follows.

The paper's positional study (sec:positionalapplications) with its satellites, all from one capture of each
variant of a prompt set: shifts of keys, the interaction of bands, phase and context under reordering,
deletion of demonstrations, precision repair. A calibration on prompts of its own fixes the layers, and the
test runs under its hashed policy. Nothing is filtered by what the model answers or by what an edit does.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

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
from finite_calculus.studies.positional import rows
from finite_calculus.studies.positional.calibration import decide_policy
from finite_calculus.studies.positional.figures import figures
from finite_calculus.studies.positional.replay import replay_unit
from finite_calculus.studies.positional.report import report
from finite_calculus.studies.positional.settings import (
    PositionalSettings as PositionalSettings,
    depths,
)

if TYPE_CHECKING:
    from torch import Tensor

    from finite_calculus.harness.subjects import ModelSubject
    from finite_calculus.tasks.set_tokens import SetTokens


class Positional(Study["PositionalSettings", "SetTokens"]):
    """The study as the harness runs it; what needs a model is imported when it runs."""

    name: ClassVar[str] = "positional"
    Settings = PositionalSettings
    stages: ClassVar[tuple[str, ...]] = ("calibration", "test")
    tables: ClassVar[Mapping[str, type[Row]]] = {
        "calibration": rows.Calibration,
        "edits": rows.PositionalEdit,
        "interactions": rows.BandInteraction,
        "reorderings": rows.Reordering,
        "deletions": rows.SpanDeletion,
        "repairs": rows.Repair,
    }

    def plan(
        self,
        subject: "ModelSubject",
        settings: PositionalSettings,
        stage: str,
        policy: Policy | None,
    ) -> "Plan[SetTokens]":
        """One unit for each prompt set of the stage."""
        from finite_calculus.studies.positional.plan import plan_sets

        return plan_sets(settings, stage, subject.tokenizer, subject.context)

    def run(
        self,
        subject: "ModelSubject",
        settings: PositionalSettings,
        unit: "SetTokens",
        policy: Policy | None,
    ) -> UnitResult:
        """Capture the variants of one set, predict and execute all that the stage asks of it."""
        from finite_calculus.studies.positional.unit import run_set

        return run_set(subject.instrument, settings, unit, policy)

    def decide(self, settings: PositionalSettings, stage: str, records: Records) -> Policy:
        """The layers of the test."""
        return decide_policy(records)

    def shared(self, subject: "ModelSubject", settings: PositionalSettings) -> "dict[str, Tensor]":
        """Output projections and rotary frequencies of all depths."""
        from finite_calculus.studies.positional.shared import layer_constants

        return layer_constants(subject.instrument, depths(subject.layers))

    def report(self, settings: PositionalSettings, records: Records) -> Iterable[Table]:
        """The paper's tables, and those that it leaves unmeasured."""
        return report(settings, records)

    def figures(self, settings: PositionalSettings, records: Records) -> Iterable[Figure]:
        """Predictions against executions, errors by angle and layer, certificates, and the parts."""
        return figures(settings, records)

    def replay(
        self, settings: Any, shared: Any, tensors: Any, tables: Tables
    ) -> Iterable[Comparison]:
        """Every prediction of shifts and deletions again, from the definition."""
        return replay_unit(shared, tensors, tables)


STUDY = Positional()
