"""How objects show themselves to a person: a short line each, and bars of progress."""

import dataclasses
from typing import Any

from torch import Tensor
from tqdm.auto import tqdm

_LISTED = 12


def short_repr(self: Any) -> str:
    """A dataclass in one line: numbers and words as they are, tensors and long tuples by type and size."""
    fields = (field for field in dataclasses.fields(self) if field.repr)
    parts = (f"{field.name}={_short(getattr(self, field.name))}" for field in fields)
    return f"{type(self).__name__}({', '.join(parts)})"


def progress_bar(total: int, *, quiet: bool, title: str, unit: str) -> Any:
    """A bar on a terminal and in a notebook, nothing elsewhere or when quiet."""
    in_notebook = any(base.__module__ == "tqdm.notebook" for base in tqdm.__mro__)
    hidden = True if quiet else (False if in_notebook else None)
    return tqdm(total=total, disable=hidden, desc=title, unit=unit, leave=False)


def _short(value: Any) -> str:
    if isinstance(value, Tensor):
        kind = str(value.dtype).removeprefix("torch.")
        return f"{value.item():.6g}" if value.ndim == 0 else f"{kind}{tuple(value.shape)}"
    if isinstance(value, tuple | list | dict) and len(value) > _LISTED:
        return f"{len(value)} items"
    if isinstance(value, tuple | list):
        inside = ", ".join(map(_short, value))
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, float):
        return f"{value:.6g}"
    if value is None or isinstance(value, str | int):
        return repr(value)
    return type(value).__name__
