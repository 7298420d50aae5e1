"""Which code a check runs: a hash of everything of ours that it can reach.

Starting from a check's own functions, names are followed through modules, classes and closures to
every function, class and constant of the project. Comments, docstrings and code that the check cannot
reach do not count, so a record of an audit stays valid until something that it measured changes.
"""

import hashlib
import types
from collections.abc import Iterator
from typing import Any

_OURS = ("finite_calculus", "proofs")
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def fingerprint(*roots: Any) -> str:
    """Hash of the code reachable from the roots; the order in which it is reached does not matter."""
    seen: dict[int, Any] = {}
    lines = {line for root in roots for line in _describe(root, seen)}
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]


def _describe(thing: Any, seen: dict[int, Any]) -> Iterator[str]:
    """One line for each piece of code or constant that `thing` leads to."""
    if isinstance(thing, _PLAIN) or id(thing) in seen:
        return
    seen[id(thing)] = thing  # kept, so that no id is used twice
    if isinstance(thing, types.FunctionType):
        yield from _function(thing, seen)
    elif isinstance(thing, staticmethod | classmethod):
        yield from _describe(thing.__func__, seen)
    elif isinstance(thing, property):
        yield from _describe(thing.fget, seen)
    elif isinstance(thing, type):
        if _is_ours(thing):
            yield from _class(thing, seen)
    elif isinstance(thing, dict):
        for item in thing.values():
            yield from _describe(item, seen)
    elif isinstance(thing, tuple | list | set | frozenset):
        for item in thing:
            yield from _describe(item, seen)
    elif _is_ours(type(thing)):
        yield from _describe(type(thing), seen)
        for item in vars(thing).values():
            yield from _describe(item, seen)


def _class(thing: type, seen: dict[int, Any]) -> Iterator[str]:
    for name, item in vars(thing).items():
        yield from _constant(f"{thing.__qualname__}.{name}", item)
        yield from _describe(item, seen)
    for base in thing.__bases__:
        yield from _describe(base, seen)


def _function(function: types.FunctionType, seen: dict[int, Any]) -> Iterator[str]:
    function = getattr(function, "__wrapped__", function)
    if not _is_ours(function):
        return
    yield f"{function.__module__}.{function.__qualname__} {_text(function.__code__)}"
    defaults = (function.__defaults__, function.__kwdefaults__)
    yield from _constant(f"{function.__qualname__} defaults", defaults)
    for cell in function.__closure__ or ():
        yield from _constant(f"{function.__qualname__} cell", cell.cell_contents)
        yield from _describe(cell.cell_contents, seen)
    for name, item in _named(function.__code__, function.__globals__):
        yield from _constant(name, item)
        yield from _describe(item, seen)


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


def _text(code: types.CodeType) -> str:
    """What the code does: instructions, names and constants, without line numbers or docstrings."""
    parts = [
        (part.co_code.hex(), part.co_names, part.co_varnames, _constants(part))
        for part in _codes(code)
    ]
    return repr(parts)


def _constants(code: types.CodeType) -> list[str]:
    documented = code.co_consts[:1] if code.co_name != "<lambda>" else ()
    skipped = {constant for constant in documented if isinstance(constant, str)}
    return [
        # The order of a set depends on the run.
        repr(sorted(constant, key=repr) if isinstance(constant, frozenset) else constant)
        for constant in code.co_consts
        if not isinstance(constant, types.CodeType) and constant not in skipped
    ]


def _constant(name: str, item: Any) -> Iterator[str]:
    """A line for plain data; anything else is described by its own code."""
    if isinstance(item, _PLAIN):
        if not name.endswith(("__doc__", "__name__", "__file__")):
            yield f"{name} = {item!r}"
    elif isinstance(item, tuple | list | frozenset | set):
        for number, part in enumerate(sorted(item, key=repr)):
            yield from _constant(f"{name}[{number}]", part)
    elif isinstance(item, dict):
        for key, part in item.items():
            yield from _constant(f"{name}[{key!r}]", part)


def _is_ours(thing: Any) -> bool:
    module = thing.__name__ if isinstance(thing, types.ModuleType) else thing.__module__
    return module.split(".")[0] in _OURS
