"""Every `raise` of the native part is provoked by a test that looks for words of its own message.

A refusal counts as provoked if some `match=` of the tests holds a piece of literal text that stands in
its message and in no other message of the package: a passing test with that `match` raised it.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("finite_calculus/models", "finite_calculus/checkpoints", "native_checks")
TESTS = ("tests/models", "tests/checkpoints")
LENGTH = 9


def trees(folders: tuple[str, ...]) -> Iterator[tuple[Path, ast.Module]]:
    for folder in folders:
        for path in sorted((ROOT / folder).glob("*.py")):
            yield path, ast.parse(path.read_text(encoding="utf-8"))


def literal_text(node: ast.AST) -> str:
    """The constant parts of a message, with a mark where a value is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(literal_text(part) for part in node.values)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return "\0"


def messages() -> dict[str, str]:
    """The literal text of every `raise` that makes an exception, by file and line."""
    messages = {}
    for path, tree in trees(SOURCES):
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                text = "\0".join(literal_text(argument) for argument in node.exc.args)
                messages[f"{path.relative_to(ROOT)}:{node.lineno}"] = text
    return messages


def grams(text: str) -> set[str]:
    """All runs of LENGTH characters that no filled-in value interrupts."""
    return {
        part[i : i + LENGTH] for part in text.split("\0") for i in range(len(part) - LENGTH + 1)
    }


def looked_for() -> set[str]:
    """The runs of every string in the tests that is no docstring: patterns, and tables of patterns."""
    expected: set[str] = set()
    for _, tree in trees(TESTS):
        spoken = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or id(node) in spoken:
                continue
            if isinstance(node.value, str):
                expected |= grams(re.sub(r"\\(\W)", r"\1", node.value).replace(".*", "\0"))
    return expected


def provoked(text: str, others: list[str], runs: set[str]) -> bool:
    """Whether a run of this message, and of no other one, is looked for."""
    return bool((grams(text) & runs).difference(*map(grams, others)))


def test_every_refusal_is_provoked_by_words_of_its_own():
    said, runs = messages(), looked_for()
    assert len(said) > 60
    unprovoked = [
        where
        for where, text in said.items()
        if not provoked(text, [other for at, other in said.items() if at != where], runs)
    ]
    assert unprovoked == []


def test_a_refusal_that_no_test_names_would_be_found():
    runs = grams("must be positive; got -1")
    assert provoked("`x` must be positive; got \0", ["`y` must be even; got \0"], runs)
    assert not provoked("`x` must be positive; got \0", ["`y` must be positive; got \0"], runs)
    assert not provoked("`z` must be odd; got \0", [], runs)
