"""What a record was made with: code, versions, device, precision and model, each by hash or name."""

import hashlib
import json
import platform
from collections.abc import Iterable
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel

import finite_calculus
from finite_calculus.checkpoints import origin_of
from finite_calculus.provenance.digests import digest
from finite_calculus.provenance.sources import source_digests

# What a preflight runs is all that this reaches.
ROOTS = ("native_checks.gate",)


def fingerprint(model: PreTrainedModel) -> dict[str, str]:
    """Package version and source hash, versions of what it stands on, device, dtype, model hashes.

    `source` and what follows it say where `load` took the model from; a model from elsewhere has none.
    """
    first = next(model.parameters())
    origin = origin_of(model)
    return {
        "finite_calculus": finite_calculus.__version__,
        "sources": source_hash(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "machine": platform.machine(),
        "threads": str(torch.get_num_threads()),
        "device": str(first.device),
        "dtype": str(first.dtype),
        "model": type(model).__name__,
        "weights": weights_hash(model),
        "config": config_hash(model.config),
        **({} if origin is None else origin.record()),
    }


def source_hash(roots: Iterable[str] = ROOTS) -> str:
    """sha256 over the code that these modules reach; comments, docstrings and layout do not count."""
    return digest(source_digests(dict.fromkeys(roots)))


def weights_hash(model: PreTrainedModel) -> str:
    """sha256 over all parameters and persistent buffers, by name."""
    total = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        total.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def config_hash(config: Any) -> str:
    """sha256 over the configuration, without what describes the process or the library."""
    facts = {
        name: value
        for name, value in config.to_dict().items()
        if not name.startswith("_") and name not in ("transformers_version", "dtype")
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()
