"""Frozen settings of the search study."""

from typing import Annotated, ClassVar

from pydantic import Field

from finite_calculus.harness import Folder, ModelSettings, OptionName
from finite_calculus.studies.search.prompts import TASKS, Task
from finite_calculus.tasks.synthetic import PAPER_SEED


class SearchSettings(ModelSettings):
    """All candidates of every prompt, at every layer."""

    not_in_half: ClassVar[str] = "takes second derivatives: there they are rounding"
    study: str = "search"
    tasks: Annotated[
        tuple[Task, ...],
        OptionName("task"),
        Field(min_length=1, description="Kinds of prompts, repeatable; default: all four."),
    ] = TASKS
    prompts: Annotated[int, Field(ge=1, description="Prompts of each kind, at most four.")] = 4
    directions: Annotated[int, Field(ge=1, description="Directions of curvature a layer.")] = 16
    seed: Annotated[int, Field(ge=0, description="Seed of the prompts.")] = PAPER_SEED
    batch: Annotated[int, Field(ge=2, description="Executed rows with their control.")] = 257
    data: Annotated[
        Folder,
        Field(description="Folder with SST-2's train.tsv and dev.tsv; default: from the hub."),
    ] = None

    @property
    def folders(self) -> tuple[str, ...]:
        """SST-2 is read from a folder, or from the hub."""
        return ("data",) if "sst2" in self.tasks else ()
