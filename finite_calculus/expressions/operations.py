"""What the functions of a contract may do: a fixed list of small operations on whole numbers and texts.

A contract names an operation by its word here, so that no code ever comes from outside. An operation gets
values within the bounds below and its result is held to them again by the interpreter.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

# What an expression works on.
Value = int | str

MOST_CHARACTERS = 1000
MOST_DIGITS = 40


@dataclass(frozen=True)
class Operation:
    """A function of `parameters`, each a number (int) or a text (str), in words and in code."""

    words: str
    parameters: Mapping[str, type]
    compute: Callable[..., Value]


def _on_text(words: str, compute: Callable[[str], Value]) -> Operation:
    return Operation(words, {"x": str}, compute)


def _on_number(words: str, compute: Callable[[int], Value]) -> Operation:
    return Operation(words, {"x": int}, compute)


# Every operation that an expression may name; there is no other.
OPERATIONS: Mapping[str, Operation] = {
    "upper": _on_text("makes text upper case", str.upper),
    "lower": _on_text("makes text lower case", str.lower),
    "reverse": _on_text("reverses text", lambda x: x[::-1]),
    "first": _on_text("gives the first letter", lambda x: x[:1]),
    "last": _on_text("gives the last letter", lambda x: x[-1:]),
    "count": _on_text("counts the letters", len),
    "twice": _on_text("repeats text twice", lambda x: 2 * x),
    "double": _on_number("doubles a number", lambda x: 2 * x),
    "negate": _on_number("changes the sign", lambda x: -x),
    "next": _on_number("adds one", lambda x: x + 1),
    "square": _on_number("squares a number", lambda x: x * x),
    "repeat": Operation(
        "repeats text a number of times",
        {"x": str, "times": int},
        lambda x, times: x * max(0, min(times, MOST_CHARACTERS)),
    ),
}
