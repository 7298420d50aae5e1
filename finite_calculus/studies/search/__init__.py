"""Recall of a search against the whole truth: every candidate of a prompt executed.

Fifteen edits of every token at every layer, predicted by attention, value norm, first order, gradient ×
input, RelP, integrated gradients, the exact write, the second order downstream and what executed anchors
teach; all of them executed. Recall, regret, rank correlation, signs and errors follow from the records, and
the time to find the largest effects, set-up charged, beside the time of executing everything.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

from finite_calculus.harness import Figure, Plan, Policy, Records, Row, Study, Table, UnitResult
from finite_calculus.studies.search.figures import figures
from finite_calculus.studies.search.report import report
from finite_calculus.studies.search.rows import Candidate, Cost, Execution, Place
from finite_calculus.studies.search.settings import SearchSettings

if TYPE_CHECKING:
    from finite_calculus.harness.subjects import ModelSubject
    from finite_calculus.studies.search.prompts import SearchPrompt


class Search(Study["SearchSettings", "SearchPrompt"]):
    """One unit for each prompt. Its costs are timings, so two runs differ in them."""

    name: ClassVar[str] = "search"
    Settings = SearchSettings
    tables: ClassVar[Mapping[str, type[Row]]] = {
        "candidates": Candidate,
        "places": Place,
        "executions": Execution,
        "costs": Cost,
    }
    repeatable: ClassVar[bool] = False

    def plan(
        self, subject: "ModelSubject", settings: SearchSettings, stage: str, policy: Policy | None
    ) -> "Plan[SearchPrompt]":
        """The first prompts of every kind, in turn."""
        from finite_calculus.studies.search.prompts import search_prompts

        prompts, manifest = search_prompts(
            settings.tasks,
            settings.prompts,
            subject.tokenizer,
            subject.context,
            seed=settings.seed,
            data=settings.data,
        )
        return Plan({prompt.unit: prompt for prompt in prompts}, manifest, prompts[0].ids)

    def run(
        self,
        subject: "ModelSubject",
        settings: SearchSettings,
        unit: "SearchPrompt",
        policy: Policy | None,
    ) -> UnitResult:
        """Predict and execute all candidates of one prompt."""
        from finite_calculus.studies.search.unit import run_prompt

        return run_prompt(subject.instrument, settings, unit)

    def report(self, settings: SearchSettings, records: Records) -> Iterable[Table]:
        """Tables from every candidate."""
        return report(settings, records)

    def figures(self, settings: SearchSettings, records: Records) -> Iterable[Figure]:
        """Predictions against executions, errors by layer and kind, recall against cost."""
        return figures(records)


STUDY = Search()
