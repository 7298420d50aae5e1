"""Every mutant of a source file: the operators at every place where they may act.

Not changed: docstrings, annotations, imports, the text of messages (f-strings and what `raise` raises)
and strings other than names in tables. A mutant is known by its file, function, statement before and
after, and the number of equal ones before it, so that moving lines does not change its identity.
"""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.mutation.operators import OPERATORS, entry_dropped, is_string, number
from tests.mutation.source import Edit, Source


@dataclass(frozen=True)
class Place:
    """Where a change is: its function (or table), the statement shown in reports, and its lines.

    `imported` says that the code runs when the module is imported, not when a function is called.
    """

    function: str
    start: int
    end: int
    lines: tuple[int, int]
    imported: bool


@dataclass(frozen=True)
class Mutant:
    """One change of one file, with the text of its statement before and after."""

    file: str
    function: str
    operator: str
    original: str
    mutated: str
    occurrence: int
    edit: Edit
    lines: tuple[int, int]
    imported: bool

    @property
    def id(self) -> str:
        """Stable under changes elsewhere in the file."""
        parts = (self.file, self.function, self.original, self.mutated, str(self.occurrence))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]

    def apply(self, source: bytes) -> bytes:
        """The whole file with the change made; no line moves."""
        start, end, text = self.edit
        return source[:start] + text.encode() + source[end:]


def mutants(path: Path) -> list[Mutant]:
    """Every mutant of a file, in the order of the file."""
    source = Source(path.read_bytes())
    occurrences: Counter[tuple[str, ...]] = Counter()
    results = []
    whole = Place("", 0, len(source.data), (1, 1), imported=True)
    for place, operator, edit in _edits(source.tree, whole, source, set()):
        before = source.data[place.start : place.end].decode()
        left, right = source.data[place.start : edit[0]], source.data[edit[1] : place.end]
        after = left.decode() + edit[2] + right.decode()
        names = (path.name, place.function, " ".join(before.split()), " ".join(after.split()))
        if names[2] == names[3]:
            continue
        occurrence = occurrences[names]
        results.append(
            Mutant(*names[:2], operator, *names[2:], occurrence, edit, place.lines, place.imported)
        )
        occurrences[names] += 1
    return results


def _edits(
    node: ast.AST, place: Place, source: Source, bound: set[str]
) -> Iterator[tuple[Place, str, Edit]]:
    """Edits of a node and of all below it; `bound` are the names its function has set so far."""
    if isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom) or _is_docstring(node):
        return
    if isinstance(node, ast.FunctionDef):
        bound = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
    if isinstance(node, ast.stmt):
        place = _at(place, source, node)
    if isinstance(node, ast.Assign | ast.AnnAssign) and not place.function:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        place = replace(place, function=source.text(target))
    for operator in OPERATORS:
        for edit in operator(node, source):
            narrow = replace(place, start=edit[0], end=edit[1])
            context = narrow if operator is entry_dropped else place
            yield context, operator.__name__.replace("_", " "), edit
    if isinstance(node, ast.Assign):
        targets = [name for target in node.targets for name in ast.walk(target)]
        names = {name.id for name in targets if isinstance(name, ast.Name)}
        if not place.imported and names <= bound:
            yield place, "reassignment deleted", source.instead(node, "pass")
        bound |= names
    for child, where in _children(node, place, source):
        yield from _edits(child, where, source, bound)


def _children(node: ast.AST, place: Place, source: Source) -> Iterator[tuple[ast.AST, Place]]:
    """The parts of a node that may change, each with its place."""
    match node:
        case ast.Raise():
            return
        case ast.FunctionDef() | ast.ClassDef():
            name = f"{place.function}.{node.name}".lstrip(".")
            for outer in [*node.decorator_list, *_defaults(node)]:
                yield outer, _at(replace(place, function=name), source, outer)
            called = isinstance(node, ast.FunctionDef)
            inner = replace(place, function=name, imported=place.imported and not called)
            yield from ((child, inner) for child in node.body)
        case ast.If() | ast.While():
            yield node.test, _at(place, source, node.test)
            yield from ((child, place) for child in [*node.body, *node.orelse])
        case ast.Lambda():
            yield node.body, replace(_at(place, source, node), imported=False)
        case ast.AnnAssign():
            if node.value is not None:
                yield node.value, place
        case ast.Dict() if place.imported:
            for key, value in zip(node.keys, node.values, strict=True):
                yield value, _at(place, source, key, value)
        case _ if number(node) is None:
            yield from ((child, place) for child in ast.iter_child_nodes(node))


def _at(place: Place, source: Source, first: ast.AST, last: ast.AST | None = None) -> Place:
    """The place that spans a node, or two."""
    last = first if last is None else last
    start, end = source.span(first)[0], source.span(last)[1]
    return replace(place, start=start, end=end, lines=(first.lineno, last.end_lineno))


def _defaults(node: ast.FunctionDef | ast.ClassDef) -> list[ast.expr]:
    if isinstance(node, ast.ClassDef):
        return []
    return [default for default in [*node.args.defaults, *node.args.kw_defaults] if default]


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and is_string(node.value)
