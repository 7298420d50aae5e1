"""A file of prompts in JSON lines: one object a line, with `prompt` and what is asked of it.

`answer` and `versus` are the two tokens that are compared, `edits` what is done to this prompt, `name` what
it is called in a table; all but `prompt` may be left out. Every line is read before any prompt is run, and
what is wrong is said of all lines at once, by their numbers.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from finite_calculus.provenance.files import read_text

T = TypeVar("T")
_TEXTS = ("prompt", "answer", "versus", "name")
_SHOWN = 5


@dataclass(frozen=True)
class PromptLine:
    """One line: its number in the file, from one, and what it says; None for what it leaves out."""

    number: int
    prompt: str
    answer: str | None = None
    versus: str | None = None
    name: str | None = None
    edits: tuple[str, ...] | None = None


def read_prompts(path: Path) -> tuple[PromptLine, ...]:
    """The prompts of a file in JSON lines; empty lines are passed over, any other must be right."""
    try:
        lines = read_text(path).removeprefix("\ufeff").split("\n")
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read prompts from {path}: {error}") from None
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not numbered:
        raise ValueError(f"{path} must hold a prompt on some line; it holds none.")
    return each_line(
        path, ((number, lambda n=number, t=text: _line(n, t)) for number, text in numbered)
    )


def each_line(path: Path, work: Iterable[tuple[int, Callable[[], T]]]) -> tuple[T, ...]:
    """What is made of each line; the lines of which nothing can be made are refused together, by number."""
    results: list[T] = []
    wrong: list[str] = []
    for number, make in work:
        try:
            results.append(make())
        except (ValueError, TypeError) as error:
            wrong.append(f"line {number}: {error}")
    if wrong:
        more = f"\n(and {len(wrong) - _SHOWN} more)" if len(wrong) > _SHOWN else ""
        raise ValueError(
            f"Every line of {path} must be usable, and nothing was run: {len(wrong)} of them cannot.\n"
            + "\n".join(wrong[:_SHOWN])
            + more
        )
    return tuple(results)


def _line(number: int, text: str) -> PromptLine:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it must be one JSON object; {error}.") from None
    if not isinstance(fields, dict):
        raise ValueError(f'it must be an object such as {{"prompt": "…"}}; got {_kind(fields)}.')
    unknown = sorted(fields.keys() - {*_TEXTS, "edits"})
    if unknown:
        raise ValueError(
            f"{unknown[0]!r} is no field of a prompt; there are {', '.join(_TEXTS)} and edits."
        )
    for name in _TEXTS:
        if fields.get(name) is not None and not isinstance(fields[name], str):
            raise ValueError(f"`{name}` must be a text; got {_kind(fields[name])}.")
    if not (fields.get("prompt") or "").strip():
        raise ValueError("`prompt` must be a text with something in it; it is missing or empty.")
    edits = fields.get("edits")
    if edits is not None and not (
        isinstance(edits, list) and edits and all(isinstance(edit, str) for edit in edits)
    ):
        raise ValueError(
            f'`edits` must be a list of texts, as in ["delete:1:3"]; got {_kind(edits)}.'
        )
    return PromptLine(number, **{**fields, "edits": None if edits is None else tuple(edits)})


def _kind(value: Any) -> str:
    """What came, in a few words."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:39] + "…"
