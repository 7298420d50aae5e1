"""The question that a command of a search asks a model, its capture, and how answers are shown and saved."""

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from finite_calculus.cli.display import console
from finite_calculus.provenance.files import read_text

if TYPE_CHECKING:
    from finite_calculus.checkpoints import Origin
    from finite_calculus.models import Capture, Instrument, Passage

T = TypeVar("T")
# Bytes of a prompt: more than any context holds.
_LONGEST = 1 << 26


@dataclass
class Question:
    """What a command asks a model about a prompt; `captured` adds what the model is.

    `asking.py` makes one from a command's options. `recorded` says that the model's hashes are needed, which
    `json_file` implies.
    """

    model: str = "embedded"
    prompt: str | None = None
    prompt_file: Path | None = None
    chat: bool = False
    answer: str | None = None
    versus: str | None = None
    layers: str = "all"
    json_file: Path | None = None
    device: str = "cpu"
    dtype: str = "float32"
    quiet: bool = False
    curvature: int = 0
    recorded: bool = False
    origin: "Origin | None" = field(default=None, init=False)
    fingerprint: dict[str, str] = field(default_factory=dict, init=False)
    text: str = field(default="", init=False)

    def say(self, words: str) -> None:
        """Tell what is going on, unless the command is to be quiet."""
        if not self.quiet:
            print(words, flush=True)

    @property
    def label(self) -> str:
        """The model as it is reported: with the commit of a hub model, without the path of a folder."""
        return self.model if self.origin is None else self.origin.label


@contextmanager
def opened(question: Question) -> "Iterator[tuple[Instrument, tuple[int, ...]]]":
    """The model attached, with the layers that were asked for; a mistake in the options ends the command."""
    from finite_calculus.checkpoints import load, origin_of, require_tokenizer
    from finite_calculus.models import attach

    question.say(f"loading {question.model} ...")
    model, loaded = or_refuse(
        lambda: load(question.model, dtype=question.dtype, device=question.device)
    )
    tokenizer = or_refuse(lambda: require_tokenizer(model, loaded))
    question.origin = origin_of(model)
    if question.json_file is not None or question.recorded:
        # Only for a record: the hash of the weights of a large model takes seconds.
        from native_checks.fingerprint import fingerprint

        question.fingerprint = fingerprint(model)
    with ExitStack() as stack:
        instrument = or_refuse(lambda: stack.enter_context(attach(model, tokenizer=tokenizer)))
        count = len(instrument.support.sites)
        yield instrument, or_refuse(lambda: chosen_layers(question.layers, count))


@contextmanager
def attached(question: Question) -> "Iterator[tuple[Instrument, tuple[int, ...]]]":
    """The model attached as `opened` does it, and the prompt as the model is to read it."""
    text = prompt_text(question)
    with opened(question) as (instrument, layers):
        question.text = or_refuse(lambda: in_chat(question, instrument.tokenizer, text))
        yield instrument, layers


@contextmanager
def captured(question: Question) -> "Iterator[tuple[Instrument, Capture]]":
    """The model attached and the prompt captured; a mistake in the options ends the command."""
    with attached(question) as (instrument, layers):
        more = f", then {question.curvature} directions of each layer twice" * (
            question.curvature > 0
        )
        question.say(f"capturing: the prefix, the last query and one backward pass{more} ...")
        yield instrument, or_refuse(lambda: capture_of(question, instrument, layers))


def capture_of(question: Question, instrument: "Instrument", layers: tuple[int, ...]) -> "Capture":
    """The capture that a question asks for."""
    answer, versus = sides(question, instrument)
    return instrument.capture(
        question.text, answer=answer, versus=versus, layers=layers, curvature=question.curvature
    )


