"""Effective weights of a pretrained layer against its attention, at one-token continuations of articles.

The paper's reconstruction (sec:reconstruction): every query head of a late layer, the observed next token and
the best others after one prefix; prefix-only and causal readouts, the self-mass relation, the combined write
against the model's own float32. Then what a frozen matrix omits: the effective matrix of the observed
continuation reused for the others, head by head, and the tokenwise correction (eq:tokenerror).
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from finite_calculus.harness import (
    Comparison,
    Plan,
    Policy,
    Records,
    Row,
    Study,
    Table,
    Tables,
    UnitResult,
)
from finite_calculus.studies.reconstruction import rows
from finite_calculus.studies.reconstruction.replay import replay_unit
from finite_calculus.studies.reconstruction.report import report
from finite_calculus.studies.reconstruction.settings import (
    ReconstructionSettings as ReconstructionSettings,
)

if TYPE_CHECKING:
    from torch import Tensor

    from finite_calculus.harness.subjects import ModelSubject
    from finite_calculus.studies.reconstruction.unit import Context


class ReconstructionStudy(Study["ReconstructionSettings", "Context"]):
    """The study as the harness runs it; what needs a model is imported when it runs."""

    name: ClassVar[str] = "reconstruction"
    Settings = ReconstructionSettings
    tables: ClassVar[Mapping[str, type[Row]]] = {
        "reconstructions": rows.Reconstruction,
        "frozen": rows.Frozen,
    }

    def plan(
        self,
        subject: "ModelSubject",
        settings: ReconstructionSettings,
        stage: str,
        policy: Policy | None,
    ) -> "Plan[Context]":
        """One unit for each article."""
        from finite_calculus.studies.reconstruction.plan import plan_contexts

        return plan_contexts(settings, subject.tokenizer, subject.context)

    def run(
        self,
        subject: "ModelSubject",
        settings: ReconstructionSettings,
        unit: "Context",
        policy: Policy | None,
    ) -> UnitResult:
        """Reconstruct every head at every continuation of one article."""
        from finite_calculus.studies.reconstruction.unit import run_context

        return run_context(subject.instrument, settings, unit)

    def shared(
        self, subject: "ModelSubject", settings: ReconstructionSettings
    ) -> "dict[str, Tensor]":
        """Projections and rotary frequencies of the studied layers."""
        from finite_calculus.studies.reconstruction.plan import layer_constants

        return layer_constants(subject.instrument, settings.layers)

    def report(self, settings: ReconstructionSettings, records: Records) -> Iterable[Table]:
        """The paper's figures beside their bounds, and the frozen matrices."""
        return report(settings, records)

    def replay(
        self, settings: Any, shared: Any, tensors: Any, tables: Tables
    ) -> Iterable[Comparison]:
        """Sizes, masses and frozen errors again, from the definition."""
        return replay_unit(settings, shared, tensors, tables)


STUDY = ReconstructionStudy()
