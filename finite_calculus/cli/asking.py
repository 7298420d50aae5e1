"""Commands that ask a model about a prompt take the options of their `Question` from here."""

import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any, get_type_hints

from finite_calculus.cli.options import (
    Chat,
    Device,
    Dtype,
    JsonFile,
    Layers,
    Model,
    OptionalAnswer,
    OptionalVersus,
    Prompt,
    PromptFile,
    Quiet,
)
from finite_calculus.cli.question import Question

# What is asked stands in a command's help before its own options, and how it runs after them.
_ASKED: dict[str, tuple[Any, Any]] = {
    "answer": (OptionalAnswer, None),
    "versus": (OptionalVersus, None),
    "model": (Model, "embedded"),
    "prompt": (Prompt, None),
    "prompt_file": (PromptFile, None),
    "chat": (Chat, False),
    "layers": (Layers, "all"),
}
_RUN: dict[str, tuple[Any, Any]] = {
    "json_file": (JsonFile, None),
    "device": (Device, "cpu"),
    "dtype": (Dtype, "float32"),
    "quiet": (Quiet, False),
}
_REQUIRED = inspect.Parameter.empty


def asks(
    *, without: Collection[str] = (), **worded: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command's first parameter, `question`, be made from options that the command need not list.

    `without` names options that the command does not have. `worded` gives an option another annotation, as in
    `answer=Answer`; one that does not admit None is required then.
    """

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        own = [
            parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints[name])
            for name, parameter in inspect.signature(command).parameters.items()
            if name != "question"
        ]
        before, after = (_parameters(options, without, worded) for options in (_ASKED, _RUN))
        asked = [parameter.name for parameter in (*before, *after)]

        @functools.wraps(command)
        def ask(**options: Any) -> None:
            question = Question(**{name: options.pop(name) for name in asked})
            command(question, **options)

        parameters = [*before, *own, *after]
        # typer reads both.
        ask.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportAttributeAccessIssue]
        ask.__annotations__ = {each.name: each.annotation for each in parameters}
        return ask

    return with_options


def _parameters(
    options: dict[str, tuple[Any, Any]], without: Collection[str], worded: dict[str, Any]
) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_default(worded[name], default) if name in worded else default,
            annotation=worded.get(name, annotation),
        )
        for name, (annotation, default) in options.items()
        if name not in without
    ]


def _default(annotation: Any, default: Any) -> Any:
    """None only where the worded option admits it."""
    return default if type(None) in getattr(annotation.__origin__, "__args__", ()) else _REQUIRED
