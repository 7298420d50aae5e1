"""The architecture of any model, from its configuration and without its weights."""

import os
from pathlib import Path
from typing import Any

from finite_calculus.checkpoints import folder as folders
from finite_calculus.checkpoints.errors import CheckpointError
from finite_calculus.checkpoints.registry import Architecture, Checkpoint
from finite_calculus.checkpoints.spec import Folder, resolve

# What the families of transformers call the longest sequence, most usual first.
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx")


def architecture(spec: str | os.PathLike[str], *, cache: Path | str | None = None) -> Architecture:
    """Layers, heads and context of a model by name, folder or hub id; of the hub, config.json is fetched."""
    source = resolve(spec)
    if isinstance(source, Checkpoint):
        return source.architecture
    if isinstance(source, Folder):
        folders.require_model(source.path)
        return _read(source.path, str(source.path))
    from finite_calculus.checkpoints.hub import snapshot

    return _read(snapshot(source, cache=cache, config_only=True).folder, str(spec))


def of_config(config: Any, what: str) -> Architecture:
    """The facts that a configuration of transformers states; `what` names the model in an error."""
    config = config.get_text_config(decoder=True)
    layers = _count(config, what, "num_hidden_layers")
    heads = _count(config, what, "num_attention_heads")
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    return Architecture(
        family=config.model_type,
        layers=layers,
        heads=heads,
        groups=getattr(config, "num_key_value_heads", None) or heads,
        head_width=width,
        theta=_theta(config),
        context=_count(config, what, *_CONTEXT),
        biases=getattr(config, "attention_bias", None),
    )


def _read(folder: Path, what: str) -> Architecture:
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    # The file is somebody else's: transformers answers odd values with errors of every kind.
    except Exception as error:
        words = " ".join(str(error).split()) or type(error).__name__
        raise CheckpointError(
            f"transformers does not know the configuration of {what}: {words}"
        ) from error
    return of_config(config, what)


def _count(config: Any, what: str, *names: str) -> int:
    values = (getattr(config, name, None) for name in names)
    number = next((value for value in values if isinstance(value, int) and value > 0), None)
    if number is None:
        raise CheckpointError(
            f"The configuration of {what} ({config.model_type}) must state {' or '.join(names)} as a "
            f"positive number; it does not. Add it to config.json in a folder of your own."
        )
    return number


def _theta(config: Any) -> float | None:
    """The base of the rotary frequencies; where layers differ, that of full attention."""
    parameters = getattr(config, "rope_parameters", None) or {}
    parameters = parameters.get("full_attention", parameters)
    return parameters.get("rope_theta") if isinstance(parameters, dict) else None
