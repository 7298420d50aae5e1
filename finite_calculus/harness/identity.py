"""The identity of a run: settings, plan, code, model and versions, and one fingerprint over all.

Two runs with one fingerprint compute the same records, unless the study says that it cannot. A run is
resumed only under its own fingerprint; otherwise the parts say what has changed. Of the code exactly
that counts which can change a record: what the study's plan, unit and policy reach, not its report.
"""

import inspect
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import finite_calculus
from finite_calculus.harness.settings import StudySettings
from finite_calculus.harness.study import Study
from finite_calculus.provenance.digests import digest
from finite_calculus.provenance.sources import source_digests

_LIBRARIES = ("numpy", "pyarrow", "safetensors", "torch")
_METHODS = ("plan", "run", "shared", "decide")
# How rows become files.
_HARNESS = ("finite_calculus.harness.rows", "finite_calculus.harness.checks")


@dataclass(frozen=True)
class Identity:
    """The parts, as plain data, and their fingerprint."""

    settings: Mapping[str, Any]
    plan: str
    made_with: Mapping[str, str]
    sources: Mapping[str, str]

    @property
    def fingerprint(self) -> str:
        """sha256 over the canonical text of all parts."""
        return digest(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """The parts as JSON holds them."""
        return {
            "settings": dict(self.settings),
            "plan": self.plan,
            "made_with": dict(self.made_with),
            "sources": dict(self.sources),
        }


def identify(
    study: Study[Any, Any], settings: StudySettings, subject: Mapping[str, str], plan: str
) -> Identity:
    """The identity of a run; `subject` describes what it runs on, `plan` is the hash of the first stage's."""
    made_with = {**_installed(), **subject}
    return Identity(settings.model_dump(mode="json"), plan, made_with, study_sources(study))


def versions(study: Study[Any, Any]) -> dict[str, dict[str, str]]:
    """What all machines of a run must have in common, known without its model: versions, kernels, code."""
    import torch

    kernels = torch.backends.cpu.get_cpu_capability()
    return {"made_with": {**_installed(), "kernels": kernels}, "sources": study_sources(study)}


def _installed() -> dict[str, str]:
    return {
        "finite_calculus": finite_calculus.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        **{name: version(name) for name in _LIBRARIES},
    }


def study_sources(study: Study[Any, Any]) -> dict[str, str]:
    """sha256 of every module that can change a record of the study."""
    return source_digests(_roots(study), also=(type(study).__module__.split(".")[0],))


def _roots(study: Study[Any, Any]) -> dict[str, list[str] | None]:
    """The methods that make records, wherever the study's classes define them, and its rows."""
    roots: dict[str, list[str] | None] = dict.fromkeys(_HARNESS)
    for kind in (type(study.Settings), *study.tables.values()):
        if kind.__module__.split(".")[0] not in ("pydantic", "builtins"):
            roots[kind.__module__] = None
    roots[study.Settings.__module__] = None
    for name in _METHODS:
        method = inspect.unwrap(getattr(type(study), name))
        listed = roots.setdefault(method.__module__, [])
        if listed is not None:
            listed.append(method.__qualname__)
    return roots


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
