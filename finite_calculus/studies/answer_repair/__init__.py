"""Answers repaired by one attention edit: scored, executed, checked; how often, beside four controls?

A model is asked for a call of a small API, and its greedy answer is run through six executable checks. The
instrument's family of edits (15 kinds, every token, every layer) is ranked by the exact joint score along
the margin of a target that is supplied: the function with which a right answer begins. The best edits stay
installed while the model answers again. The search looks for one such case, logs every try and keeps the
first that is repaired: that one is adaptively selected and supports no claim of success. The rate is that
of a fixed family of other cases, with as many continuations for random edits, attention mass, first-order
scores and emphasis in the prompt. Answers are never given to eval (finite_calculus.expressions).
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

from finite_calculus.harness import Plan, Policy, Records, Row, Study, Table, UnitResult
from finite_calculus.studies.answer_repair import rows
from finite_calculus.studies.answer_repair.report import report
from finite_calculus.studies.answer_repair.selection import select_example
from finite_calculus.studies.answer_repair.settings import RepairSettings as RepairSettings

if TYPE_CHECKING:
    from finite_calculus.harness.subjects import ModelSubject
    from finite_calculus.studies.answer_repair.prompts import CasePrompt


class AnswerRepair(Study["RepairSettings", "CasePrompt"]):
    """The study as the harness runs it; what needs a model is imported when it runs."""

    name: ClassVar[str] = "answer-repair"
    Settings = RepairSettings
    stages: ClassVar[tuple[str, ...]] = ("search", "rate")
    tables: ClassVar[Mapping[str, type[Row]]] = {
        "cases": rows.Case,
        "continuations": rows.Continuation,
        "confirmation": rows.Confirmation,
    }

    def plan(
        self, subject: "ModelSubject", settings: RepairSettings, stage: str, policy: Policy | None
    ) -> "Plan[CasePrompt]":
        """One unit for each case; the rate's first unit confirms the case that the search selected."""
        from finite_calculus.studies.answer_repair.prompts import plan_cases

        prompts = plan_cases(settings, subject.tokenizer, subject.context, stage, policy)
        manifest = {"cases": [prompt.manifest() for prompt in prompts.values()]}
        return Plan(prompts, manifest, next(iter(prompts.values())).ids)

    def run(
        self,
        subject: "ModelSubject",
        settings: RepairSettings,
        unit: "CasePrompt",
        policy: Policy | None,
    ) -> UnitResult:
        """All branches of a case, or the confirmation of the selected one."""
        from finite_calculus.studies.answer_repair.confirmation import confirm_case
        from finite_calculus.studies.answer_repair.unit import run_case

        if unit.confirms and policy is not None:
            return confirm_case(subject.instrument, settings, unit, policy)
        return run_case(subject.instrument, settings, unit)

    def decide(self, settings: RepairSettings, stage: str, records: Records) -> Policy:
        """The first case of the search that its highest-ranked edit repairs, or none."""
        return select_example(records)

    def report(self, settings: RepairSettings, records: Records) -> Iterable[Table]:
        """Base rates, repairs with intervals, damage, the search and the confirmed example."""
        return report(settings, records)


STUDY = AnswerRepair()
