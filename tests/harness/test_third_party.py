"""A study of two stages without a model, known to the harness by an entry point alone."""

import json
import re
import shutil
from pathlib import Path

import pytest

from finite_calculus.harness import StoreError, find_study, registry, study_names
from finite_calculus.harness.executors import Processes
from finite_calculus.harness.runner import run
from finite_calculus.provenance.digests import digest
from tests.helpers.studies import command, contents, plain
from tests.helpers.toy_study import STUDY, ToySettings

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _installed(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy as an installed distribution, also for worker processes."""
    site = tmp_path_factory.mktemp("site")
    folder = site / "toy_study-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-study\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        f"[{registry.GROUP}]\ntoy = tests.helpers.toy_study:STUDY\n"
    )
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", f"{site}:{ROOT}")


def test_it_is_listed_after_ours_and_found_by_name() -> None:
    assert study_names()[-1] == "toy"
    assert find_study("toy") is STUDY
    listed = command("run", "--help").output
    assert re.search(r"toy .*A toy of two stages without a model", listed)


def test_its_help_shows_its_settings_and_those_of_every_run() -> None:
    shown = plain(command("run", "toy", "--help").output)
    for words in (
        "--draws",
        "Draws of a unit.",
        "--workers",
        "--resamples",
        "calibrate a threshold",
    ):
        assert words in shown
    assert "--model" not in shown
    assert "--layers" not in shown


def test_from_run_to_summary_by_commands(tmp_path: Path) -> None:
    out = str(tmp_path / "run")
    started = command("run", "toy", "--draws", "4", "--out", out)
    assert started.exit_code == 0, started.output
    assert "4 of 4 units are done" in started.output
    shown = command("status", out).output
    assert "stages    calibrate 2 of 2, test 2 of 2" in shown
    assert "gate      none: the study has no model" in shown
    assert "checks    4 recorded, 0 failed" in shown
    assert "4 numbers of 4 units: 0 disagree" in command("replay", out, "--quiet").output
    archive = tmp_path / "archive"
    summary = command("summary", out, "--archive", str(archive))
    assert summary.exit_code == 0, summary.output
    assert "| calibrate | " in summary.output
    again = command("summary", str(archive), "--out", str(tmp_path / "again"))
    assert again.exit_code == 0, again.output
    kept = (archive / "summary.md").read_bytes()
    assert kept == (tmp_path / "again" / "summary.md").read_bytes()
    assert (
        "run toy --seed 5 --draws 4 --units 2"
        in json.loads((archive / "manifest.json").read_text())["command"]
    )


def test_two_processes_leave_the_records_of_one(tmp_path: Path) -> None:
    settings = ToySettings(units=4)
    run(STUDY, settings, tmp_path / "one")
    assert Processes(2)(STUDY, settings, tmp_path / "two").done == 8
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_a_stage_follows_the_policy_that_the_one_before_it_fixed(tmp_path: Path) -> None:
    out = tmp_path / "run"
    first = run(STUDY, ToySettings(), out, limit=2)
    assert (first.done, first.total) == (2, 4)
    policy = json.loads((out / "policy-calibrate.json").read_text())
    assert 0 < policy["policy"]["threshold"] < 1
    assert json.loads((out / "plan-test.json").read_text())["policy"] == policy["sha256"]
    assert run(STUDY, ToySettings(), out).done == 4


def test_a_stage_refuses_another_policy(tmp_path: Path) -> None:
    out = tmp_path / "run"
    run(STUDY, ToySettings(), out, limit=2)
    path = out / "policy-calibrate.json"
    saved = json.loads(path.read_text())
    path.write_text(json.dumps({**saved, "policy": {"threshold": 0.1}}))
    with pytest.raises(StoreError, match="its sha256 is not that of its policy"):
        run(STUDY, ToySettings(), out)
    other = {"threshold": 0.1}
    path.write_text(json.dumps({**saved, "policy": other, "sha256": digest(other)}))
    with pytest.raises(StoreError, match="must be the policy that the records of calibrate give"):
        run(STUDY, ToySettings(), out)
    assert not (out / "units" / "test-0").exists()


def test_units_of_another_policy_are_foreign(tmp_path: Path) -> None:
    """A test stage that was computed under another policy cannot be carried into this run."""
    one, other = tmp_path / "one", tmp_path / "other"
    run(STUDY, ToySettings(), one)
    run(STUDY, ToySettings(seed=6), other, limit=2)
    shutil.copytree(one / "units" / "test-0", other / "units" / "test-0")
    with pytest.raises(StoreError, match="test-0"):
        run(STUDY, ToySettings(seed=6), other)


def test_a_study_that_cannot_repeat_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(STUDY), "repeatable", False)
    run(STUDY, ToySettings(), tmp_path / "run")
    assert "another run gives other records" in command("status", str(tmp_path / "run")).output
