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
    if name in study_names():
        return _checked(name, _loaded(name))
    close = difflib.get_close_matches(name, study_names(), n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    raise ValueError(f"`study` must be one of {', '.join(study_names())}; got {name!r}.{hint}")


def _loaded(name: str) -> Any:
    try:
        if name in _folders():
            return import_module(f"{GROUP}.{name.replace('-', '_')}").STUDY
        return _registered()[name].load()
    except (AttributeError, SyntaxError) as error:
        raise ValueError(
            f"The study {name} cannot be imported: {error}. Its module must define STUDY."
        ) from error


def _checked(name: str, study: Study[Any, Any]) -> Study[Any, Any]:
    """A study must go by one name, in the registry, its class and its settings."""
    names = {study.name, study.Settings.model_fields["study"].default}
    if names != {name}:
        raise ValueError(
            f"A study that is registered as {name} must say so in `name` and as the default of "
            f"`study` in its settings; got {', '.join(sorted(map(str, names - {name})))}."
        )
    return study


def study_summary(name: str) -> str:
    """The first line of a study's own description, read from its source."""
    module = (
        f"{GROUP}.{name.replace('-', '_')}" if name in _folders() else _registered()[name].module
    )
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return ""
    try:
        text = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8")))
    except SyntaxError as error:
        return f"cannot be imported: {error}"
    return (text or "").partition("\n")[0]


def _folders() -> dict[str, Path]:
    """Our studies by name: every folder that is a package."""
    root = Path(str(import_module(GROUP).__file__)).parent
    return {path.parent.name.replace("_", "-"): path.parent for path in root.glob("*/__init__.py")}


def _registered() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
