"""Which code a check runs: a hash of everything of ours that it can reach.

Starting from a check's own functions, names are followed through modules, classes and closures to
every function, class and constant of the project. Comments, docstrings, line numbers and code that the
check cannot reach do not count, nor does the version of Python, so a record of an audit stays valid
until something that it measured changes.
"""

import ast
import functools
import hashlib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from finite_calculus.provenance.sources import syntax

_OURS = ("finite_calculus", "proofs")
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def fingerprint(*roots: Any) -> str:
    """Hash of the code reachable from the roots; the order in which it is reached does not matter."""
    visited: dict[int, Any] = {}
    lines = {line for root in roots for line in _describe(root, visited)}
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]


def _describe(thing: Any, visited: dict[int, Any]) -> Iterator[str]:
    """One line for each piece of code or constant that `thing` leads to."""
    if isinstance(thing, _PLAIN) or id(thing) in visited:
        return
    visited[id(thing)] = thing  # kept, so that no id is used twice
    if isinstance(thing, types.FunctionType):
        yield from _function(thing, visited)
    elif isinstance(thing, staticmethod | classmethod):
        yield from _describe(thing.__func__, visited)
    elif isinstance(thing, property):
        yield from _describe(thing.fget, visited)
    elif isinstance(thing, type):
        if _is_ours(thing):
            yield from _class(thing, visited)
    elif isinstance(thing, dict):
        for item in thing.values():
            yield from _describe(item, visited)
    elif isinstance(thing, tuple | list | set | frozenset):
        for item in thing:
            yield from _describe(item, visited)
    elif _is_ours(type(thing)):
        yield from _describe(type(thing), visited)
        for item in vars(thing).values():
            yield from _describe(item, visited)


def _class(thing: type, visited: dict[int, Any]) -> Iterator[str]:
    for name, item in vars(thing).items():
        # Of the names that Python sets, only the fields of a dataclass are the project's.
        if not name.startswith("__") or name == "__match_args__":
            yield from _constant(f"{thing.__qualname__}.{name}", item)
        yield from _describe(item, visited)
    for base in thing.__bases__:
        yield from _describe(base, visited)


def _function(function: types.FunctionType, visited: dict[int, Any]) -> Iterator[str]:
    function = getattr(function, "__wrapped__", function)
    is_generated = function.__code__.co_filename.startswith("<")  # by dataclasses, from the fields
    if is_generated or not _is_ours(function):
        return
    yield f"{function.__module__}.{function.__qualname__} {_text(function)}"
    defaults = (function.__defaults__, function.__kwdefaults__)
    yield from _constant(f"{function.__qualname__} defaults", defaults)
    for cell in function.__closure__ or ():
        yield from _constant(f"{function.__qualname__} cell", cell.cell_contents)
        yield from _describe(cell.cell_contents, visited)
    for name, item in _named(function.__code__, function.__globals__):
        yield from _constant(name, item)
        yield from _describe(item, visited)


def _named(code: types.CodeType, scope: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Globals that the code names, and attributes that it takes from modules."""
    names = {name for part in _codes(code) for name in part.co_names}
    for name in names & scope.keys():
        yield name, scope[name]
        if isinstance(scope[name], types.ModuleType) and _is_ours(scope[name]):
            for attribute in names & vars(scope[name]).keys():
                yield attribute, vars(scope[name])[attribute]


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code itself and that of the functions defined inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _text(function: types.FunctionType) -> str:
    """What a function does, as its syntax tree.

    Lambdas that begin on one line are taken together: nothing tells them apart.
    """
    code = function.__code__
    return "".join(_definitions(code.co_filename)[code.co_firstlineno])


@functools.cache
def _definitions(path: str) -> dict[int, list[str]]:
    """The functions of a file by their first lines."""
    definitions: dict[int, list[str]] = {}
    for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            definitions.setdefault(first, []).append(syntax(node))
        elif isinstance(node, ast.Lambda):
            definitions.setdefault(node.lineno, []).append(syntax(node))
    return definitions


def _constant(name: str, item: Any) -> Iterator[str]:
    """A line for plain data; anything else is described by its own code."""
    if isinstance(item, _PLAIN):
        if not name.endswith(("__doc__", "__name__", "__file__")):
            yield f"{name} = {item!r}"
    elif isinstance(item, tuple | list | frozenset | set):
        ordered = item if isinstance(item, tuple | list) else sorted(item, key=repr)
        for number, part in enumerate(ordered):
            yield from _constant(f"{name}[{number}]", part)
    elif isinstance(item, dict):
        for key, part in item.items():
            yield from _constant(f"{name}[{key!r}]", part)


def _is_ours(thing: Any) -> bool:
    module = thing.__name__ if isinstance(thing, types.ModuleType) else thing.__module__
    return module.split(".")[0] in _OURS
