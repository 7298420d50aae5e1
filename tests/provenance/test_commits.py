"""The commit of the code: only where it says what the code is."""

import subprocess
from pathlib import Path

import pytest

from finite_calculus.provenance import commits
from finite_calculus.provenance.commits import code_commit


def _git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    command = ["git", "-C", str(folder), *who, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_is_known_while_nothing_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "finite_calculus" / "__init__.py"
    module.parent.mkdir()
    module.write_text("one = 1\n")
    monkeypatch.setattr(commits, "_ROOT", tmp_path)
    assert code_commit() is None  # no repository
    _git(tmp_path, "init", "--quiet")
    assert code_commit() is None  # the repository does not hold it
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "--quiet", "-m", "one")
    assert code_commit() == _git(tmp_path, "rev-parse", "HEAD")
    (tmp_path / "notes.txt").write_text("no code")
    assert code_commit() is not None
    module.write_text("one = 2\n")
    assert code_commit() is None
