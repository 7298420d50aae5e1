"""Which code can change a result: the modules of ours that it reaches by import, and their hash.

Read from the sources, nothing is imported. From the given definitions every import is followed, also one
inside a function; a name that a package only hands on leads to the file that defines it, so that importing
one thing from a package does not count the others. Comments, docstrings and layout do not count.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from finite_calculus.provenance.digests import digest

OURS = ("finite_calculus", "native_checks", "proofs")


Roots = Mapping[str, Iterable[str] | None]


def source_digests(roots: Roots, *, also: tuple[str, ...] = ()) -> dict[str, str]:
    """sha256 of every module that counts, by name.

    `roots` maps a module to the definitions in it that count ("Class.method" or "function") with all that
    they use of their module, or to None for all of it; `also` names packages beside ours whose modules count.
    Of a package that is only passed through on the way to a module, its statements with an effect count.
    """
    whole = reachable(roots, also=also)
    digests = {name: digest(syntax(_tree(name)).encode()) for name in whole}
    partial = {name: _closure(name, chosen) for name, chosen in roots.items() if chosen is not None}
    for package in _packages((*whole, *roots)):
        if package not in whole:
            partial.setdefault(package, _effects(package))
    texts = {name: [syntax(node) for node in nodes] for name, nodes in partial.items() if nodes}
    return dict(sorted((digests | {name: digest(text) for name, text in texts.items()}).items()))


def reachable(roots: Roots, *, also: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Names of the modules that count whole, sorted; modules of which only a part counts are not."""
    ours = (*OURS, *also)
    waiting = [name for name, chosen in roots.items() if chosen is None]
    for name, chosen in roots.items():
        waiting += [] if chosen is None else _imported(name, _closure(name, chosen))
    for package in _packages(roots):
        waiting += _imported(package, _effects(package))
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in reached or name.split(".")[0] not in ours or _path(name) is None:
            continue
        reached.add(name)
        waiting += [target for node in ast.walk(_tree(name)) for target in _targets(name, node)]
        for package in _packages([name]):
            waiting += _imported(package, _effects(package))
    return tuple(sorted(reached))


def syntax(node: Any) -> str:
    """A syntax tree in words: fields that are not empty, without places and docstrings."""
    if isinstance(node, list):
        return f"[{' '.join(map(syntax, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = dict(ast.iter_fields(node))
    documented = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    if isinstance(node, documented) and ast.get_docstring(node) is not None:
        fields["body"] = fields["body"][1:]
    words = (f"{name}={syntax(item)}" for name, item in fields.items() if item not in (None, []))
    return f"{type(node).__name__}({' '.join(words)})"


def _packages(modules: Iterable[str]) -> list[str]:
    """The packages that importing modules passes through."""
    parts = (module.split(".") for module in modules)
    return sorted({".".join(names[:n]) for names in parts for n in range(1, len(names))})


def _effects(module: str) -> list[ast.AST]:
    """Statements of a module that do more than to bind a name when it is imported."""
    return [node for node in _tree(module).body if _has_effect(node)]


def _has_effect(node: ast.stmt) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return bool(node.decorator_list)
    if isinstance(node, ast.Assign):
        return not all(isinstance(target, ast.Name | ast.Tuple) for target in node.targets)
    if isinstance(node, ast.If):
        return not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING")
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    return not isinstance(node, ast.Import | ast.ImportFrom | ast.ClassDef | ast.AnnAssign)


def _closure(module: str, definitions: Iterable[str]) -> list[ast.AST]:
    """Definitions of a module by their dotted names, with all of the module that they use, in its order.

    A name leads to the function, class or assignment of the module that binds it; `self.name` to the
    method or assignment of the class. Statements with an effect count in any case.
    """
    body = _tree(module).body
    waiting: list[tuple[ast.AST, Sequence[ast.stmt]]] = [(node, ()) for node in _effects(module)]
    waiting += [_definition(module, dotted) for dotted in sorted(definitions)]
    nodes: dict[int, ast.AST] = {}
    while waiting:
        node, within = waiting.pop()
        if id(node) in nodes:
            continue
        nodes[id(node)] = node
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name):
                waiting += [(bound, ()) for bound in body if inner.id in _names(bound)]
            elif isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
                own = within if inner.value.id in ("self", "cls") else ()
                waiting += [(bound, within) for bound in own if inner.attr in _names(bound)]
    return sorted(nodes.values(), key=lambda node: node.lineno)  # type: ignore[attr-defined]


def _definition(module: str, dotted: str) -> tuple[ast.AST, Sequence[ast.stmt]]:
    """A definition, which must exist, and the body of the class that it stands in."""
    node: ast.AST = _tree(module)
    within: Sequence[ast.stmt] = ()
    for part in dotted.split("."):
        within = getattr(node, "body", ())
        matches = [inner for inner in within if part in _names(inner)]
        if not matches:
            raise ValueError(f"`definitions` must exist; {module} has no {dotted}.")
        node = matches[-1]
    return node, within if "." in dotted else ()


def _names(node: ast.stmt) -> set[str]:
    """What a statement of a module or class binds, imports aside."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        stored = (inner for inner in ast.walk(node) if isinstance(inner, ast.Name))
        return {inner.id for inner in stored if isinstance(inner.ctx, ast.Store)}
    return set()


def _imported(module: str, nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Modules that definitions lead to: their own imports, and those of their module that they name."""
    imports = {name: target for node in _tree(module).body for name, target in _bound(module, node)}
    for node in nodes:
        for inner in ast.walk(node):
            yield from _targets(module, inner)
            if isinstance(inner, ast.Name) and inner.id in imports:
                yield imports[inner.id]


def _targets(module: str, node: ast.AST) -> Iterator[str]:
    for _, target in _bound(module, node):
        yield target


def _bound(module: str, node: ast.AST) -> Iterator[tuple[str, str]]:
    """The names that an import statement binds, each with the module where it is defined."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield (alias.asname or alias.name.split(".")[0]), alias.name
    elif isinstance(node, ast.ImportFrom):
        source = _absolute(module, node)
        for alias in node.names:
            yield (alias.asname or alias.name), _home(source, alias.name)


def _absolute(module: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    path = _path(module)
    is_package = path is not None and path.name == "__init__.py"
    parts = module.split(".")
    base = parts[: len(parts) - node.level + is_package]
    return ".".join([*base, *([node.module] if node.module else [])])


def _home(module: str, name: str) -> str:
    """The module that defines a name: a submodule, or wherever a package takes it from."""
    if module.split(".")[0] not in OURS:
        return module
    if _path(f"{module}.{name}") is not None:
        return f"{module}.{name}"
    path = _path(module)
    if path is not None and path.name == "__init__.py":
        for node in ast.walk(_tree(module)):
            for bound, target in _bound(module, node) if isinstance(node, ast.ImportFrom) else ():
                if bound == name and target != module:
                    return target
    return module


@cache
def _path(module: str) -> Path | None:
    """The file of a module, or None if there is no such module."""
    parent, _, last = module.rpartition(".")
    if parent:
        package = _path(parent)
        if package is None or package.name != "__init__.py":
            return None
        for file in (package.parent / f"{last}.py", package.parent / last / "__init__.py"):
            if file.is_file():
                return file
        return None
    spec = find_spec(module)
    return None if spec is None or spec.origin in (None, "built-in") else Path(str(spec.origin))


@cache
def _tree(module: str) -> ast.Module:
    path = _path(module)
    if path is None:
        raise ValueError(f"`module` must be importable; there is no {module}.")
    return ast.parse(path.read_text(encoding="utf-8"))
