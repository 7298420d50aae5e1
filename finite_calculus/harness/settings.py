"""Frozen settings of a study: what was decided before the run, in one canonical form.

Unknown keys are rejected and nothing can be changed afterwards, so that the canonical text of the
settings can be part of a run's fingerprint. A field is also an option of `finite-calculus run STUDY`: its
description is the help, and its value is what the command that reproduces the run says.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    field_serializer,
    model_serializer,
    model_validator,
)


class Frozen(BaseModel):
    """A record that cannot be changed and takes no key that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class LayerList:
    """Marks a field of layers: written as in 7,15 or 0-3, or `all` of the model's."""


def _distinct(layers: tuple[int, ...]) -> tuple[int, ...]:
    if not layers or len(set(layers)) != len(layers):
        raise ValueError(f"`layers` must name at least one layer, each once; got {layers}.")
    return layers


class OptionName:
    """Marks a field whose option has another name than the field."""

    def __init__(self, name: str) -> None:
        self.name = name


# As `finite_calculus.models.precision` knows them; settings are read without torch.
Dtype = Literal["float32", "bfloat16", "float16", "float64"]
# Numbers of layers as a setting, typed as `0,3,7-9` or `all`; none twice.
Layers = Annotated[tuple[int, ...], LayerList(), AfterValidator(_distinct)]
# A place on the user's machine: an option, but no setting. What is read from it is hashed in the plan.
Folder = Annotated[Path | None, Field(exclude=True)]


class StudySettings(Frozen):
    """What every study decides beforehand, beside its own name in `study`.

    The bootstrap is the paper's: percentile intervals of 5,000 resamples of the prompts.
    """

    study: str
    seed: Annotated[int, Field(ge=0, description="Seed of everything that is drawn.")]
    captures: Annotated[bool, Field(description="Keep the tensors that `replay` needs.")] = True
    resamples: Annotated[int, Field(ge=1, description="Resamples of the bootstrap.")] = 5000
    coverage: Annotated[float, Field(gt=0, lt=1, description="Coverage of its intervals.")] = 0.95
    bootstrap_seed: Annotated[int, Field(ge=0, description="Seed of the bootstrap.")] = 981

    @property
    def title(self) -> str:
        """What a summary says it is of."""
        return self.study

    @property
    def folders(self) -> tuple[str, ...]:
        """Fields of the `Folder` kind that these settings need."""
        return ()

    def with_places(self) -> dict[str, Any]:
        """All fields as plain data, those included that name a place on this machine and are not saved."""
        fields = type(self).model_fields.items()
        places = {name: getattr(self, name) for name, field in fields if field.exclude}
        named = {name: str(path) for name, path in places.items() if path is not None}
        return {**self.model_dump(mode="json"), **named}

    @classmethod
    def complete(cls, values: Mapping[str, Any], layers: int | None) -> "StudySettings":
        """Settings from what a user gave; a study overrides it to fill what depends on the model.

        `layers` is the depth of the model, None for a study without one.
        """
        return cls.model_validate(dict(values))


class ModelSettings(StudySettings):
    """Settings of a study on a native model.

    `batch` counts executed rows with their control: rounding depends on it, so it is a setting. So does
    `dtype`; where it is float32 it is not written, as in runs from before there was a choice.
    """

    # Why the study refuses half precision, if it does: what follows "which".
    not_in_half: ClassVar[str] = ""

    model: Annotated[
        str,
        Field(
            description="A name that `finite-calculus models` lists, a folder, or a hub id[@revision]."
        ),
    ]
    batch: Annotated[int, Field(ge=2, description="Executed rows with their control.")]
    dtype: Annotated[Dtype, Field(description="What the model computes in.")] = "float32"

    @property
    def title(self) -> str:
        """The study, its model, and the precision where it is another than float32."""
        title = f"{self.study} on {portable_model(self.model)}"
        return title if self.dtype == "float32" else f"{title} in {self.dtype}"

    def with_places(self) -> dict[str, Any]:
        """As above, with the model where it lies."""
        return {**super().with_places(), "model": self.model}

    @model_validator(mode="after")
    def _fine_enough(self) -> "ModelSettings":
        if self.not_in_half and self.dtype in ("bfloat16", "float16"):
            raise ValueError(
                f"`dtype` must be float32 or float64 for {self.study}, which {self.not_in_half}; got "
                f"{self.dtype}."
            )
        return self

    @model_serializer(mode="wrap")
    def _saved(self, fields: Any) -> dict[str, Any]:
        saved = fields(self)
        if saved.get("dtype") == "float32":
            del saved["dtype"]
        return saved

    @field_serializer("model")
    def _saved_model(self, model: str) -> str:
        return portable_model(model)


def require_layers(settings: StudySettings, depth: int) -> None:
    """Refuse a layer that the model has not, in any field of layers."""
    for name, field in type(settings).model_fields.items():
        if any(isinstance(note, LayerList) for note in field.metadata):
            wrong = [layer for layer in getattr(settings, name) if layer not in range(depth)]
            if wrong:
                model = getattr(settings, "model", "the model")
                raise ValueError(f"`{name}` must lie in 0..{depth - 1} of {model}; got {wrong}.")


def portable_model(model: str) -> str:
    """A model as records name it: of a folder only its own name, not where it lies on this machine."""
    path = Path(model).expanduser()
    is_folder = model.startswith((".", "~")) or path.is_absolute() or path.is_dir()
    return f"./{path.resolve().name}" if is_folder else model
