"""Going on from an archive: the same run in the end, and what is refused; one unit again."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from finite_calculus.harness import ChangedRunError, StoreError, directory
from finite_calculus.harness.again import again
from finite_calculus.harness.archive import archive
from finite_calculus.harness.executors import Processes, choose_threads
from finite_calculus.harness.replay import replay
from finite_calculus.harness.runner import run
from finite_calculus.provenance.digests import digest
from tests.helpers.studies import command, contents, plain
from tests.helpers.toy_study import STUDY, ToySettings
from tests.helpers.toy_study.draws import draw

pytestmark = pytest.mark.usefixtures("toy_installed")
SETTINGS = ToySettings(units=3)
TAKEN = {"calibrate-0", "calibrate-1", "calibrate-2", "test-0"}


@pytest.fixture
def part(tmp_path: Path) -> Path:
    """The archive of a run's calibration and of the first of its three test units."""
    run(STUDY, SETTINGS, tmp_path / "begun", limit=4)
    archive(tmp_path / "begun", tmp_path / "part", first=1)
    return tmp_path / "part"


def manifest(path: Path) -> dict[str, Any]:
    return json.loads((path / "manifest.json").read_text())


def change(path: Path, name: str, edit: Callable[[bytes], bytes]) -> None:
    """Change a file of an archive and make the manifest agree, as somebody would who means it."""
    (path / name).write_bytes(edit((path / name).read_bytes()))
    content = manifest(path)
    content["sha256"][name] = digest((path / name).read_bytes())
    (path / "manifest.json").write_text(json.dumps(content))


def test_what_goes_on_from_an_archive_ends_in_the_same_records(tmp_path: Path, part: Path) -> None:
    seen: list[str] = []
    out = tmp_path / "on"
    run(STUDY, SETTINGS, out, archive=part, report=lambda unit, *_: seen.append(unit))
    assert seen == ["", "", "test-1", "test-2"]
    run(STUDY, SETTINGS, tmp_path / "whole")
    whole = contents(tmp_path / "whole")
    lost = {f"units/{unit}/captures.safetensors" for unit in TAKEN}
    assert contents(out) == {name: blob for name, blob in whole.items() if name not in lost}
    archive(tmp_path / "whole", tmp_path / "one")
    archive(out, tmp_path / "other")
    one, other = manifest(tmp_path / "one"), manifest(tmp_path / "other")
    assert one["root"] == other["root"]
    assert one["sha256"].keys() == other["sha256"].keys()
    assert [name for name in one["sha256"] if one["sha256"][name] != other["sha256"][name]] in (
        [],
        ["units.json"],  # seconds
    )
    assert other["from"]["root"] == manifest(part)["root"]
    assert "from" not in one
    # And on from that archive, too.
    assert run(STUDY, SETTINGS, tmp_path / "third", archive=tmp_path / "other").done == 6


def test_replay_says_what_it_does_not_cover(tmp_path: Path, part: Path) -> None:
    out = tmp_path / "on"
    run(STUDY, SETTINGS, out, archive=part, limit=1)
    result = replay(out)
    assert (result.units, result.without, result.compared) == (1, 4, 1)
    words = "1 numbers of 1 units, 4 more have no captures: 0 disagree"
    assert words in plain(command("replay", str(out), "--quiet").output)
    assert "of 1 units (4 more have no captures)" in command("status", str(out)).output
    (out / "units" / "test-1").rename(tmp_path / "aside")
    with pytest.raises(StoreError, match="All 4 finished units were taken from an archive"):
        replay(out)


def test_captures_that_appear_beside_a_taken_unit_are_foreign(tmp_path: Path, part: Path) -> None:
    out = tmp_path / "on"
    run(STUDY, SETTINGS, out, archive=part)
    (out / "units" / "test-0" / "captures.safetensors").write_bytes(b"made up")
    assert "test-0/captures.safetensors: foreign" in command("status", str(out)).output


