"""Frozen settings of the joint key–value study: the paper's designs, and other places on other models."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from finite_calculus.harness import Folder, Layers, ModelSettings, OptionName, require_layers
from finite_calculus.tasks.synthetic import PAPER_SEED

Task = Literal["retrieval", "sst2"]
Design = Literal["supplement", "initial"]
TASKS: tuple[Task, ...] = ("retrieval", "sst2")
# Layers of the supplement, by the paper; for other models a quarter, half and three quarters deep.
PAPER_LAYERS = {"qwen2.5-0.5b-instruct": (18,), "qwen2.5-1.5b-instruct": (14, 21)}
# Four patched rows and a control in the supplement; all 24 patches of a prompt in the initial run.
BATCH = {"supplement": 5, "initial": 32}
STRENGTHS = (0.1, 0.5)


@dataclass(frozen=True)
class Place:
    """A task and a layer; joint edits run at every strength, the other kinds at 1 only."""

    task: Task
    layer: int
    strengths: tuple[float, ...]


class JointKVSettings(ModelSettings):
    """Every task at every layer; strengths below 1 are swept at the deepest layer of the first task."""

    not_in_half: ClassVar[str] = "takes second derivatives: there they are rounding"
    study: str = "joint-kv"
    design: Annotated[
        Design, Field(description="supplement (several layers and tasks) or initial (one layer).")
    ] = "supplement"
    tasks: Annotated[
        tuple[Task, ...],
        OptionName("task"),
        Field(min_length=1, description="retrieval or sst2, repeatable; default: the design's."),
    ]
    layers: Annotated[
        Layers,
        Field(description="Layers as in 7,15,22, or all; default: the design's."),
    ]
    strengths: Annotated[
        tuple[Annotated[float, Field(gt=0, lt=1)], ...],
        Field(description="Strengths below 1 as in 0.1,0.5, or none; default: the design's."),
    ] = ()
    pairs: Annotated[int, Field(ge=1, description="Prompt pairs per task.")] = 32
    seed: Annotated[int, Field(ge=0, description="Seed of the prompts.")] = PAPER_SEED
    batch: Annotated[
        int, Field(ge=2, description="Executed rows with their control; default: the design's.")
    ] = BATCH["supplement"]
    data: Annotated[
        Folder,
        Field(description="Folder with SST-2's train.tsv and dev.tsv; default: from the hub."),
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _from_places(cls, values: Any) -> Any:
        """Settings of the first version listed every place; each list was a product of tasks and layers."""
        if not isinstance(values, Mapping) or "places" not in values:
            return values
        places = values["places"]
        kept = {name: value for name, value in values.items() if name != "places"}
        strengths = {s for place in places for s in place["strengths"] if s != 1}
        return {
            **kept,
            "tasks": tuple(dict.fromkeys(place["task"] for place in places)),
            "layers": tuple(sorted({place["layer"] for place in places})),
            "strengths": tuple(sorted(strengths)),
        }

    @model_validator(mode="after")
    def _require_distinct(self) -> "JointKVSettings":
        if len(set(self.tasks)) != len(self.tasks):
            raise ValueError(f"`tasks` must name each one once; got {', '.join(self.tasks)}.")
        return self

    @property
    def folders(self) -> tuple[str, ...]:
        """SST-2 is read from a folder, or from the hub."""
        return ("data",) if "sst2" in self.tasks else ()

    @property
    def places(self) -> tuple[Place, ...]:
        """Every task at every layer, by layer."""
        swept = (self.tasks[0], max(self.layers))
        return tuple(
            Place(task, layer, (1.0, *self.strengths) if (task, layer) == swept else (1.0,))
            for task in self.tasks
            for layer in sorted(self.layers)
        )

    def at(self, task: str) -> tuple[Place, ...]:
        """The places of one task, by layer."""
        return tuple(place for place in self.places if place.task == task)

    @classmethod
    def complete(cls, values: Mapping[str, Any], layers: int | None) -> "JointKVSettings":
        """What is not given is as in the paper's design."""
        if layers is None:
            raise ValueError("The joint study needs a model; its depth is not known.")
        design, model = values.get("design", "supplement"), str(values.get("model", ""))
        if design not in BATCH:
            raise ValueError(f"`design` must be supplement or initial; got {design!r}.")
        chosen = values.get("layers", _design_layers(model, design, layers))
        filled = {
            "tasks": TASKS if design == "supplement" else TASKS[:1],
            "strengths": () if design == "initial" or "0.5b" in model else STRENGTHS,
            "batch": BATCH[design],
            **values,
            "layers": tuple(sorted(set(chosen))),
        }
        settings = cls.model_validate(filled)
        require_layers(settings, layers)
        return settings


def joint_settings(model: str, *, depth: int | None = None, **values: Any) -> JointKVSettings:
    """Settings of a design on a model; what is not given is as in the paper."""
    if depth is None:
        from finite_calculus.checkpoints import architecture

        depth = architecture(model).layers
    return JointKVSettings.complete({"model": model, **values}, depth)


def _design_layers(model: str, design: str, depth: int) -> tuple[int, ...]:
    if design == "initial":
        return (3 * depth // 4,)
    return PAPER_LAYERS.get(model, tuple(dict.fromkeys((depth // 4, depth // 2, 3 * depth // 4))))
