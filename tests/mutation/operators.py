"""The operators: each says what may stand at a node of the syntax tree instead of what is there.

Operators are swapped, comparisons moved to their boundary and negated, constants moved by one or
doubled and halved, conditions negated, operands of conjunctions and masks dropped, signs and
inversions removed, functions exchanged for their counterpart (max and min, sin and cos), calls that
only guard or convert (abs, clamp, detach, to, …) dropped, the two sides of a `where` exchanged or its
guard removed, arguments swapped, keyword arguments removed, statements deleted, results replaced by
None, and names in tables dropped.
"""

import ast
import re
from collections.abc import Iterator

from tests.mutation.source import Edit, Source

_BINARY = {"Add": ("+", "-"), "Sub": ("-", "+"), "Mult": ("*", "/"), "Div": ("/", "*"),
           "Pow": ("**", "*"), "Mod": ("%", "//"), "FloorDiv": ("//", "*"),
           "BitAnd": ("&", "|"), "BitOr": ("|", "&")}  # fmt: skip
_COMPARED = {"Lt": ("<", "<=", ">="), "LtE": ("<=", "<", ">"), "Gt": (">", ">=", "<="),
             "GtE": (">=", ">", "<"), "Eq": ("==", "!="), "NotEq": ("!=", "=="),
             "Is": ("is", "is not"), "IsNot": ("is not", "is"),
             "In": ("in", "not in"), "NotIn": ("not in", "in")}  # fmt: skip
_COUNTERPARTS = [("amax", "amin"), ("argmax", "argmin"), ("max", "min"), ("maximum", "minimum"),
                 ("any", "all"), ("exp", "expm1"), ("log", "log1p"), ("sin", "cos"),
                 ("zeros_like", "ones_like"), ("zeros", "ones")]  # fmt: skip
_EXCHANGED = dict(_COUNTERPARTS) | {second: first for first, second in _COUNTERPARTS}
_GUARDS = {"abs", "clamp", "detach", "double", "to", "expand", "movedim"}
_COMMUTATIVE = {"max", "min", "maximum", "minimum", "hypot", "broadcast_shapes", "equal", "where"}


def binary_operator(node: ast.AST, source: Source) -> Iterator[Edit]:
    if isinstance(node, ast.BinOp) and type(node.op).__name__ in _BINARY:
        yield source.between(node.left, node.right, *_BINARY[type(node.op).__name__])


def comparison(node: ast.AST, source: Source) -> Iterator[Edit]:
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        for left, right, op in zip(operands, node.comparators, node.ops, strict=False):
            old, *others = _COMPARED[type(op).__name__]
            yield from (source.between(left, right, old, new) for new in others)


def operand_dropped(node: ast.AST, source: Source) -> Iterator[Edit]:
    if isinstance(node, ast.BoolOp):
        for index in range(len(node.values)):
            others = [source.text(v) for i, v in enumerate(node.values) if i != index]
            word = " and " if isinstance(node.op, ast.And) else " or "
            yield source.instead(node, "(" + word.join(f"({text})" for text in others) + ")")
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
        yield source.instead(node, f"({source.text(node.left)})")
        yield source.instead(node, f"({source.text(node.right)})")


def unary_operator_dropped(node: ast.AST, source: Source) -> Iterator[Edit]:
    if isinstance(node, ast.UnaryOp):
        yield source.instead(node, f"({source.text(node.operand)})")


def condition_negated(node: ast.AST, source: Source) -> Iterator[Edit]:
    tested = isinstance(node, ast.If | ast.While | ast.IfExp)
    if tested and not isinstance(node.test, ast.Compare | ast.UnaryOp):
        yield source.instead(node.test, f"(not ({source.text(node.test)}))")


def constant(node: ast.AST, source: Source) -> Iterator[Edit]:
    value = number(node)
    if isinstance(value, bool):
        yield source.instead(node, str(not value))
    elif isinstance(value, int):
        yield from (source.instead(node, str(value + step)) for step in (1, -1))
    elif isinstance(value, float):
        others = (value * 2, value / 2) if value else (1.0,)
        yield from (source.instead(node, repr(other)) for other in others)


def counterpart(node: ast.AST, source: Source) -> Iterator[Edit]:
    if isinstance(node, ast.Call):
        name = called(node)
        if name in _EXCHANGED:
            _, end = source.span(node.func)
            yield end - len(name), end, _EXCHANGED[name]


def guard_dropped(node: ast.AST, source: Source) -> Iterator[Edit]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in _GUARDS:
            yield source.instead(node, source.text(node.func.value))
        elif node.func.attr == "where" and len(node.args) == 3:
            yield source.instead(node, source.text(node.args[1]))
    if isinstance(node, ast.Attribute) and node.attr == "mT":
        yield source.instead(node, source.text(node.value))


def arguments_swapped(node: ast.AST, source: Source) -> Iterator[Edit]:
    if not isinstance(node, ast.Call) or any(isinstance(a, ast.Starred) for a in node.args):
        return
    pairs = {"where": (1, 2)} if len(node.args) == 3 else {}
    usual = (0, 1) if len(node.args) >= 2 and called(node) not in _COMMUTATIVE else None
    pair = pairs.get(called(node), usual)
    if pair is not None:
        one, other = (node.args[i] for i in pair)
        (start, middle), (following, end) = source.span(one), source.span(other)
        gap = source.data[middle:following].decode()
        yield start, end, source.text(other) + gap + source.text(one)


def keyword_removed(node: ast.AST, source: Source) -> Iterator[Edit]:
    if isinstance(node, ast.Call):
        for index, word in enumerate(node.keywords):
            if word.arg is None:
                continue
            others = [*node.args, *[k for i, k in enumerate(node.keywords) if i != index]]
            inside = ", ".join(source.text(part) for part in others)
            yield source.instead(node, f"{source.text(node.func)}({inside})")


def statement_deleted(node: ast.AST, source: Source) -> Iterator[Edit]:
    if isinstance(node, ast.Expr | ast.Raise | ast.Break | ast.AugAssign):
        yield source.instead(node, "pass")


def result_dropped(node: ast.AST, source: Source) -> Iterator[Edit]:
    if isinstance(node, ast.Return) and node.value is not None:
        yield source.instead(node, "return None")


def entry_dropped(node: ast.AST, source: Source) -> Iterator[Edit]:
    """An entry of a table of names; what is left in its place is no name."""
    strings = isinstance(node, ast.Tuple | ast.List) and all(map(is_string, node.elts))
    names = node.elts if strings else node.keys if isinstance(node, ast.Dict) else []
    yield from (source.instead(name, '""') for name in names if _is_name(name))


OPERATORS = (
    binary_operator,
    comparison,
    operand_dropped,
    unary_operator_dropped,
    condition_negated,
    constant,
    counterpart,
    guard_dropped,
    arguments_swapped,
    keyword_removed,
    statement_deleted,
    result_dropped,
    entry_dropped,
)


def number(node: ast.AST) -> bool | int | float | None:
    """The value of a literal number, with its sign, or None."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = number(node.operand)
        return None if value is None else -value
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    return None


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _is_name(node: ast.AST | None) -> bool:
    """A string that could name something; others are messages."""
    return is_string(node) and re.fullmatch(r"[\w-]+", node.value) is not None


def is_string(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
