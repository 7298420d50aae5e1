"""Processor time of predicting and executing positional edits, against plain forward passes.

What the positional study costs, part by part: prefix, last token with its gradient, prediction, execution,
checks; beside it the time of one forward pass over the whole prompt, which is what executing an edit takes
without any of this. Timings: another run gives other numbers.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from finite_calculus.harness import (
    Folder,
    Layers,
    ModelSettings,
    OptionName,
    Plan,
    Policy,
    Records,
    Row,
    Study,
    Table,
    UnitResult,
)
from finite_calculus.studies.positional_cost.report import report
from finite_calculus.studies.positional_cost.rows import Cost
from finite_calculus.tasks.prompt_sets import PAPER_SEED

if TYPE_CHECKING:
    from finite_calculus.harness.subjects import ModelSubject
    from finite_calculus.tasks.set_tokens import SetTokens

Task = Literal["corrupt", "ordered", "retrieval", "sst2"]


class CostSettings(ModelSettings):
    """Sets of the test's stream, at the paper's depths."""

    study: str = "positional-cost"
    tasks: Annotated[
        tuple[Task, ...],
        OptionName("task"),
        Field(min_length=1, description="Tasks as in the positional study; default: the same."),
    ]
    layers: Annotated[Layers, Field(description="Layers; default: first, half, three quarters.")]
    sets: Annotated[int, Field(ge=1, description="Prompt sets per task.")] = 8
    shifts: Annotated[
        tuple[Annotated[int, Field(gt=0)], ...], Field(min_length=1, description="Shifts of keys.")
    ] = (16, 128)
    seed: Annotated[int, Field(ge=0, description="Seed of the prompts.")] = PAPER_SEED
    batch: Annotated[int, Field(ge=2, description="Executed rows with their control.")] = 64
    data: Annotated[
        Folder,
        Field(description="Folder with SST-2's train.tsv and dev.tsv; default: from the hub."),
    ] = None

    @property
    def folders(self) -> tuple[str, ...]:
        """SST-2 is read from a folder, or from the hub."""
        return ("data",) if "sst2" in self.tasks else ()

    @classmethod
    def complete(cls, values: Mapping[str, Any], layers: int | None) -> "CostSettings":
        """Tasks by the model, layers by its depth."""
        if layers is None:
            raise ValueError("The study needs a model; its depth is not known.")
        third = "retrieval" if values.get("model") == "embedded" else "sst2"
        tasks = ("corrupt", "ordered", third)
        depths = tuple(sorted({0, layers // 2, 3 * layers // 4}))
        return cls.model_validate({"tasks": tasks, "layers": depths, **values})


class PositionalCost(Study["CostSettings", "SetTokens"]):
    """One unit for each prompt set; its variants are timed one after the other."""

    name: ClassVar[str] = "positional-cost"
    Settings = CostSettings
    tables: ClassVar[Mapping[str, type[Row]]] = {"costs": Cost}
    repeatable: ClassVar[bool] = False

    def plan(
        self, subject: "ModelSubject", settings: CostSettings, stage: str, policy: Policy | None
    ) -> "Plan[SetTokens]":
        """The first sets of the test's stream."""
        from finite_calculus.tasks.set_plans import tokenised_sets

        sets, manifest = tokenised_sets(
            settings.tasks,
            "test",
            {"calibration": 0, "test": settings.sets},
            subject.tokenizer,
            subject.context,
            seed=settings.seed,
            data=settings.data,
        )
        return Plan(sets, manifest, next(iter(sets.values())).variants[0].ids)

    def run(
        self,
        subject: "ModelSubject",
        settings: CostSettings,
        unit: "SetTokens",
        policy: Policy | None,
    ) -> UnitResult:
        """Time one set."""
        from finite_calculus.studies.positional_cost.unit import time_set

        rows, check = time_set(
            subject.instrument, unit, settings.layers, settings.shifts, settings.batch
        )
        return UnitResult({"costs": rows}, [check])

    def report(self, settings: CostSettings, records: Records) -> Iterable[Table]:
        """Seconds of an edit by part, and what a plain pass takes."""
        return report(records)


STUDY = PositionalCost()
