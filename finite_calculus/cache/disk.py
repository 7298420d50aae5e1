"""A cache that was written to disk and read back, as a transform."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

_TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Disk:
    """Written to disk in a type, as safetensors, and read back."""

    kind: str

    def __post_init__(self) -> None:
        if self.kind not in _TYPES:
            raise ValueError(f"`kind` must be one of {', '.join(_TYPES)}; got {self.kind!r}.")

    def __call__(self, keys: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """What the file holds."""
        with tempfile.TemporaryDirectory(prefix="finite-calculus-") as folder:
            path = Path(folder) / "layer.safetensors"
            kind = _TYPES[self.kind]
            save_file(
                {"keys": keys.to(kind).contiguous(), "values": values.to(kind).contiguous()}, path
            )
            read = load_file(path)
        return read["keys"].to(keys.dtype), read["values"].to(values.dtype)