KILLED = """
import os, signal, sys
from pathlib import Path
from finite_calculus.harness import archived, runner
from tests.helpers.toy_study import STUDY, ToySettings
commits = []
whole = archived.commit
def commit(target, files, **words):
    commits.append(target)
    if len(commits) == 3:
        part = target.with_name(target.name + ".part")
        part.mkdir()
        (part / "means.parquet").write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    whole(target, files, **words)
archived.commit = commit
runner.run(STUDY, ToySettings(units=3), Path(sys.argv[1]), archive=Path(sys.argv[2]))
"""


def test_killed_while_it_takes_units_over_it_resumes(tmp_path: Path, part: Path) -> None:
    out = tmp_path / "on"
    # The threads of this process: they are part of the identity.
    program = f"import torch; torch.set_num_threads({choose_threads(part, 1, None, part)})\n"
    words = [sys.executable, "-c", program + KILLED, str(out), str(part)]
    died = subprocess.run(words, capture_output=True, text=True, check=False, env=os.environ)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert sum(path.suffix != ".part" for path in (out / "units").iterdir()) == 2
    assert run(STUDY, SETTINGS, out, archive=part).done == 6
    run(STUDY, SETTINGS, tmp_path / "whole")
    names = {f"units/{unit}/captures.safetensors" for unit in TAKEN}
    whole = contents(tmp_path / "whole")
    assert contents(out) == {name: blob for name, blob in whole.items() if name not in names}


def test_two_processes_take_it_over_together(tmp_path: Path, part: Path) -> None:
    assert Processes(2)(STUDY, SETTINGS, tmp_path / "on", archive=part).done == 6
    assert "dropped" in (tmp_path / "on" / "units" / "test-0" / "seal.json").read_text()


def test_other_settings_are_refused_and_nothing_is_written(tmp_path: Path, part: Path) -> None:
    with pytest.raises(
        ChangedRunError, match=r"nothing is taken from it[\s\S]*settings\.draws: 8 → 9"
    ):
        run(STUDY, ToySettings(units=3, draws=9), tmp_path / "on", archive=part)
    assert not (tmp_path / "on").exists()


def test_a_damaged_archive_is_refused(tmp_path: Path, part: Path) -> None:
    blob = (part / "means.parquet").read_bytes()
    (part / "means.parquet").write_bytes(blob[:-1])
    with pytest.raises(StoreError, match=r"means\.parquet is missing or damaged"):
        run(STUDY, SETTINGS, tmp_path / "on", archive=part)
    assert not (tmp_path / "on").exists()


