"""The commands: a study from start to tables, refusals in plain words."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.studies import command, plain


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nonesuch"], "must be one of"),
        (["joint-kv", "--model", "nonesuch"], "nonesuch"),
        (["joint-kv", "--layers", "1,x"], "--layers must be numbers separated by commas"),
        (["joint-kv", "--layers", "9"], "`layers` must lie in 0..3 of embedded"),
        (["joint-kv", "--design", "final"], "`design` must be supplement or initial"),
        (["joint-kv", "--task", "rhymes"], "'retrieval' or 'sst2'"),
        (["joint-kv", "--strengths", "2"], "less than 1"),
    ],
)
def test_a_wrong_word_is_refused_before_anything_is_loaded(
    words: list[str], message: str, tmp_path: Path
) -> None:
    result = command("run", *words, "--out", str(tmp_path / "run"))
    assert result.exit_code == 2, result.output
    assert message in plain(result.output)
    assert not (tmp_path / "run").exists()


def test_run_status_replay_and_summary(finished: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(finished, tmp_path / "run"))
    shutil.rmtree(out / "units" / "retrieval-002")
    given = ["--task", "retrieval", "--layers", "2", "--strengths", "0.5", "--pairs", "3"]
    result = command("run", "joint-kv", *given, "--batch", "26", "--out", str(out))
    assert result.exit_code == 0, result.output
    assert "retrieval-002  1/1" in result.output
    assert "3 of 3 units are done" in result.output
    assert "replay    not done" in command("status", str(out)).output
    replayed = command("replay", str(out), "--quiet")
    assert replayed.exit_code == 0
    assert "0 disagree" in replayed.output
    assert "all agree" in command("status", str(out)).output
    summary = command("summary", str(out), "--archive", str(tmp_path / "archive"))
    assert summary.exit_code == 0, summary.output
    assert "| retrieval | 2 |" in summary.output
    assert (out / "summary" / "paired.csv").exists()
    assert (tmp_path / "archive" / "manifest.json").exists()
    shutil.rmtree(out / "units" / "retrieval-002")
    refused = command("summary", str(out), "--archive", str(tmp_path / "part"))
    assert refused.exit_code == 1
    assert "must be finished before it is archived" in plain(refused.output)
    refused = command("summary", str(out), "--first", "3")
    assert (
        "`first` must be a number of finished units of the stage main, from its beginning; got 3, and 2"
        in (plain(refused.output))
    )
    part = command("summary", str(out), "--first", "1", "--archive", str(tmp_path / "part"))
    assert part.exit_code == 0, part.output
    kept = (tmp_path / "part" / "summary.md").read_bytes()
    assert b"(A PART: the first 1 of 3 units of the stage main)" in kept.splitlines()[0]
    again = command("summary", str(tmp_path / "part"), "--out", str(tmp_path / "again"))
    assert (tmp_path / "again" / "summary.md").read_bytes() == kept, again.output
    refused = command("summary", str(tmp_path / "part"), "--first", "1")
    assert "`first` must be asked of a run; this is an archive" in plain(refused.output)
    changed = command("run", "joint-kv", *given, "--batch", "9", "--out", str(out), "--quiet")
    assert changed.exit_code == 2
    assert "settings.batch: 26 → 9" in changed.output


def test_an_interruption_says_that_finished_units_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("finite_calculus.harness.executors.run", interrupted)
    result = command("run", "joint-kv", "--task", "retrieval", "--out", str(tmp_path / "run"))
    assert result.exit_code == 130
    assert "finished units are kept" in result.output


def test_damage_gives_exit_code_one(copied: Path) -> None:
    assert command("replay", str(copied), "--quiet").exit_code == 0
    assert "all agree" in command("status", str(copied)).output
    (copied / "units" / "retrieval-000" / "checks.parquet").unlink()
    for words in (["status"], ["replay"], ["summary"]):
        result = command(*words, str(copied))
        assert result.exit_code == 1
        assert "checks.parquet: missing" in result.output
        assert "all agree" not in result.output


def test_the_list_of_studies_imports_none_of_them() -> None:
    program = (
        "import sys; from typer.testing import CliRunner; from finite_calculus.cli import app\n"
        "text = CliRunner().invoke(app, ['run', '--help']).output\n"
        "print('joint-kv' in text, 'finite_calculus.studies.joint_kv' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True False\n"


def test_the_help_of_a_study_shows_its_own_settings() -> None:
    text = plain(command("run", "joint-kv", "--help").output)
    for flag in ("--task", "--layers", "--strengths", "--pairs", "--no-captures", "--workers"):
        assert flag in text


@pytest.mark.parametrize("name", ["run", "status", "replay", "again", "summary"])
def test_help_shows_an_example(name: str) -> None:
    assert f"finite-calculus {name} " in plain(command(name, "--help").output)
