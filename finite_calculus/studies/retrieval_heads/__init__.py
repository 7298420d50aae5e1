"""Rotary planes of retrieval heads set to zero: does recall hang on the slowest ones?

Zeroing the lowest-frequency rotary dimensions of retrieval heads is reported elsewhere to cut recall, where
random dimensions do not. The first stage finds the heads that attend to the record with the answer; the
second sets bands of their planes to zero on other prompts, on those heads alone, and on as many others.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

from finite_calculus.harness import Plan, Policy, Records, Row, Study, Table, UnitResult
from finite_calculus.studies.retrieval_heads import rows
from finite_calculus.studies.retrieval_heads.finding import choose_heads
from finite_calculus.studies.retrieval_heads.report import report
from finite_calculus.studies.retrieval_heads.settings import HeadSettings as HeadSettings

if TYPE_CHECKING:
    from finite_calculus.harness.subjects import ModelSubject
    from finite_calculus.studies.retrieval_heads.prompts import HeadPrompt


class RetrievalHeads(Study["HeadSettings", "HeadPrompt"]):
    """The study as the harness runs it; what needs a model is imported when it runs."""

    name: ClassVar[str] = "retrieval-heads"
    Settings = HeadSettings
    stages: ClassVar[tuple[str, ...]] = ("find", "edit")
    tables: ClassVar[Mapping[str, type[Row]]] = {
        "scores": rows.HeadScore,
        "recalls": rows.Recall,
        "single_layers": rows.SingleLayer,
    }

    def plan(
        self, subject: "ModelSubject", settings: HeadSettings, stage: str, policy: Policy | None
    ) -> "Plan[HeadPrompt]":
        """One unit for each prompt, tasks in turn: calibration prompts find heads, test prompts edit them."""
        from finite_calculus.studies.retrieval_heads.prompts import head_prompts

        find = stage == "find"
        count = settings.find_sets if find else settings.sets
        prompts = [
            prompt
            for task in settings.tasks
            for prompt in head_prompts(
                task,
                "calibration" if find else "test",
                count,
                subject.tokenizer,
                subject.context,
                seed=settings.seed,
            )
        ]
        manifest = {"prompts": [prompt.manifest() for prompt in prompts]}
        # Tasks in turn, so that a part of a run is a balanced one; sorting is stable.
        turns = sorted(prompts, key=lambda prompt: prompt.index)
        return Plan({prompt.unit: prompt for prompt in turns}, manifest, prompts[0].ids)

    def run(
        self,
        subject: "ModelSubject",
        settings: HeadSettings,
        unit: "HeadPrompt",
        policy: Policy | None,
    ) -> UnitResult:
        """Score the heads on a prompt, or edit those that the first stage chose."""
        from finite_calculus.studies.retrieval_heads.finding import score_heads
        from finite_calculus.studies.retrieval_heads.unit import run_prompt

        if policy is None:
            return UnitResult({"scores": score_heads(subject.instrument, unit)}, [])
        return run_prompt(subject.instrument, settings, unit, policy)

    def decide(self, settings: HeadSettings, stage: str, records: Records) -> Policy:
        """Which heads are retrieval heads, and which others stand beside them."""
        return choose_heads(settings, records)

    def report(self, settings: HeadSettings, records: Records) -> Iterable[Table]:
        """Heads, recall, and predictions a layer at a time."""
        return report(settings, records)


STUDY = RetrievalHeads()
