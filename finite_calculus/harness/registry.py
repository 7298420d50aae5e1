"""Which studies there are, by name, without importing them.

A study of ours is a folder of `finite_calculus.studies`, named like it with hyphens. Others register in
the entry point group `finite_calculus.studies`, as in `my-study = "my_package.my_study:STUDY"`.
"""

import ast
import difflib
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from finite_calculus.harness.study import Study

GROUP = "finite_calculus.studies"


def study_names() -> tuple[str, ...]:
    """Names of all studies, ours first."""
    return tuple(dict.fromkeys([*sorted(_folders()), *sorted(_registered())]))


def find_study(name: str) -> Study[Any, Any]:
    """A study by name."""
    if name in _folders():
        return import_module(f"{GROUP}.{name.replace('-', '_')}").STUDY
    registered = _registered()
    if name in registered:
        return registered[name].load()
    close = difflib.get_close_matches(name, study_names(), n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    raise ValueError(f"`study` must be one of {', '.join(study_names())}; got {name!r}.{hint}")


def study_summary(name: str) -> str:
    """The first line of a study's own description, read from its source."""
    module = (
        f"{GROUP}.{name.replace('-', '_')}" if name in _folders() else _registered()[name].module
    )
    spec = find_spec(module)
    text = None
    if spec is not None and spec.origin is not None:
        text = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8")))
    return (text or "").partition("\n")[0]


def _folders() -> dict[str, Path]:
    """Our studies by name: every folder that is a package."""
    root = Path(str(import_module(GROUP).__file__)).parent
    return {path.parent.name.replace("_", "-"): path.parent for path in root.glob("*/__init__.py")}


def _registered() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
