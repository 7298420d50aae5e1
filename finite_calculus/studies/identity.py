"""The identity of a run: settings, code, model, prompts and versions, and one fingerprint over all.

Two runs with one fingerprint compute the same records. A run is resumed only under its own
fingerprint; otherwise the parts say what has changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

import finite_calculus
import native_checks
from finite_calculus.studies.settings import StudySettings, digest
from native_checks.fingerprint import fingerprint as native_fingerprint

_LIBRARIES = ("numpy", "pyarrow", "safetensors", "tokenizers")
# What records can depend on: not the command line, nor how checkpoints are fetched.
_SOURCES = ("*.py", "models/*.py", "studies/*.py", "checkpoints/tasks.py")


@dataclass(frozen=True)
class Identity:
    """The parts, as plain data, and their fingerprint."""

    settings: Mapping[str, Any]
    prompts: str
    made_with: Mapping[str, str]

    @property
    def fingerprint(self) -> str:
        """sha256 over the canonical text of all parts."""
        return digest(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """The parts as JSON holds them."""
        return {
            "settings": dict(self.settings),
            "prompts": self.prompts,
            "made_with": dict(self.made_with),
        }


def identify(settings: StudySettings, model: PreTrainedModel, manifest: Any) -> Identity:
    """The identity of a run of these settings on this model, with this prompt manifest."""
    made_with = native_fingerprint(model)
    made_with["sources"] = code_hash()
    made_with |= {name: version(name) for name in _LIBRARIES}
    # Kernels are chosen by what the processor can do, and round differently.
    made_with["kernels"] = torch.backends.cpu.get_cpu_capability()
    return Identity(settings.model_dump(mode="json"), digest(manifest), made_with)


def code_hash() -> str:
    """sha256 over the sources of the core, models, studies and native checks, by relative path."""
    core = Path(str(finite_calculus.__file__)).parent
    checks = Path(str(native_checks.__file__)).parent
    files = [path for pattern in _SOURCES for path in core.glob(pattern)]
    # Paths from where the packages lie, so that the hash is the same wherever that is.
    hashes = {
        path.relative_to(root).as_posix(): digest(path.read_bytes())
        for root, found in ((core.parent, files), (checks.parent, checks.glob("*.py")))
        for path in found
    }
    return digest(hashes)


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Every entry that differs between two identities, as "settings.batch: 32 → 16"."""
    old, new = _flat(before), _flat(after)
    absent = "absent"
    return [
        f"{key}: {_short(old.get(key, absent))} → {_short(new.get(key, absent))}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key, absent) != new.get(key, absent)
    ]


def _flat(tree: Any, start: str = "") -> dict[str, Any]:
    """Leaves of nested mappings and lists, by dotted path."""
    if isinstance(tree, Mapping):
        items = [(str(key), value) for key, value in tree.items()]
    elif isinstance(tree, list | tuple):
        items = [(str(n), value) for n, value in enumerate(tree)]
    else:
        return {start: tree}
    flat: dict[str, Any] = {}
    for key, value in items:
        flat |= _flat(value, f"{start}.{key}" if start else key)
    return flat


def _short(value: Any) -> str:
    """A hash by its first digits; anything else as it is."""
    text = str(value)
    return f"{text[:12]}…" if len(text) == 64 else text
