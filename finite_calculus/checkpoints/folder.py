"""What a folder in Hugging Face form must hold: a configuration without code, and safetensors.

Only names and config.json are looked at; transformers reads the rest.
"""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from finite_calculus.checkpoints.errors import CheckpointError
from finite_calculus.provenance.files import read_text

CONFIG = "config.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
# Every file that a tokenizer of transformers may be read from; each is optional.
TOKENIZER = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "merges.txt", "vocab.txt", "tokenizer.model", "chat_template.jinja"),
)
# One of these is enough to read a tokenizer.
VOCABULARIES = ("tokenizer.json", "vocab.json", "vocab.txt", "tokenizer.model")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt")
# Weights in other files than those that are read: large, and never opened.
OTHER_WEIGHTS = (*_PICKLES, ".safetensors", ".gguf", ".h5", ".msgpack", ".onnx")


def require_model(folder: Path) -> None:
    """Refuse a folder that no model can be loaded from, before anything heavy is tried."""
    if not folder.is_dir():
        kind = "is a file" if folder.exists() else "does not exist"
        raise CheckpointError(
            f"A model must be in a folder with {CONFIG} and safetensors; {folder} {kind}. "
            f"Give the folder that `save_pretrained` wrote."
        )
    names = {path.name for path in folder.iterdir()}
    require_config(names, str(folder))
    read_config(folder / CONFIG)
    weights_file(names, str(folder))


def require_config(names: Collection[str], where: str) -> None:
    """The configuration must be there, and no adapter.

    Beside a configuration, transformers would follow an adapter to whatever model that names.
    """
    if "adapter_config.json" in names:
        raise CheckpointError(
            f"{where} holds an adapter (adapter_config.json), whose model is another one. Merge the two "
            f"with peft's merge_and_unload, and save the result alone with save_pretrained."
        )
    if CONFIG not in names:
        raise CheckpointError(
            f"{where} has no {CONFIG}, so that its architecture is unknown. "
            f"Save the model with save_pretrained, which writes it."
        )


def read_config(path: Path) -> dict[str, Any]:
    """The configuration as JSON; one that asks for code of its own or for quantised weights is refused."""
    try:
        config = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path} cannot be read as JSON: {error}. Copy or save the model again."
        ) from error
    if not isinstance(config, dict):
        raise CheckpointError(
            f"{path} must hold one JSON object; it holds a {type(config).__name__}."
        )
    if "auto_map" in config:
        raise CheckpointError(
            f"{path} asks for code of its own repository (auto_map), which is never run here. "
            f"Use a model that transformers itself implements, saved without auto_map."
        )
    if config.get("quantization_config") is not None:
        raise CheckpointError(
            f"{path} asks for quantised weights (quantization_config), whose arithmetic is not that of the "
            f"floats that are measured here. Use the model that was quantised, or save it dequantised."
        )
    return config


def weights_file(names: Collection[str], where: str) -> str:
    """The file that the weights are read from: the safetensors, or the index of their parts."""
    for name in (WEIGHTS, INDEX):
        if name in names:
            return name
    pickles = sorted(name for name in names if name.endswith(_PICKLES))
    if pickles:
        raise CheckpointError(
            f"{where} has its weights as pickles only ({', '.join(pickles[:3])}). A pickle can run any "
            f"code, so that none is read here: convert it with save_pretrained to safetensors."
        )
    raise CheckpointError(
        f"{where} has neither {WEIGHTS} nor {INDEX}: there are no weights to load."
    )


def parts_of(index: Path) -> list[str]:
    """The files that an index names, each by its base name."""
    try:
        parts = sorted({str(name) for name in json.loads(read_text(index))["weight_map"].values()})
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{index} is no index of safetensors: {error!r}.") from error
    odd = [
        name for name in parts if "/" in name or "\\" in name or not name.endswith(".safetensors")
    ]
    if odd:
        raise CheckpointError(f"{index} may name safetensors beside it only; it names {odd[0]!r}.")
    return parts
