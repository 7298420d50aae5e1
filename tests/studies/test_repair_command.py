"""`finite-calculus repair`: a case of one's own from a file, its answers checked, its mistakes named."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from finite_calculus.cli import app
from finite_calculus.studies.answer_repair.case_file import read_case, written_case
from finite_calculus.tasks.api_cases import api_case

CASE = api_case("search", "plain", 0, seed=3)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "case.json"
    path.write_text(json.dumps(written_case(CASE)))
    return path


def changed(file: Path, **more: Any) -> Path:
    file.write_text(json.dumps(json.loads(file.read_text()) | more))
    return file


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["repair", *words])
    return result.exit_code, " ".join(result.output.replace("│", " ").split())


def test_a_written_case_is_read_as_it_was(file: Path) -> None:
    case = read_case(file)
    same = ("chat", "message", "emphasised", "reply", "contract", "target", "trials")
    assert all(getattr(case, name) == getattr(CASE, name) for name in same)
    assert CASE.solution.startswith(case.solution)


def test_the_command_shows_every_branch_and_writes_it(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    words = ("--tries", "2", "--tokens", "4", "--quiet", "--json", str(out))
    code, text = run(str(file), *words)
    assert code == 0
    assert "no ranked edit that was tried repairs the answer" in text
    assert "is not an input of the contract" in text
    saved = json.loads(out.read_text())
    arms = [row["arm"] for row in saved["continuations"]]
    expected = ["ordinary", "no-op", "target forced", "ranked", "ranked", "emphasis", "emphasis"]
    assert arms == expected
    assert saved["checks_failed"] == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "other"}, "`target` must be one of the functions"),
        ({"functions": {CASE.target: "shout"}}, "`functions` must map names to operations"),
        ({"checks": []}, "checks: Tuple should have at least 1 item"),
        ({"checks": [{"inputs": {"x": "a"}, "expected": 1}]}, "`checks` must give a value"),
        ({"more": 1}, "more: Extra inputs are not permitted"),
    ],
)
def test_a_wrong_case_is_refused_with_its_reason(file: Path, change: Any, message: str) -> None:
    code, text = run(str(changed(file, **change)))
    assert code == 2
    assert message in text


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    code, text = run(str(tmp_path / "nowhere.json"))
    assert code == 2
    assert "The case must be a readable file" in text
