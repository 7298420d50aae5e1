"""One mistake and the message that refuses it; where the package raises."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import finite_calculus as fc

PACKAGE = Path(fc.__file__).parent


class Refusal(NamedTuple):
    """One mistake; its message names, in this order, the argument, the requirement and what came.

    The parts of `says` stand between ellipses.
    """

    id: str
    call: Callable[[], object]
    error: type[Exception]
    says: str


TYPE, VALUE = TypeError, ValueError


def place(error: BaseException) -> tuple[str, int]:
    """File and line of the statement that raised."""
    frame = error.__traceback__
    assert frame is not None
    while frame.tb_next is not None:
        frame = frame.tb_next
    return Path(frame.tb_frame.f_code.co_filename).name, frame.tb_lineno


def raise_statements() -> set[tuple[str, int]]:
    """File and line of every `raise` in the package."""
    return {
        (path.name, node.lineno)
        for path in PACKAGE.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Raise)
    }
