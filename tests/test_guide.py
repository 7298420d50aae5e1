"""The command alone teaches: where to begin, commands in groups, examples in help and after errors."""

import re
import shlex

import pytest
import typer
from typer.testing import CliRunner

from finite_calculus.cli import app
from finite_calculus.cli.guide import START, example
from finite_calculus.cli.study_commands import study_command
from finite_calculus.harness.options import settings_from
from finite_calculus.harness.registry import find_study, study_names
from finite_calculus.harness.settings import ModelSettings

ROOT = typer.main.get_command(app)
COMMANDS = ROOT.commands  # type: ignore[attr-defined]


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def words_of(command: str) -> tuple[str, list[str]]:
    """A command as a shell reads it: its name and its arguments."""
    program, name, *arguments = shlex.split(command)
    assert program == "finite-calculus"
    return name, arguments


def test_without_a_command_it_says_where_to_begin() -> None:
    result = run()
    assert (result.exit_code, result.output) == (0, START + "\n")


def test_every_command_that_the_start_names_can_be_typed() -> None:
    lines = re.sub(r" \\\n +", " ", START).splitlines()
    commands = [
        re.split(r" {2,}", line.strip())[0] for line in lines if "  finite-calculus" in line
    ]
    assert len(commands) == 9
    for command in commands:
        name, arguments = words_of(command)
        if not name.startswith("--"):
            COMMANDS[name].make_context(name, arguments)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_of_a_command_parses(name: str) -> None:
    words = example(COMMANDS[name])
    assert words is not None
    named, arguments = words_of(words)
    assert named == name
    COMMANDS[name].make_context(name, arguments)


@pytest.mark.parametrize("name", study_names())
def test_the_example_of_a_study_parses_and_its_settings_are_complete(name: str, tmp_path) -> None:
    study = find_study(name)
    command = study_command(study)
    group, (named, *arguments) = words_of(str(example(command)))
    assert (group, named) == ("run", name)
    context = command.make_context(name, arguments)
    given = {"model": context.params["model"]} if issubclass(study.Settings, ModelSettings) else {}
    assert settings_from(study.Settings, given, 2).title


def test_every_command_stands_in_a_group_and_a_run_comes_before_its_status() -> None:
    output = run("--help").output
    groups = re.findall(r"╭─ ([\w ]+?) ─", output)
    assert groups[1:] == [
        "A model and its edits", "Decisions about a cache", "Studies", "Pages and figures",
        "Proofs and bounds",
    ]  # fmt: skip
    assert output.index("│ run ") < output.index("│ status ")
    assert "Exit codes: 0 done" in output


@pytest.mark.parametrize(
    ("wrong", "shown"),
    [
        (["score", "--prompt", "A"], "finite-calculus score --model smollm2-135m-instruct"),
        (["status"], "finite-calculus status joint"),
        (["run", "joint-kv"], "finite-calculus run joint-kv --out joint-kv"),
        (["run", "no-study"], "finite-calculus run joint-kv --model embedded"),
        (["figure", "nothing"], "finite-calculus figure errors results/joint-kv"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_wrong_words_are_answered_with_an_example(wrong: list[str], shown: str) -> None:
    result = run(*wrong)
    assert result.exit_code == 2
    assert f"For example:\n  {shown}" in result.output


def test_help_and_an_unknown_command_get_no_example() -> None:
    assert "For example" not in run("score", "--help").output
    unknown = run("scor")
    assert unknown.exit_code == 2
    assert "For example" not in unknown.output
    assert "Did you mean 'score'?" in unknown.output
