"""Frozen settings of the reconstruction study: the paper's, cut to what the model's context allows."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from finite_calculus.harness import Folder, Layers, ModelSettings

Source = Literal["wikipedia", "addresses", "folder"]
# The paper prints no seed for its articles.
ARTICLE_SEED = 511
TOKENS = 511


class ReconstructionSettings(ModelSettings):
    """Prefixes of articles, and one-token continuations that read each."""

    not_in_half: ClassVar[str] = "follows the roundings of float32"
    study: str = "reconstruction"
    source: Annotated[
        Source,
        Field(
            description="wikipedia (106 articles from a package of PyPI, CC BY-SA), addresses (State of the "
            "Union, from npm) or folder (your own *.txt in --data)."
        ),
    ] = "wikipedia"
    layers: Annotated[Layers, Field(description="Layers; default: the last.")]
    contexts: Annotated[int, Field(ge=1, description="Articles.")] = 16
    tokens: Annotated[
        int, Field(ge=2, description="Tokens of a prefix; default: 511, or all that fit.")
    ] = TOKENS
    continuations: Annotated[
        int, Field(ge=2, description="Tokens that follow it: the observed one and the best others.")
    ] = 32
    seed: Annotated[int, Field(ge=0, description="Seed of the draw of articles.")] = ARTICLE_SEED
    batch: Annotated[int, Field(ge=2, description="Continuations that run at once.")] = 32
    data: Annotated[
        Folder, Field(description="Folder with texts in files *.txt, for --source folder.")
    ] = None

    @property
    def folders(self) -> tuple[str, ...]:
        """A user's own texts are read from a folder."""
        return ("data",) if self.source == "folder" else ()

    @classmethod
    def complete(cls, values: Mapping[str, Any], layers: int | None) -> "ReconstructionSettings":
        """The last layer, and a prefix that leaves room for one token."""
        from finite_calculus.checkpoints import architecture

        if layers is None:
            raise ValueError("The study needs a model; its depth is not known.")
        context = architecture(str(values["model"])).context
        filled = {"layers": (layers - 1,), "tokens": min(TOKENS, context - 1), **values}
        return cls.model_validate(filled)
