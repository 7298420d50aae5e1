"""A study of two stages without a model, known to the harness by an entry point alone."""

import json
import re
import shutil
from pathlib import Path

import pytest

from finite_calculus.harness import StoreError, find_study, study_names
from finite_calculus.harness.executors import Processes
from finite_calculus.harness.runner import run
from finite_calculus.provenance.digests import digest
from tests.helpers.studies import command, contents, plain
from tests.helpers.toy_study import STUDY, ToySettings
from tests.helpers.toy_study.draws import draw

pytestmark = pytest.mark.usefixtures("toy_installed")


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


def test_work_joins_a_run_with_the_settings_that_it_began_with(tmp_path: Path) -> None:
    out = tmp_path / "run"
    run(STUDY, ToySettings(units=3), out, limit=1)
    result = command("work", str(out), "--quiet")
    assert result.exit_code == 0, result.output
    assert "6 of 6 units are done" in result.output
    run(STUDY, ToySettings(units=3), tmp_path / "alone")
    assert contents(out) == contents(tmp_path / "alone")
    refused = command("work", str(tmp_path))
    assert refused.exit_code == 2
    assert "it holds no run.json" in plain(refused.output)
    refused = command("work", str(out), "--place", "data=x")
    assert refused.exit_code == 2
    assert "`places` must name nothing of toy; got data" in plain(refused.output)


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


def test_a_failed_check_is_told_by_run_status_and_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.helpers.toy_study.draw", lambda seed, count: draw(seed, count) + 1)
    out = str(tmp_path / "run")
    started = command("run", "toy", "--out", out)
    assert started.exit_code == 1
    words = "4 of 4 checks FAILED: mean within the unit interval (4)"
    assert words in plain(started.output)
    shown = command("status", out)
    assert shown.exit_code == 1
    assert "FAILED    mean within the unit interval: 4" in shown.output
    assert words in command("summary", out).output


def test_an_error_in_a_unit_names_it_and_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(seed: int, count: int) -> None:
        raise ValueError("no draws today")

    monkeypatch.setattr("tests.helpers.toy_study.draw", fail)
    result = command("run", "toy", "--out", str(tmp_path / "run"))
    assert result.exit_code == 1
    assert "The unit calibrate-0 failed with ValueError: no draws today." in plain(result.output)
    assert "Traceback" in (tmp_path / "run" / "run.log").read_text()


def test_every_wrong_option_is_told_with_what_came(tmp_path: Path) -> None:
    words = ["--draws", "0", "--units", "-1", "--out", str(tmp_path / "run")]
    shown = plain(command("run", "toy", *words).output)
    assert "--draws: input should be greater than or equal to 1; got 0." in shown
    assert "--units: input should be greater than or equal to 1; got -1." in shown


def test_an_archive_is_not_taken_for_a_run(tmp_path: Path) -> None:
    run(STUDY, ToySettings(), tmp_path / "run")
    assert (
        command("summary", str(tmp_path / "run"), "--archive", str(tmp_path / "kept")).exit_code
        == 0
    )
    assert "it is an archive" in plain(command("status", str(tmp_path / "kept")).output)


class OtherSettings(ToySettings):
    """Settings that give the study another name."""

    study: str = "other"


@pytest.mark.parametrize(("attribute", "value"), [("name", "other"), ("Settings", OtherSettings)])
def test_a_study_goes_by_one_name(
    attribute: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(STUDY), attribute, value)
    with pytest.raises(ValueError, match="registered as toy must say so"):
        find_study("toy")


def test_a_module_without_a_study_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("tests.helpers.toy_study.STUDY")
    with pytest.raises(ValueError, match="must define STUDY"):
        find_study("toy")
