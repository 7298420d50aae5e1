"""Known checkpoints: what there is, what is here, and `load`, which alone imports transformers."""

from typing import TYPE_CHECKING, Any

from finite_calculus.checkpoints.cache import cache_directory as cache_directory
from finite_calculus.checkpoints.embedded_files import training_record as training_record
from finite_calculus.checkpoints.errors import CheckpointError as CheckpointError
from finite_calculus.checkpoints.registry import (
    KNOWN as KNOWN,
    Checkpoint as Checkpoint,
    architecture as architecture,
    checkpoint as checkpoint,
)
from finite_calculus.checkpoints.status import (
    Listing as Listing,
    available as available,
    listing as listing,
)

if TYPE_CHECKING:
    from finite_calculus.checkpoints.loading import load as load


def __getattr__(name: str) -> Any:
    """`load` on first use, so that listing what there is needs no transformers."""
    if name != "load":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from finite_calculus.checkpoints.loading import load

    return load
