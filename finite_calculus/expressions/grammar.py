"""What an untrusted expression may be: calls of names, names, and short whole numbers and texts.

Everything that is not on the list is refused with a reason, before anything is computed. Length and
characters are looked at before Python's parser sees the text: it uses memory and stack by the length, and it
silently turns look-alikes into ASCII names (NFKC). Nothing here computes; that is `interpreter`.
"""

import ast
from dataclasses import dataclass


class RefusedError(ValueError):
    """An expression that is not evaluated, with the reason in words."""


@dataclass(frozen=True)
class Bounds:
    """How much an expression may be: characters of text, depth and number of its parts, constants."""

    characters: int = 200
    depth: int = 8
    parts: int = 64
    digits: int = 18
    text: int = 64


@dataclass(frozen=True)
class Call:
    """A function of the contract with its arguments, by place and by name."""

    function: str
    arguments: tuple["Node", ...]
    named: tuple[tuple[str, "Node"], ...]


@dataclass(frozen=True)
class Variable:
    """A name that stands for an input."""

    name: str


@dataclass(frozen=True)
class Constant:
    """A whole number or a text."""

    value: int | str


Node = Call | Variable | Constant


def parse(text: str, bounds: Bounds | None = None) -> Node:
    """The expression as our own nodes; raises RefusedError with the reason."""
    limits = Bounds() if bounds is None else bounds
    if not isinstance(text, str):
        raise TypeError(f"`text` must be a str; got {type(text).__name__}.")
    if len(text) > limits.characters:
        raise RefusedError(f"longer than {limits.characters} characters: {len(text)}")
    foreign = next((mark for mark in text if not " " <= mark <= "~"), None)
    if foreign is not None:
        raise RefusedError(f"a character that is not printable ASCII: U+{ord(foreign):04X}")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        # Only the parser's own word: the message may quote the text.
        raise RefusedError(f"not a Python expression ({type(error).__name__})") from None
    return _Reader(limits).node(tree.body, 1)


class _Reader:
    """Walks Python's tree from the top and copies what is allowed; counts parts on the way."""

    def __init__(self, limits: Bounds) -> None:
        self.limits, self.parts = limits, 0

    def node(self, tree: ast.expr, depth: int) -> Node:
        self.parts += 1
        if depth > self.limits.depth:
            raise RefusedError(f"deeper than {self.limits.depth}")
        if self.parts > self.limits.parts:
            raise RefusedError(f"more than {self.limits.parts} parts")
        # Exact types: what is not one of the three is refused, whatever it inherits from.
        if type(tree) is ast.Call:
            return self.call(tree, depth)
        if type(tree) is ast.Name:
            return Variable(tree.id)
        if type(tree) is ast.Constant:
            return self.constant(tree.value)
        raise RefusedError(f"{type(tree).__name__} is not allowed")

    def call(self, tree: ast.Call, depth: int) -> Call:
        if type(tree.func) is not ast.Name:
            raise RefusedError(f"a call must be of a name, not of {type(tree.func).__name__}")
        arguments = tuple(self.node(argument, depth + 1) for argument in tree.args)
        named = []
        for keyword in tree.keywords:
            if keyword.arg is None:
                raise RefusedError("** is not allowed")
            named.append((keyword.arg, self.node(keyword.value, depth + 1)))
        return Call(tree.func.id, arguments, tuple(named))

    def constant(self, value: object) -> Constant:
        # By exact type: True is an int to isinstance.
        if type(value) is int:
            # A comparison and no str(): a number in hexadecimal may have more digits than str() converts.
            if value >= 10**self.limits.digits:
                raise RefusedError(f"a number of more than {self.limits.digits} digits")
            return Constant(value)
        if type(value) is str:
            if len(value) > self.limits.text:
                raise RefusedError(f"a text of more than {self.limits.text} characters")
            if not value.isascii() or not (value.isprintable()):
                raise RefusedError("a text with characters that are not printable ASCII")
            return Constant(value)
        raise RefusedError(f"a constant of type {type(value).__name__} is not allowed")
