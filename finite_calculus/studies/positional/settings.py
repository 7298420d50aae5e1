"""Frozen settings of the positional study: the paper's design, and which tasks a model is asked."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from finite_calculus.harness import Folder, ModelSettings, OptionName
from finite_calculus.tasks.prompt_sets import PAPER_SEED

Task = Literal["corrupt", "ordered", "retrieval", "sst2"]
Family = Literal["decisive", "corrupt", "ordered", "retrieval", "sst2"]
BANDS = ("fast", "middle", "slow", "all")
# The embedded model is trained on these and knows no other words.
_EMBEDDED: tuple[Task, ...] = ("corrupt", "ordered", "retrieval")


class PositionalSettings(ModelSettings):
    """Calibration fixes layers, the test executes; what is not given is as in the paper."""

    not_in_half: ClassVar[str] = "takes second derivatives: there they are rounding"
    study: str = "positional"
    tasks: Annotated[
        tuple[Task, ...],
        OptionName("task"),
        Field(
            min_length=1,
            description="Tasks of the test, of corrupt, ordered, retrieval and sst2, repeatable; default: "
            "corrupt,ordered,sst2, and retrieval in place of sst2 for the embedded model.",
        ),
    ] = ("corrupt", "ordered", "sst2")
    families: Annotated[
        tuple[Family, ...],
        OptionName("family"),
        Field(
            min_length=1,
            description="Families of the calibration, repeatable; default: decisive and the tasks, for "
            "the embedded model its tasks.",
        ),
    ] = ("decisive", "corrupt", "ordered", "sst2")
    sets: Annotated[int, Field(ge=1, description="Prompt sets of the test, per task.")] = 256
    calibration_sets: Annotated[
        int, Field(ge=1, description="Prompt sets of the calibration, per family.")
    ] = 32
    shifts: Annotated[
        tuple[Annotated[int, Field(gt=0)], ...],
        Field(min_length=1, description="Shifts of the demonstrations' keys, as in 16,128."),
    ] = (16, 128)
    seed: Annotated[int, Field(ge=0, description="Seed of the prompts.")] = PAPER_SEED
    second_sets: Annotated[
        int,
        Field(
            ge=0,
            description="Sets of the test, per task, whose original order is also predicted to second order "
            "downstream, which takes a Hessian product for each edit.",
        ),
    ] = 64
    batch: Annotated[int, Field(ge=2, description="Executed rows with their control.")] = 64
    part_resamples: Annotated[
        int, Field(ge=1, description="Resamples for interaction, reordering and repair.")
    ] = 2000
    data: Annotated[
        Folder,
        Field(description="Folder with SST-2's train.tsv and dev.tsv; default: from the hub."),
    ] = None

    @model_validator(mode="after")
    def _require_distinct(self) -> "PositionalSettings":
        for name in ("tasks", "families", "shifts"):
            items = getattr(self, name)
            if len(set(items)) != len(items):
                raise ValueError(f"`{name}` must name each one once; got {items}.")
        return self

    @property
    def folders(self) -> tuple[str, ...]:
        """SST-2 is read from a folder, or from the hub."""
        return ("data",) if "sst2" in (*self.tasks, *self.families) else ()

    @classmethod
    def complete(cls, values: Mapping[str, Any], layers: int | None) -> "PositionalSettings":
        """Tasks by the model, families by the tasks."""
        embedded = values.get("model") == "embedded"
        default: tuple[str, ...] = _EMBEDDED if embedded else cls.model_fields["tasks"].default
        tasks = tuple(values.get("tasks", default))
        families = tasks if embedded else ("decisive", *tasks)
        return cls.model_validate({"tasks": tasks, "families": families, **values})


def depths(layers: int) -> tuple[int, ...]:
    """The calibrated layers: first, quarter, half, three quarters, last; 0, 7, 14, 21, 27 of 28."""
    return tuple(sorted({0, layers // 4, layers // 2, 3 * layers // 4, layers - 1}))
