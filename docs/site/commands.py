"""The commands as a page: what `--help` says, made from the commands themselves."""

import inspect
from collections.abc import Iterator
from typing import Any

import typer
from texts import code, words

from finite_calculus.cli import app
from finite_calculus.cli.guide import EXIT_CODES, START
from finite_calculus.cli.study_commands import study_command
from finite_calculus.harness.registry import find_study, study_names


def commands_page() -> str:
    """The page as Markdown."""
    return "\n".join(_page())


def _page() -> Iterator[str]:
    yield from ("# Commands", "", "```text", START, "```", "", words(EXIT_CODES), "")
    root: Any = typer.main.get_command(app)
    panel = None
    for name in root.list_commands(None):
        command = root.commands[name]
        if command.rich_help_panel != panel:
            panel = command.rich_help_panel
            yield from (f"## {panel}", "")
        yield from _command(name, command)
        if name == "run":
            for study in study_names():
                yield from _command(f"run {study}", study_command(find_study(study)))


def _command(name: str, command: Any) -> Iterator[str]:
    yield from (f"### {name}", "", _described(inspect.cleandoc(command.help or "")), "")
    options = [each for each in command.params if getattr(each, "help", None)]
    if options:
        yield from ("| option | what it is |", "|---|---|")
        yield from (
            f"| {_flags(each)} | {words(' '.join(each.help.split()))} |" for each in options
        )
        yield ""


def _flags(option: Any) -> str:
    if option.param_type_name == "argument":
        return code(option.name.upper())
    return ", ".join(code(flag) for flag in (*option.opts, *option.secondary_opts))


def _described(text: str) -> str:
    """The text of a help; a study's is a docstring, in which an indented block is to be kept."""
    return "\n\n".join(words(block) for block in text.split("\n\n"))