def test_records_that_were_changed_with_their_digest_are_refused(
    tmp_path: Path, part: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever changes a table can make its sha256 agree, but not the root hash of the run."""
    monkeypatch.setattr("tests.helpers.toy_study.draw", lambda seed, count: draw(seed, count) / 2)
    run(STUDY, SETTINGS, tmp_path / "halved", limit=4)
    archive(tmp_path / "halved", tmp_path / "other", first=1)
    change(part, "means.parquet", lambda _: (tmp_path / "other" / "means.parquet").read_bytes())
    with pytest.raises(StoreError, match="the root hash of the units is not that of the run"):
        run(STUDY, SETTINGS, tmp_path / "on", archive=part)
    assert not (tmp_path / "on" / "units").exists()


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (b'"means":1', b'"means":0', "means has 4 rows and the units 0"),
        (
            b'"dropped":{',
            b'"dropped":{"x":"y",',
            "the root hash of the units is not that of the run",
        ),
    ],
)
def test_units_that_do_not_fit_their_tables_are_refused(
    tmp_path: Path, part: Path, before: bytes, after: bytes, message: str
) -> None:
    change(part, "units.json", lambda blob: blob.replace(before, after))
    with pytest.raises(StoreError, match=message):
        run(STUDY, SETTINGS, tmp_path / "on", archive=part)


def test_an_identity_that_was_changed_is_refused(tmp_path: Path, part: Path) -> None:
    content = manifest(part)
    content["identity"]["settings"]["draws"] = 9
    (part / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(StoreError, match="its fingerprint is not that of its identity"):
        run(STUDY, ToySettings(units=3, draws=9), tmp_path / "on", archive=part)


def test_what_is_no_archive_or_an_old_one_is_refused(tmp_path: Path, part: Path) -> None:
    with pytest.raises(StoreError, match=r"`archive` must be one; .* holds no manifest\.json"):
        run(STUDY, SETTINGS, tmp_path / "on", archive=tmp_path / "begun")
    content = manifest(part)
    del content["sha256"]["units.json"]
    (part / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(StoreError, match="an older version wrote it"):
        run(STUDY, SETTINGS, tmp_path / "on", archive=part)


def test_from_an_archive_by_command(tmp_path: Path, part: Path) -> None:
    words = ["run", "toy", "--units", "3", "--from", str(part), "--out", str(tmp_path / "on")]
    result = command(*words)
    assert result.exit_code == 0, result.output
    assert "6 of 6 units are done" in result.output
    assert directory.read_run(tmp_path / "on").fingerprint == manifest(part)["fingerprint"]


def test_one_unit_again_is_what_was_recorded(part: Path) -> None:
    result = again(part, "test-0")
    assert (result.differing, result.changed) == ((), ())
    assert result.rows == {"means": 1, "checks": 1}
    shown = command("again", str(part), "test-0")
    assert shown.exit_code == 0, shown.output
    assert "test-0: 1 means, 1 checks; 0 of 10 values differ" in plain(shown.output)
    assert "again ARCHIVE UNIT" in manifest(part)["again"]


def test_single_rows_of_a_unit_are_shown_beside_the_recorded_ones(part: Path) -> None:
    (table, recorded, computed) = again(part, "test-0").matching({"stage": "test"})[0]
    assert table == "means"
    assert "stage='test'" in str(recorded)
    assert recorded == computed
    shown = plain(command("again", str(part), "test-0", "--row", "stage=test").output)
    assert f"means, recorded: {recorded}" in shown
    assert f"computed: {computed}" in shown
    result = command("again", str(part), "test-0", "--row", "stage=test", "--row", "mean=7")
    assert result.exit_code == 2
    assert "no row has stage=test, mean=7. The tables hold means: stage, mean" in plain(
        result.output
    )
    assert "--row must be NAME=VALUE" in plain(
        command("again", str(part), "test-0", "--row", "stage").output
    )


def test_a_unit_that_comes_out_otherwise_is_told_with_what_changed(
    part: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.helpers.toy_study.draw", lambda seed, count: draw(seed, count) / 2)
    monkeypatch.setattr(
        "finite_calculus.harness.identity.study_sources", lambda _: {"tests.toy": "c" * 64}
    )
    result = command("again", str(part), "test-0")
    assert result.exit_code == 1
    shown = plain(result.output)
    assert "other than in the record: sources.tests.toy: absent → cccccccccccc…" in shown
    assert "DIFFERS means, row 0, mean: recorded 0." in shown


def test_what_cannot_be_computed_again_is_refused(part: Path) -> None:
    with pytest.raises(StoreError, match="calibrate-0 to test-0; got test-1"):
        again(part, "test-1")
    with pytest.raises(ValueError, match="`places` must name nothing of toy; got data"):
        again(part, "test-0", places={"data": "there"})
    assert "--place must be NAME=VALUE, as in data=FOLDER" in plain(
        command("again", str(part), "test-0", "--place", "x").output
    )
    policy = part / "policy-calibrate.json"
    other = {"threshold": 0.1}
    change(
        part, policy.name, lambda _: json.dumps({"policy": other, "sha256": digest(other)}).encode()
    )
    with pytest.raises(StoreError, match=r"policy-calibrate\.json is damaged"):
        again(part, "test-0")
    content = json.loads((part / "plan-calibrate.json").read_text())
    content["manifest"] = {"seeds": [7]}
    change(part, "plan-calibrate.json", lambda _: json.dumps(content).encode())
    with pytest.raises(
        StoreError, match="The prompts or rows of calibrate must be those of the archive"
    ):
        again(part, "calibrate-0")
