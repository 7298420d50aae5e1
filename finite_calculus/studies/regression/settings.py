"""Frozen settings of the regression study: the paper's pilot, with more seeds than its three."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from finite_calculus.harness import OptionName, StudySettings

Architecture = Literal["linear", "softmax", "rope"]
ARCHITECTURES: tuple[Architecture, ...] = ("linear", "softmax", "rope")
# The paper prints no seed for its episodes.
EPISODE_SEED = 5


class RegressionSettings(StudySettings):
    """Every architecture under every training seed; the widths are those of the paper."""

    study: str = "regression"
    architectures: Annotated[
        tuple[Architecture, ...],
        OptionName("architecture"),
        Field(min_length=1, description="linear, softmax and rope, repeatable; default: all."),
    ] = ARCHITECTURES
    seeds: Annotated[int, Field(ge=1, description="Training seeds, from 0.")] = 32
    steps: Annotated[int, Field(ge=1, description="Steps of AdamW.")] = 2000
    rate: Annotated[float, Field(gt=0, description="Its learning rate; weights do not decay.")] = (
        0.003
    )
    batch: Annotated[int, Field(ge=1, description="Fresh episodes of a step.")] = 128
    clip: Annotated[float, Field(gt=0, description="Largest norm of a gradient.")] = 1.0
    every: Annotated[int, Field(ge=1, description="Steps between validations.")] = 200
    validation: Annotated[int, Field(ge=1, description="Validation episodes.")] = 128
    test: Annotated[int, Field(ge=1, description="Test episodes.")] = 256
    queries: Annotated[int, Field(ge=1, description="Queries of a held-out episode.")] = 8
    diagnostics: Annotated[
        int, Field(ge=1, description="Test episodes, the first, whose Jacobians are taken.")
    ] = 16
    seed: Annotated[int, Field(ge=0, description="Seed of held-out and training episodes.")] = (
        EPISODE_SEED
    )

    @model_validator(mode="after")
    def _require_consistent(self) -> "RegressionSettings":
        if self.every > self.steps:
            raise ValueError(
                f"`every` must not exceed the {self.steps} steps, or no model is ever chosen; "
                f"got {self.every}."
            )
        if self.diagnostics > self.test:
            raise ValueError(
                f"`diagnostics` must not exceed the {self.test} test episodes; got {self.diagnostics}."
            )
        if len(set(self.architectures)) != len(self.architectures):
            raise ValueError(
                f"`architectures` must name each one once; got {', '.join(self.architectures)}."
            )
        return self
