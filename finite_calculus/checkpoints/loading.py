"""Load a model as transformers has it: eager attention, evaluation mode, frozen weights."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging

from finite_calculus.checkpoints import (
    cache as caches,
    fetch,
    folder as folders,
    from_gguf,
    hub,
    llama2c,
    tiny,
    vocabulary,
)
from finite_calculus.checkpoints.embedded_files import embedded_directory, verify_embedded
from finite_calculus.checkpoints.errors import CheckpointError
from finite_calculus.checkpoints.origin import Origin, set_origin
from finite_calculus.checkpoints.registry import Checkpoint, Embedded, Hub, Packaged, Random
from finite_calculus.checkpoints.spec import Folder, HubModel, resolve
from finite_calculus.checkpoints.status import packaged_directory
from finite_calculus.models.precision import cast_weights, precision_of
from finite_calculus.models.support import language_model_class


def load(
    spec: str | os.PathLike[str],
    *,
    dtype: torch.dtype | str = torch.float32,
    device: str | torch.device = "cpu",
    cache: Path | str | None = None,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase | None]:
    """Model and tokenizer by a known name, a folder, or a hub id `owner/name[@revision]`.

    What is not here is fetched first. Files of a known name and of the hub are verified against their
    hashes on every load; a folder is taken as it is. Only safetensors and GGUF are read, and no code of
    a repository is run. `dtype` may be named, as in "bfloat16"; rotary frequencies stay float32, as
    transformers keeps them. A folder or repository without a tokenizer gives None for it.
    """
    source = resolve(spec)
    _require_device(device)
    dtype = precision_of(dtype).dtype
    with _no_progress_bars():
        if isinstance(source, Checkpoint):
            model, tokenizer = _opened(source, dtype, cache)
            _require_architecture(source, model)
            origin = _origin_of_known(source)
        elif isinstance(source, Folder):
            folders.require_model(source.path)
            model, tokenizer = _from_folder(source.path, dtype, str(source.path))
            origin = Origin("folder", source.name)
        else:
            snapshot = hub.snapshot(source, cache=cache)
            origin = Origin("hub", source.repository, source.repository, snapshot.commit)
            model, tokenizer = _from_folder(snapshot.folder, dtype, origin.label)
    set_origin(model, origin)
    model.to(device=device)
    return cast_weights(model, dtype).eval().requires_grad_(False), tokenizer


def _origin_of_known(known: Checkpoint) -> Origin:
    if isinstance(known.source, Hub):
        return Origin("name", known.name, known.source.repository, known.source.revision)
    return Origin("name", known.name)


def _require_device(device: str | torch.device) -> None:
    """Refuse a device that this torch has not, before anything is fetched."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"`device` must be one that this torch can use; got {str(device)!r} ({reason}). Use 'cpu'."
        ) from error


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    """transformers draws a bar for every file, also for the small ones; commands draw their own."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _opened(known: Checkpoint, dtype: torch.dtype, cache: Path | str | None) -> tuple[Any, Any]:
    source = known.source
    if isinstance(source, Embedded):
        verify_embedded()
        return _from_folder(embedded_directory(), dtype, known.name)
    if isinstance(source, Random):
        tokenizer = vocabulary.fast_tokenizer(known.architecture.context)
        return tiny.build(known.architecture, source.seed, len(tokenizer)), tokenizer
    if isinstance(source, Packaged):
        directory = packaged_directory(known, cache)
        if not directory.exists():
            _convert(source, directory)
        caches.verify(directory, source.sha256)
        return _from_folder(directory, dtype, known.name)
    snapshot = hub.snapshot(HubModel(source.repository, source.revision), cache=cache)
    # As the paper's code reads it: for a Qwen2, AutoTokenizer puts Qwen's own splitting in the place
    # of the file's.
    return _model(snapshot.folder, dtype, known.name), _tokenizer(snapshot.folder, AutoTokenizer)


def _convert(source: Packaged, directory: Path, *, get: fetch.Download = fetch.download) -> None:
    """Fetch, check, convert, and put the result into the cache."""
    convert = {"gguf": from_gguf.convert, "llama2.c": llama2c.convert}[source.form]
    if source.form == "gguf":
        from_gguf.require_gguf()
    work = Path(tempfile.mkdtemp(prefix="finite-calculus-"))
    try:
        weights = work / f"weights.{source.form}"
        fetch.take_weights(source, weights, work, get=get)
        caches.put(directory, source.sha256, lambda target: convert(weights, target))
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _from_folder(folder: Path, dtype: torch.dtype, what: str) -> tuple[Any, Any]:
    """Model and tokenizer of a folder, the latter from its tokenizer.json where there is one."""
    names = {path.name for path in folder.iterdir()}
    if not names.intersection(folders.VOCABULARIES):
        return _model(folder, dtype, what), None
    # AutoTokenizer would rebuild the tokenizer of the family, with another splitting than the file's.
    read = PreTrainedTokenizerFast if "tokenizer.json" in names else AutoTokenizer
    return _model(folder, dtype, what), _tokenizer(folder, read)


def _model(folder: Path, dtype: torch.dtype, what: str) -> Any:
    try:
        own = {"local_files_only": True, "trust_remote_code": False}
        config = AutoConfig.from_pretrained(folder, **own)
        # transformers types the pair that it returns here as a model alone.
        pair: Any = language_model_class(config).from_pretrained(
            folder,
            config=config,
            dtype=dtype,
            attn_implementation="eager",
            use_safetensors=True,
            output_loading_info=True,
            **own,
        )
    # The files are somebody else's: transformers answers odd ones with errors of every kind.
    except Exception as error:
        raise CheckpointError(
            f"transformers cannot load {what} as a causal language model: {_first_line(error)}"
        ) from error
    model, report = pair
    missing = sorted(report["missing_keys"])
    if missing:
        # transformers would draw these at random and only warn.
        raise CheckpointError(
            f"The safetensors of {what} lack {len(missing)} weights of its architecture, such as "
            f"{missing[0]}. Save the whole model again."
        )
    return model


def _tokenizer(folder: Path, read: Any) -> Any:
    try:
        return read.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise CheckpointError(
            f"The tokenizer files in {folder} are unreadable: {_first_line(error)}. "
            f"Save the tokenizer again with save_pretrained, or remove its files to work without text."
        ) from error


def _first_line(error: Exception) -> str:
    words = str(error).strip().splitlines() or ["no words"]
    return f"{type(error).__name__}: {words[0]}"


def _require_architecture(known: Checkpoint, model: Any) -> None:
    """The loaded configuration must be what the registry says, or the registry is wrong."""
    config, expected = model.config, known.architecture
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    actual = {
        "family": config.model_type,
        "layers": config.num_hidden_layers,
        "heads": config.num_attention_heads,
        "groups": config.num_key_value_heads,
        "head_width": width,
        "theta": config.rope_parameters["rope_theta"],
        "context": config.max_position_embeddings,
        "biases": model.model.layers[0].self_attn.q_proj.bias is not None,
    }
    wrong = {key: got for key, got in actual.items() if got != getattr(expected, key)}
    if wrong:
        raise CheckpointError(
            f"`{known.name}` is not what the registry describes, {expected}: got {wrong}. "
            f"Its files were replaced, or the registry is wrong: report this."
        )
