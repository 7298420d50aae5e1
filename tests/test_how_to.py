"""Every block of a how-to runs alone: Python as it stands, commands in this process on the embedded model."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from finite_calculus.cli import app

PAGES = sorted((Path(__file__).parent.parent / "docs" / "how-to").glob("*.md"))


def blocks(language: str) -> list:
    """Every block of a language, named for its page."""
    return [
        pytest.param(block, id=f"{page.stem}-{number}")
        for page in PAGES
        for number, block in enumerate(
            re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        )
    ]


def test_every_how_to_has_something_to_run() -> None:
    assert len(PAGES) == 11
    names = {param.id.rpartition("-")[0] for param in (*blocks("python"), *blocks("sh"))}
    assert names == {page.stem for page in PAGES}


@pytest.mark.parametrize("block", blocks("python"))
def test_python_runs_alone(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block, "page", "exec"), {"__name__": "page"})
    assert capsys.readouterr().out


@pytest.mark.parametrize("block", blocks("sh"))
def test_commands_run_alone(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    variables: dict[str, str] = {}
    for line in block.splitlines():
        first, *others = shlex.split(line)
        name, is_set, value = first.partition("=")
        if is_set and not others:
            variables[f"${name}"] = value
            continue
        assert first == "finite-calculus", "a block that the tests cannot run is no `sh`"
        result = CliRunner().invoke(app, [variables.get(word, word) for word in others])
        assert result.exit_code == 0, result.output
        assert result.output
