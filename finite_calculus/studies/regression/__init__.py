"""Attention blocks trained on linear regression, beside an independent one-step regression learner.

The paper's pilot (sec:regressionpilot): linear, softmax and RoPE–softmax attention under matched streams,
each held against a calibrated step of gradient descent by its predictions and by its query Jacobians; a
constructed positive control. Beside it, which the paper keeps apart, the exact effective-weight step of every
trained model (eq:gradient) and how far its direction agrees with the learner's. More seeds than the paper's
three, so that one that lies apart is seen in a distribution.
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
from finite_calculus.studies.regression import rows
from finite_calculus.studies.regression.replay import replay_unit
from finite_calculus.studies.regression.report import report
from finite_calculus.studies.regression.settings import RegressionSettings as RegressionSettings

if TYPE_CHECKING:
    from torch import Tensor

    from finite_calculus.harness.subjects import NoSubject
    from finite_calculus.studies.regression.unit import Job


class Regression(Study["RegressionSettings", "Job"]):
    """The study as the harness runs it; it needs no model and imports torch when it runs."""

    name: ClassVar[str] = "regression"
    Settings = RegressionSettings
    tables: ClassVar[Mapping[str, type[Row]]] = {
        "models": rows.Model,
        "validations": rows.Validation,
        "directions": rows.Direction,
    }

    def plan(
        self, subject: "NoSubject", settings: RegressionSettings, stage: str, policy: Policy | None
    ) -> "Plan[Job]":
        """The control, then every architecture under every seed."""
        from finite_calculus.studies.regression.unit import Job

        jobs = {"control": Job(rows.CONTROL, 0)}
        jobs |= {
            f"{architecture}-{seed:03d}": Job(architecture, seed)
            for seed in range(settings.seeds)
            for architecture in settings.architectures
        }
        return Plan(jobs, manifest={"models": list(jobs)})

    def run(
        self,
        subject: "NoSubject",
        settings: RegressionSettings,
        unit: "Job",
        policy: Policy | None,
    ) -> UnitResult:
        """Train one model and measure it."""
        from finite_calculus.studies.regression.unit import run_job

        return run_job(settings, unit)

    def shared(self, subject: "NoSubject", settings: RegressionSettings) -> "dict[str, Tensor]":
        """The episodes that every model is held against."""
        from finite_calculus.studies.regression.unit import held_out

        return {
            f"{name}.{part}": tensor
            for name, episodes in held_out(settings).items()
            for part, tensor in vars(episodes).items()
        }

    def report(self, settings: RegressionSettings, records: Records) -> Iterable[Table]:
        """The paper's table, the distribution over seeds, and the directions of the exact step."""
        return report(settings, records)

    def replay(
        self, settings: Any, shared: Any, tensors: Any, tables: Tables
    ) -> Iterable[Comparison]:
        """Everything held out again, in NumPy from the trained weights."""
        return replay_unit(settings, shared, tensors, tables)


STUDY = Regression()
