"""Every search command that the README and its page print runs, on the checkpoint that it names."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from finite_calculus.checkpoints import available
from finite_calculus.cli import app

ROOT = Path(__file__).parents[2]
PAGES = "".join((ROOT / name).read_text("utf-8") for name in ("README.md", "docs/search.md"))
NAMES = ("score", "execute", "steer", "evict", "restore")


def commands() -> list[list[str]]:
    """Arguments of the printed commands, continued lines joined."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGES, re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    commands = [shlex.split(line) for line in lines if line.startswith("finite-calculus ")]
    return [words[1:] for words in commands if words[1] in NAMES]


def test_the_pages_show_every_command_of_the_search() -> None:
    assert {words[0] for words in commands()} == set(NAMES)
    assert any("--model" not in words for words in commands())


@pytest.mark.parametrize("words", commands(), ids=lambda words: words[0])
def test_a_printed_command_runs(words: list[str], tmp_path: Path) -> None:
    model = words[words.index("--model") + 1] if "--model" in words else "embedded"
    if not available(model):
        pytest.skip(f"{model} is not in the cache")
    result = CliRunner().invoke(app, [*words, "--quiet", "--json", str(tmp_path / "out.json")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out.json").exists()
