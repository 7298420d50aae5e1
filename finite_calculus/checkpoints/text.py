"""Whether a model can be given text: a folder or repository may come without a tokenizer."""

from typing import Any, TypeVar

from finite_calculus.checkpoints.errors import CheckpointError
from finite_calculus.checkpoints.origin import origin_of

T = TypeVar("T")


def require_tokenizer(model: Any, tokenizer: T | None) -> T:
    """The tokenizer that `load` gave with a model; where it gave None, token ids alone would work."""
    if tokenizer is None:
        origin = origin_of(model)
        label = type(model).__name__ if origin is None else origin.label
        raise CheckpointError(
            f"{label} has no tokenizer, and a prompt is text. "
            f"Save its tokenizer beside the model with save_pretrained."
        )
    return tokenizer
