"""What the commands of a search share: their options, and the captured prompt that they work on."""

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from finite_calculus.cli.display import console

if TYPE_CHECKING:
    from finite_calculus.models import Capture, Instrument

Model = Annotated[str, typer.Option(help="A name that `finite-calculus models` lists.")]
Prompt = Annotated[str | None, typer.Option(help="The prompt; its last token reads the others.")]
PromptFile = Annotated[Path | None, typer.Option(help="Read the prompt from this file, UTF-8.")]
Chat = Annotated[
    bool, typer.Option("--chat", help="Wrap the prompt as a user's message of the model's chat.")
]
Answer = Annotated[str, typer.Option(help="One token, as text or #ID; positive is towards it.")]
Versus = Annotated[str, typer.Option(help="The token it is compared with, as text or #ID.")]
Layers = Annotated[str, typer.Option(help="Layers as in 18 or 0,3,7-9, or all.")]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the results to this file.")]
Device = Annotated[str, typer.Option(help="torch device; only cpu has been tested.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the results.")]

T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """The options that every command takes."""

    model: str
    prompt: str | None
    prompt_file: Path | None
    chat: bool
    answer: str
    versus: str
    layers: str
    device: str
    quiet: bool


@contextmanager
def captured(asked: Asked) -> "Iterator[tuple[Instrument, Capture]]":
    """The model attached and the prompt captured; a mistake in the options ends the command."""
    from finite_calculus.checkpoints import load
    from finite_calculus.models import attach

    say = (lambda text: None) if asked.quiet else (lambda text: print(text, flush=True))
    text = prompt_text(asked)
    say(f"loading {asked.model} ...")
    model, tokenizer = or_refuse(lambda: load(asked.model, device=asked.device))
    text = or_refuse(lambda: in_chat(asked, tokenizer, text))
    with attach(model, tokenizer=tokenizer) as instrument:
        count = len(instrument.support.sites)
        layers = or_refuse(lambda: chosen_layers(asked.layers, count))
        say("capturing: the prefix, the last query and one backward pass ...")
        capture = or_refuse(
            lambda: instrument.capture(
                text, answer=token(asked.answer), versus=token(asked.versus), layers=layers
            )
        )
        yield instrument, capture


def prompt_text(asked: Asked) -> str:
    """The prompt from the option or the file; exactly one of them, and not empty."""
    if (asked.prompt is None) == (asked.prompt_file is None):
        raise typer.BadParameter("give exactly one of --prompt and --prompt-file.")
    if asked.prompt is not None:
        text = asked.prompt
    else:
        path = Path(str(asked.prompt_file))
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise typer.BadParameter(f"cannot read the prompt from {path}: {error}") from None
    if not text.strip():
        raise typer.BadParameter("the prompt is empty; it needs at least two tokens.")
    return text


def in_chat(asked: Asked, tokenizer: Any, text: str) -> str:
    """The text as the user's message of the model's chat, if the command asks for that."""
    if not asked.chat:
        return text
    if not getattr(tokenizer, "chat_template", None):
        raise ValueError(f"--chat needs a model with a chat template; {asked.model} has none.")
    message = [{"role": "user", "content": text}]
    return tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)


def token(text: str) -> int | str:
    """A token as text, or by id as #ID."""
    return int(text[1:]) if text.startswith("#") and text[1:].isdigit() else text


def chosen_layers(text: str, count: int) -> tuple[int, ...]:
    """Layers written as 18, as 0,3,7-9 or as all."""
    from finite_calculus.search.specs import parse_numbers

    return tuple(range(count)) if text == "all" else parse_numbers(text, limit=count)


def or_refuse(action: Callable[[], T]) -> T:
    """The result of an action; what it refuses becomes the command's error, without a traceback."""
    from finite_calculus.checkpoints import CheckpointError
    from finite_calculus.models import UnsupportedModelError

    try:
        return action()
    except (ValueError, TypeError, CheckpointError, UnsupportedModelError) as error:
        raise typer.BadParameter(str(error)) from None


def headline(asked: Asked, capture: "Capture") -> str:
    """Model, prompt length and baseline margin in one line."""
    return (
        f"{asked.model}, {len(capture.ids)} tokens, layers {asked.layers}: "
        f"logit({asked.answer!r}) − logit({asked.versus!r}) = {capture.baseline:+.4f}"
    )


def described(asked: Asked, capture: "Capture", **more: Any) -> dict[str, Any]:
    """The head of every JSON file: what was asked, with the command and the versions that answered."""
    return {
        "command": shlex.join(["finite-calculus", *sys.argv[1:]]),
        "made_with": {name: version(name) for name in ("finite_calculus", "torch", "transformers")},
        "model": asked.model,
        "tokens": len(capture.ids),
        "answer": asked.answer,
        "versus": asked.versus,
        "baseline": capture.baseline,
        "layers": [layer.layer for layer in capture.layers],
        **more,
    }


def save(path: Path | None, content: dict[str, Any]) -> None:
    """Write JSON, if a file was asked for; numbers that JSON does not know become null."""
    if path is not None:
        path.write_text(json.dumps(_plain(content), indent=1, ensure_ascii=False) + "\n")


def show(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """A table on the console, the text column to the left and all else to the right."""
    table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    for column in columns:
        left = column in ("edit", "text", "tokens", "request", "generated")
        table.add_column(column, justify="left" if left else "right", no_wrap=column != "generated")
    for row in rows:
        table.add_row(*row)
    console().print(table, markup=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value - value != 0:
        return None
    return value
