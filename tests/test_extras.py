"""A command whose packages are not installed names the extra that brings them."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from finite_calculus import cli
from finite_calculus.entry import EXTRAS, main

ROOT = Path(__file__).parent.parent
# Packages whose import name is not the name they are installed by.
IMPORT_NAMES = {"python-flint": "flint"}

# The command with some packages hidden: importing one raises ModuleNotFoundError, as if it were not there.
PROGRAM = """
import sys

hidden, *words = sys.argv[1:]
sys.modules.update(dict.fromkeys(filter(None, hidden.split(","))))
sys.argv = ["finite-calculus", *words]
from finite_calculus.entry import main

main()
"""


def run_without(extras: set[str], *words: str) -> subprocess.CompletedProcess[str]:
    """A command where the packages of these extras are missing."""
    # pydantic stays: a new typer needs it too, so that it is there wherever a command runs.
    packages = EXTRAS.keys() - {"pydantic"}
    hidden = ",".join(package for package in packages if EXTRAS[package] in extras)
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, hidden, *words], capture_output=True, text=True, check=False
    )


def test_the_extras_are_those_of_the_project_file():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = {}
    for extra in ("cli", "verify", "models", "gguf", "studies", "report", "ray", "objects"):
        for requirement in project["optional-dependencies"][extra]:
            name = requirement.partition(">=")[0]
            if not name.startswith("finite-calculus"):
                listed[IMPORT_NAMES.get(name, name)] = extra
    assert listed == EXTRAS


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["verify", "--only", "main:joint"], "verify"),
        (["audit", "--cases", "1"], "verify"),
        (["score", "--prompt", "The cat", "--answer", " sat", "--versus", " ran"], "models"),
        (["preflight", "embedded"], "models"),
        (["run", "joint-kv"], "studies"),
        (["run", "--help"], "studies"),
        (["status", "anywhere"], "studies"),
        (["replay", "anywhere"], "studies"),
        (["summary", "anywhere"], "studies"),
    ],
)
def test_a_command_names_the_extra_it_needs(words: list[str], extra: str):
    result = run_without(set(EXTRAS.values()) - {"cli"}, *words)
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"pip install 'finite-calculus[{extra}]'" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("words", [["--help"], ["verify"], []])
def test_without_the_command_line_every_command_names_its_extra(words: list[str]):
    result = run_without(set(EXTRAS.values()), *words)
    assert result.returncode == 1
    assert "pip install 'finite-calculus[cli]'" in result.stderr


def test_help_needs_only_the_command_line():
    result = run_without(set(EXTRAS.values()) - {"cli"}, "--help")
    assert result.returncode == 0, result.stderr
    assert "preflight" in result.stdout


def test_a_missing_package_of_no_extra_is_not_explained_away(monkeypatch: pytest.MonkeyPatch):
    def fail() -> None:
        raise ModuleNotFoundError("No module named 'nonesuch'", name="nonesuch")

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(ModuleNotFoundError, match="nonesuch"):
        main()
