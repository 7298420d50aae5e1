"""The command as a whole: its version, its completion, and that outputs are tried before any work."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import finite_calculus
from finite_calculus.cli import app, question
from finite_calculus.cli.outputs import save_json, writable

ASKED = ["--prompt", "A B", "--answer", "A", "--versus", "B"]


def command(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def test_the_version_is_that_of_the_package() -> None:
    expected = f"finite-calculus {finite_calculus.__version__}\n"
    assert command("--version").output == expected
    module = [sys.executable, "-m", "finite_calculus", "--version"]
    assert subprocess.run(module, capture_output=True, text=True).stdout == expected


def test_completion_can_be_installed() -> None:
    assert "--install-completion" in command("--help").output


@pytest.mark.parametrize(
    "arguments",
    [
        ("score", *ASKED, "--json"),
        ("execute", *ASKED, "--edit", "delete:1:1", "--json"),
        ("evict", *ASKED, "--json"),
        ("restore", *ASKED, "--json"),
        ("steer", *ASKED, "--layer", "1", "--head", "0", "--ratio", "1:0=2", "--json"),
        ("preflight", "--json"),
        ("repair", "case.json", "--json"),
        ("verify", "--json"),
        ("audit", "--stale", "--json"),
        ("audit", "--out"),
        ("run", "joint-kv", "--out"),
        ("summary", "nowhere", "--out"),
    ],
    ids=lambda words: " ".join((words[0], words[-1])),
)
def test_an_output_that_cannot_be_written_is_refused_before_any_work(
    arguments, tmp_path, monkeypatch
) -> None:
    import finite_calculus.checkpoints

    def work(*_: object, **__: object) -> None:
        raise AssertionError("the output was not tried first")

    monkeypatch.setattr(finite_calculus.checkpoints, "load", work)
    (tmp_path / "file").write_text("")
    result = command(*arguments, str(tmp_path / "file" / "out.json"))
    assert result.exit_code == 2, result.output
    assert "cannot write" in " ".join(result.output.replace("│", " ").split())


def test_a_folder_is_no_output_file_and_a_missing_one_is_made(tmp_path: Path) -> None:
    result = command("score", *ASKED, "--json", str(tmp_path))
    assert result.exit_code == 2
    assert "is a directory" in " ".join(result.output.replace("│", " ").split())
    target = tmp_path / "new" / "folder" / "out.json"
    assert writable(target) == target
    assert not (tmp_path / "new").exists()
    save_json(target, {"number": float("nan"), "numbers": (1.0, float("inf"))})
    assert json.loads(target.read_text()) == {"schema": 1, "number": None, "numbers": [1.0, None]}


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True)
    save_json(writable(pipe), {"number": 1})
    assert json.loads(reader.communicate(timeout=10)[0]) == {"schema": 1, "number": 1}
    assert pipe.is_fifo()


def test_numbers_are_never_cut_short(monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(question, "console", lambda: question.Console(width=60))
    tokens = " ".join(map(str, range(100, 160)))
    numbers = [f"{n}.123456789" for n in range(8)]
    columns = ["layer", "tokens", *(f"column {n}" for n in range(8))]
    question.show("title", columns, [["1", tokens, *numbers]])
    output = capsys.readouterr().out
    assert "…" not in output
    assert all(number in output for number in numbers)
    assert all(token in "".join(output.split()) for token in tokens.split())
