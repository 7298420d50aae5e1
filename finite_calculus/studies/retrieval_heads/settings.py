"""Frozen settings of the study of retrieval heads."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from finite_calculus.harness import ModelSettings, OptionName
from finite_calculus.tasks.prompt_sets import PAPER_SEED

Task = Literal["retrieval", "ordered", "colours"]
# One head in twenty counts as a retrieval head, unless the settings say how many.
_SHARE = 20


class HeadSettings(ModelSettings):
    """Heads are chosen on prompts of the calibration's stream, edits executed on those of the test."""

    study: str = "retrieval-heads"
    tasks: Annotated[
        tuple[Task, ...],
        OptionName("task"),
        Field(
            min_length=1,
            description="retrieval, ordered and colours, repeatable; default: all, for the embedded "
            "model the first two.",
        ),
    ] = ("retrieval", "ordered", "colours")
    heads: Annotated[
        int, Field(ge=1, description="How many retrieval heads; default: one in twenty.")
    ]
    find_sets: Annotated[int, Field(ge=1, description="Prompts per task to find heads on.")] = 32
    sets: Annotated[int, Field(ge=1, description="Prompts per task to edit.")] = 64
    seed: Annotated[int, Field(ge=0, description="Seed of prompts and random planes.")] = PAPER_SEED
    batch: Annotated[int, Field(ge=2, description="Executed rows with their control.")] = 32

    @classmethod
    def complete(cls, values: Mapping[str, Any], layers: int | None) -> "HeadSettings":
        """The tasks and the number of heads by the model."""
        if "tasks" not in values and values.get("model") == "embedded":
            values = {"tasks": ("retrieval", "ordered"), **values}
        if "heads" in values:
            return cls.model_validate(dict(values))
        from finite_calculus.checkpoints import architecture

        if layers is None:
            raise ValueError("The study needs a model; its depth is not known.")
        total = layers * architecture(str(values["model"])).heads
        return cls.model_validate({"heads": max(2, round(total / _SHARE)), **values})
