"""Options that a command takes from `asks`: its question holds them, and only worded ones are required."""

import inspect

import typer
from typer.testing import CliRunner

from finite_calculus.cli.asking import asks
from finite_calculus.cli.options import Answer
from finite_calculus.cli.question import Question

asked: list[tuple[Question, int]] = []


@asks(without=("layers",), answer=Answer)
def command(question: Question, top: int = 3) -> None:
    asked.append((question, top))


def invoke(*words: str):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, words)


def test_a_question_holds_what_was_given_and_the_command_its_own_options() -> None:
    asked.clear()
    assert (
        invoke("--answer", "A", "--prompt", "x", "--dtype", "float16", "--top", "5").exit_code == 0
    )
    expected = Question(answer="A", prompt="x", dtype="float16")
    assert asked == [(expected, 5)]


def test_a_worded_option_that_admits_no_none_is_required_and_no_other_is() -> None:
    result = invoke("--prompt", "x")
    assert result.exit_code == 2
    assert "Missing option '--answer'" in result.output
    required = [
        each.name
        for each in inspect.signature(command).parameters.values()
        if each.default is inspect.Parameter.empty
    ]
    assert required == ["answer"]


def test_an_option_that_a_command_goes_without_is_refused() -> None:
    result = invoke("--answer", "A", "--layers", "3")
    assert result.exit_code == 2
    assert "No such option: --layers" in result.output
