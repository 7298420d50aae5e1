"""Models by known name, folder or hub id: what there is, what is here, what it is, and `load`.

`load` alone imports transformers, and `architecture` does for what is not known by name.
"""

from typing import TYPE_CHECKING, Any

from finite_calculus.checkpoints.cache import cache_directory as cache_directory
from finite_calculus.checkpoints.configuration import architecture as architecture
from finite_calculus.checkpoints.embedded_files import training_record as training_record
from finite_calculus.checkpoints.errors import CheckpointError as CheckpointError
from finite_calculus.checkpoints.origin import Origin as Origin, origin_of as origin_of
from finite_calculus.checkpoints.registry import (
    KNOWN as KNOWN,
    Checkpoint as Checkpoint,
    checkpoint as checkpoint,
)
from finite_calculus.checkpoints.spec import resolve as resolve
from finite_calculus.checkpoints.status import (
    Listing as Listing,
    available as available,
    listing as listing,
)
from finite_calculus.checkpoints.text import require_tokenizer as require_tokenizer

if TYPE_CHECKING:
    from finite_calculus.checkpoints.loading import load as load


def __getattr__(name: str) -> Any:
    """`load` on first use, so that listing what there is needs no transformers."""
    if name != "load":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from finite_calculus.checkpoints.loading import load

    return load
