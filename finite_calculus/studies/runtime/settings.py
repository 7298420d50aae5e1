"""Frozen settings of the runtime study: the paper's seven cases."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from finite_calculus.harness import Layers, ModelSettings
from finite_calculus.studies.runtime.timing import AT_LEAST, ROUNDS
from finite_calculus.tasks.synthetic import PAPER_SEED

_PAPER_LAYER = {"qwen2.5-1.5b-instruct": 21}
Positive = Annotated[int, Field(ge=1)]


class RuntimeSettings(ModelSettings):
    """A native capture of the first retrieval pair, and synthetic banks of the paper's shape."""

    study: str = "runtime"
    layers: Annotated[
        Layers, Field(description="Layers of native captures; default: three quarters deep.")
    ]
    tokens: Annotated[tuple[Positive, ...], Field(description="Tokens of synthetic banks.")] = (
        128,
        1024,
        8192,
    )
    candidates: Annotated[
        tuple[Positive, ...], Field(description="Candidate spans, eight tokens each.")
    ] = (8, 256)
    rounds: Annotated[int, Field(ge=1, description="Rounds in random order.")] = ROUNDS
    at_least: Annotated[float, Field(ge=0, description="Seconds of one measurement.")] = AT_LEAST
    seed: Annotated[int, Field(ge=0, description="Seed of the retrieval pair.")] = PAPER_SEED
    batch: Annotated[int, Field(ge=2, description="Not used: no edit is executed.")] = 2

    @classmethod
    def complete(cls, values: Mapping[str, Any], layers: int | None) -> "RuntimeSettings":
        """The paper's layer, or one three quarters deep."""
        if layers is None:
            raise ValueError("The study needs a model; its depth is not known.")
        layer = _PAPER_LAYER.get(str(values.get("model")), 3 * layers // 4)
        return cls.model_validate({"layers": (layer,), **values})
