"""Claims: free at once where the system says so, after a lease where it cannot; and no unit is won twice."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from finite_calculus.harness import claims
from finite_calculus.harness.claims import Patience, claimed, holders
from finite_calculus.harness.runner import run
from tests.helpers.studies import contents
from tests.helpers.toy_study import STUDY, ToySettings


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease of a fifth of a second."""
    monkeypatch.setattr(claims, "BEAT", 0.02)
    monkeypatch.setattr(claims, "LEASE", 0.2)


def waited(out: Path, unit: str) -> int:
    """How many looks it takes until a claim is ours; 1 if it is at once."""
    for look in range(1, 1000):
        with claimed(out, unit) as mine:
            if mine:
                return look
        claims.time.sleep(0.01)
    raise AssertionError("the claim was never free")


def of_another_machine(out: Path, unit: str) -> Path:
    """A claim whose owner's system is not this one."""
    path = out / claims.CLAIMS / unit
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"host": "elsewhere", "process": 1, "boot": "other"}) + "\n")
    return path


def test_a_claim_comes_into_being_whole_and_goes_with_its_block(tmp_path: Path) -> None:
    with claimed(tmp_path, "unit") as mine:
        assert mine
        (owner,) = holders(tmp_path).values()
        assert (owner["process"], owner["boot"]) == (os.getpid(), claims._boot())
        assert [path.name for path in (tmp_path / "claims").iterdir()] == ["unit"]
    assert list((tmp_path / "claims").iterdir()) == []


def test_a_claim_that_an_older_version_left_is_free_at_once(tmp_path: Path) -> None:
    path = of_another_machine(tmp_path, "unit")
    path.write_text(json.dumps({"host": "here", "process": 1, "since": "yesterday"}))
    assert holders(tmp_path) == {}
    assert waited(tmp_path, "unit") == 1


@pytest.mark.usefixtures("soon")
def test_a_machine_that_is_gone_loses_its_claim_after_the_lease(tmp_path: Path) -> None:
    of_another_machine(tmp_path, "unit")
    assert list(holders(tmp_path)) == ["unit"]
    assert waited(tmp_path, "unit") > 0.2 / 0.02  # no look counts for more than a beat
    assert holders(tmp_path) == {}


@pytest.mark.usefixtures("soon")
def test_a_claim_that_grows_is_in_good_hands_whatever_its_clock_says(tmp_path: Path) -> None:
    path = of_another_machine(tmp_path, "unit")
    for beat in range(60):
        with path.open("a") as file:
            file.write(".")
        # The owner's clock jumps by years, forth and back.
        os.utime(path, (0, (-1) ** beat * 3e8 + 1e9))
        with claimed(tmp_path, "unit") as mine:
            assert not mine
        claims.time.sleep(0.01)


def test_time_in_which_the_watcher_itself_was_frozen_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(claims.time, "monotonic", lambda: now[0])
    patience, looks = Patience(), 0
    assert not patience.is_over(tmp_path, (1, 1))
    while True:
        now[0] += 3600.0
        looks += 1
        if patience.is_over(tmp_path, (1, 1)):
            break
    assert looks == claims.LEASE / claims.BEAT
    now[0] += 1.0
    assert not patience.is_over(tmp_path, (1, 2))


@pytest.mark.usefixtures("soon")
def test_the_claim_of_another_is_not_removed_by_who_lost_it(tmp_path: Path) -> None:
    with claimed(tmp_path, "unit") as mine:
        assert mine
        path = tmp_path / claims.CLAIMS / "unit"
        path.unlink()
        of_another_machine(tmp_path, "unit")
    assert path.exists()


def test_a_claim_that_is_a_link_or_a_pipe_is_neither_followed_nor_waited_for(
    tmp_path: Path,
) -> None:
    folder = tmp_path / claims.CLAIMS
    folder.mkdir()
    (tmp_path / "mine").write_text("dear")
    (folder / "link").symlink_to(tmp_path / "mine")
    os.mkfifo(folder / "pipe")
    for unit in ("link", "pipe"):
        with pytest.raises(OSError, match=f"{unit} must be a plain file"), claimed(tmp_path, unit):
            pass
    assert (tmp_path / "mine").read_text() == "dear"


SLOW = """
import sys, time
from pathlib import Path
import torch
torch.set_num_threads(1)
from finite_calculus.harness import claims, runner
from tests.helpers.toy_study import STUDY, ToySettings
claims.BEAT, claims.LEASE = 0.02, 0.2
compute, slow = runner._compute, [True]
def computed(*words):
    result = compute(*words)
    if slow.pop() if slow else False:
        print("computed", flush=True)
        time.sleep(1)
    return result
runner._compute = computed
print(runner.run(STUDY, ToySettings(), Path(sys.argv[1])).done)
"""


@pytest.mark.usefixtures("soon")
def test_a_worker_that_was_frozen_and_wakes_wins_nothing_twice(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = [sys.executable, "-c", SLOW, str(out)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "computed\n"
        other.send_signal(signal.SIGSTOP)
        assert run(STUDY, ToySettings(), out).done == 4
        sealed = (out / "units" / "calibrate-0" / "seal.json").read_bytes()
        other.send_signal(signal.SIGCONT)
        said, wrong = other.communicate(timeout=60)
    assert (other.returncode, said) == (0, "4\n"), wrong
    assert (out / "units" / "calibrate-0" / "seal.json").read_bytes() == sealed
    log = (out / "run.log").read_text()
    assert "calibrate-0 had been taken over and finished meanwhile, with the same bytes" in log
    assert log.count(" calibrate-0 in ") == 1
    run(STUDY, ToySettings(), tmp_path / "alone")
    assert contents(out) == contents(tmp_path / "alone")
