"""The API reference: a page for each package, from what its `__init__` exports and the docstrings."""

import ast
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any

from docstrings import as_rst

# What a user imports, with the name of its page.
PACKAGES = {
    "finite_calculus": "core",
    "finite_calculus.models": "models",
    "finite_calculus.models.edits": "edits",
    "finite_calculus.search": "search",
    "finite_calculus.cache": "cache",
    "finite_calculus.checkpoints": "checkpoints",
    "finite_calculus.expressions": "expressions",
    "finite_calculus.harness": "harness",
    "finite_calculus.report": "report",
    "finite_calculus.explore": "explore",
}


@dataclass(frozen=True)
class Export:
    """A name that a package exports from one of its files."""

    package: str
    module: str
    name: str

    @property
    def thing(self) -> Any:
        return getattr(importlib.import_module(self.package), self.name)

    @property
    def is_data(self) -> bool:
        """Whether it is neither a class nor a function."""
        return not (inspect.isclass(self.thing) or inspect.isroutine(self.thing))

    @property
    def words(self) -> str:
        """Its docstring, or the comment above a constant; empty if nobody wrote one."""
        if self.is_data:
            return _comment(self.module, self.name)
        text = inspect.getdoc(self.thing) or ""
        # A dataclass that says nothing gets its signature for a docstring.
        made = is_dataclass(self.thing) and text.startswith(f"{self.name}(")
        return "" if made or self.thing.__doc__ is None else text


def exports(package: str) -> list[Export]:
    """Every public name of a package in the order of its `__init__`: `X as X`, or in `__all__`."""
    module = importlib.import_module(package)
    listed = getattr(module, "__all__", ())
    tree = ast.parse(inspect.getsource(module))
    return [
        Export(package, node.module or "", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name or alias.name in listed
    ]


def undocumented() -> list[str]:
    """Public names without a word of their own."""
    return [
        f"{export.package}.{export.name}"
        for package in PACKAGES
        for export in exports(package)
        if not export.words
    ]


def api_pages() -> Iterator[tuple[str, str]]:
    """Each page as reStructuredText, by its file."""
    shown: set[str] = set()
    for package, page in PACKAGES.items():
        yield f"api/{page}.rst", "\n".join(_page(package, shown))


def _page(package: str, shown: set[str]) -> Iterator[str]:
    title = package.removeprefix("finite_calculus.") if "." in package else "The core"
    yield from (title, "=" * len(title), "")
    yield from as_rst(inspect.getdoc(importlib.import_module(package)) or "")
    yield from (f"``from {package} import …``", "")
    files: dict[str, list[Export]] = {}
    for export in exports(package):
        path = f"{export.module}.{export.name}"
        if path not in shown and _first(export, shown):
            files.setdefault(export.module, []).append(export)
    for module, names in files.items():
        name = module.removeprefix(f"{package}.")
        yield from (f".. _code-{module}:", "", name, "-" * len(name), "")
        yield from as_rst(inspect.getdoc(importlib.import_module(module)) or "")
        for export in names:
            yield from _entry(export)


def _first(export: Export, shown: set[str]) -> bool:
    """Whether a thing that several packages export is shown here for the first time."""
    where = getattr(export.thing, "__module__", export.module)
    path = f"{where}.{export.name}"
    fresh = path not in shown
    shown.add(path)
    return fresh


def _entry(export: Export) -> Iterator[str]:
    path = f"{export.package}.{export.name}"
    if export.is_data:
        value = repr(export.thing)
        short = (
            value if len(value) < 80 else f"{type(export.thing).__name__} of {len(value)} letters"
        )
        yield from (f".. py:data:: {path}", "")
        yield from (f"   {line}".rstrip() for line in as_rst(export.words))
        if len(value) < 80:
            yield from (f"   ``{short}``", "")
    elif inspect.isclass(export.thing):
        yield from (f".. autoclass:: {path}", "   :members:", "")
    else:
        yield from (f".. autofunction:: {path}", "")


def _comment(module: str, name: str) -> str:
    """The comment right above the assignment of a constant, wherever a module takes it from."""
    path = Path(inspect.getsourcefile(importlib.import_module(module)) or "")
    lines = path.read_text(encoding="utf-8").splitlines()
    for node in ast.parse("\n".join(lines)).body:
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            return _comment(node.module or "", name)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            above: list[str] = []
            for line in reversed(lines[: node.lineno - 1]):
                if not line.startswith("#"):
                    break
                above.insert(0, line.removeprefix("#").removeprefix(":").strip())
            return "\n".join(above)
    return ""
