"""The files of the embedded checkpoint: where they are, and that they are the trained ones."""

import json
from pathlib import Path
from typing import Any

from finite_calculus.checkpoints.cache import sha256_of
from finite_calculus.checkpoints.errors import CheckpointError


def embedded_directory() -> Path:
    """Model, tokenizer and training record, as the package carries them."""
    return Path(__file__).parent / "embedded"


def training_record() -> dict[str, Any]:
    """Settings, losses, held-out accuracies, versions and hashes of the training."""
    return json.loads((embedded_directory() / "training.json").read_text())


def verify_embedded() -> None:
    """Refuse files that differ from those that the training record was written for."""
    for name, pinned in training_record()["sha256"].items():
        path = embedded_directory() / name
        actual = sha256_of(path) if path.exists() else "none: it is missing"
        if actual != pinned:
            raise CheckpointError(
                f"{path} must have the sha256 of its training record, {pinned}; got {actual}. "
                f"Install finite-calculus again, or train anew with bench/train_embedded.py."
            )