def sides(question: Question, instrument: "Instrument") -> "tuple[int | str, int | str]":
    """The two tokens that are compared; the two likeliest ones where neither was given."""
    if question.answer is not None and question.versus is not None:
        return token(question.answer), token(question.versus)
    if question.answer is not None or question.versus is not None:
        raise ValueError("give both --answer and --versus, or neither.")
    first, second = (
        instrument.prompt(instrument.encode(question.text)).run_last()[0].topk(2).indices.tolist()
    )
    question.answer, question.versus = f"#{first}", f"#{second}"
    return first, second


def prompt_text(question: Question) -> str:
    """The prompt from the option or the file; exactly one of them, and not empty."""
    if (question.prompt is None) == (question.prompt_file is None):
        raise typer.BadParameter("give exactly one of --prompt and --prompt-file.")
    if question.prompt is not None:
        text = question.prompt
    else:
        path = Path(str(question.prompt_file))
        try:
            text = read_text(path, _LONGEST)
        except (OSError, ValueError) as error:
            raise typer.BadParameter(f"cannot read the prompt from {path}: {error}") from None
    if not text.strip():
        raise typer.BadParameter("the prompt is empty; it needs at least two tokens.")
    return text


def in_chat(question: Question, tokenizer: Any, text: str) -> str:
    """The text as the user's message of the model's chat, if the command asks for that."""
    if not question.chat:
        return text
    if not getattr(tokenizer, "chat_template", None):
        raise ValueError(f"--chat needs a model with a chat template; {question.label} has none.")
    message = [{"role": "user", "content": text}]
    return tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)


def token(text: str) -> int | str:
    """A token as text, or by id as #ID."""
    return int(text[1:]) if text.startswith("#") and text[1:].isdigit() else text


def chosen_layers(text: str, count: int) -> tuple[int, ...]:
    """Layers written as 18, as 0,3,7-9 or as all."""
    from finite_calculus.search.specs import parse_numbers

    return (
        tuple(range(count)) if text == "all" else parse_numbers(text, limit=count, name="--layers")
    )


def or_refuse(action: Callable[[], T]) -> T:
    """The result of an action; what it refuses becomes the command's error, without a traceback."""
    from finite_calculus.checkpoints import CheckpointError
    from finite_calculus.models import UnsupportedModelError

    try:
        return action()
    except (ValueError, TypeError, CheckpointError, UnsupportedModelError) as error:
        raise typer.BadParameter(str(error)) from None


def headline(question: Question, capture: "Capture") -> str:
    """Model, prompt length and baseline margin in one line."""
    return (
        f"{question.label}, {len(capture.ids)} tokens, layers {question.layers}: "
        f"logit({question.answer!r}) − logit({question.versus!r}) = {capture.baseline:+.4f}"
    )


def made(question: Question) -> dict[str, Any]:
    """How a JSON file was made: by which command and versions, with which model."""
    return {
        "command": shlex.join(["finite-calculus", *sys.argv[1:]]),
        "made_with": {name: version(name) for name in ("finite_calculus", "torch", "transformers")},
        "model": question.label,
        "fingerprint": question.fingerprint,
    }


def described(question: Question, capture: "Capture | Passage", **more: Any) -> dict[str, Any]:
    """The head of the JSON file of one prompt: how it was made, and what was asked."""
    return {
        **made(question),
        "tokens": len(capture.ids),
        "answer": question.answer,
        "versus": question.versus,
        "baseline": capture.baseline,
        "layers": capture.numbers,
        **more,
    }


def show(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """A table on the console: text to the left, where it may be folded, and numbers to the right, whole."""
    table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    for column in columns:
        left = column in ("edit", "text", "tokens", "request", "generated")
        table.add_column(
            column, justify="left" if left else "right", no_wrap=not left, overflow="fold"
        )
    for row in rows:
        table.add_row(*row)
    terminal = console()
    least = Measurement.get(terminal, terminal.options.update(max_width=10**6), table).minimum
    if least > terminal.width:
        # Lines that are too long for the terminal rather than numbers cut short.
        terminal = Console(width=least)
    terminal.print(table, markup=False)
