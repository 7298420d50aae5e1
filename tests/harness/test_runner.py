"""Running and resuming: what is kept, what is refused, and that a kill changes no record."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from finite_calculus.harness import ChangedRunError, GateShutError, StoreError, directory
from finite_calculus.harness.claims import claimed, exclusive, holders
from finite_calculus.harness.executors import Processes, choose_threads
from finite_calculus.studies.joint_kv import STUDY
from native_checks import preflight
from native_checks.records import counted
from tests.helpers.studies import contents, small

Runs = Callable[..., Any]


def test_a_run_leaves_its_settings_gate_prompts_and_one_shard_per_pair(finished: Path) -> None:
    record = directory.read_run(finished)
    plan = directory.read_plan(finished, "main")
    assert plan is not None
    assert plan.units == ("retrieval-000", "retrieval-001", "retrieval-002")
    assert record.identity["settings"]["strengths"] == [0.5]
    assert record.identity["plan"] == plan.sha256
    assert json.loads((finished / "preflight.json").read_text())["checks"]
    names = {Path(name).name for name in contents(finished)}
    assert names == {"records.parquet", "checks.parquet", "captures.safetensors"}
    assert "retrieval-002 in" in (finished / "run.log").read_text()


def test_a_run_goes_on_at_the_next_unit_and_ends_in_the_same_bytes(
    runs: Runs, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    first = runs(tmp_path / "run", limit=1, report=lambda unit, done, total: seen.append(unit))
    assert (first.done, first.total) == (1, 3)
    monkeypatch.setattr(preflight, "preflight", None)  # saved open: not run again
    assert runs(tmp_path / "run", report=lambda unit, *_: seen.append(unit)).done == 3
    assert seen == ["", "retrieval-000", "", "retrieval-001", "retrieval-002"]
    assert contents(tmp_path / "run") == contents(finished)


def test_a_finished_run_has_nothing_left_to_do(runs: Runs, copied: Path) -> None:
    before = contents(copied)
    assert runs(copied).done == 3
    assert contents(copied) == before


def test_progress_counts_what_other_processes_finish(
    runs: Runs, copied: Path, tmp_path: Path
) -> None:
    units, aside = copied / directory.UNITS, tmp_path / "aside"
    shutil.move(units / "retrieval-002", aside)
    shutil.rmtree(units / "retrieval-001")
    seen: list[tuple[str, int, int]] = []

    def report(*state: Any) -> None:
        if not seen:
            shutil.move(aside, units / "retrieval-002")
        seen.append(state)

    runs(copied, report=report)
    assert seen == [("", 0, 2), ("retrieval-001", 2, 2)]


def test_a_changed_setting_is_refused_with_the_difference(runs: Runs, copied: Path) -> None:
    before, log = contents(copied), (copied / "run.log").read_bytes()
    with pytest.raises(ChangedRunError, match=r"settings\.batch: 26 → 13"):
        runs(copied, small(batch=13))
    with pytest.raises(ChangedRunError, match=r"settings\.layers\.0: 2 → 3"):
        runs(copied, small(layers=[3]))
    assert contents(copied) == before
    assert (copied / "run.log").read_bytes() == log


def test_a_changed_model_is_refused(embedded: tuple[Any, Any], runs: Runs, copied: Path) -> None:
    model, _ = embedded
    weight = model.model.layers[0].mlp.down_proj.weight
    before = weight.detach().clone()
    with torch.no_grad():
        weight[0, 0] += 1
    try:
        with pytest.raises(ChangedRunError, match=r"made_with\.weights: \w{12}… → \w{12}…"):
            runs(copied)
    finally:
        with torch.no_grad():
            weight.copy_(before)


def test_other_code_is_refused(runs: Runs, copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "finite_calculus.harness.identity.study_sources",
        lambda _: {"finite_calculus.joint": "c" * 64},
    )
    with pytest.raises(ChangedRunError, match=r"sources\.finite_calculus\.joint: \w{12}… → c{12}…"):
        runs(copied)


def test_a_damaged_shard_is_named_and_not_overwritten(runs: Runs, copied: Path) -> None:
    target = copied / "units" / "retrieval-001" / "records.parquet"
    blob = bytearray(target.read_bytes())
    blob[100] ^= 1
    target.write_bytes(blob)
    with pytest.raises(StoreError, match=r"units/retrieval-001/records\.parquet: damaged"):
        runs(copied)
    assert target.read_bytes() == blob


def test_a_foreign_unit_and_a_foreign_directory_are_refused(
    runs: Runs, copied: Path, tmp_path: Path
) -> None:
    shutil.copytree(copied / "units" / "retrieval-000", copied / "units" / "retrieval-099")
    with pytest.raises(StoreError, match=r"units/retrieval-099: foreign"):
        runs(copied)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("dear")
    with pytest.raises(StoreError, match=r"it holds thesis\.tex and no run\.json"):
        runs(other)
    assert (other / "thesis.tex").read_text() == "dear"


def test_a_unit_moved_away_is_computed_again_to_the_same_bytes(runs: Runs, copied: Path) -> None:
    before = contents(copied)
    shutil.rmtree(copied / "units" / "retrieval-001")
    left = copied / "units" / "retrieval-001.part"
    left.mkdir()
    (left / "records.parquet").write_bytes(b"half")
    assert runs(copied).done == 3
    assert contents(copied) == before
    assert "was left by an interrupted run" in (copied / "run.log").read_text()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("run.json", "{}", r"run\.json is damaged"),
        ("plan-main.json", "{}", r"plan-main\.json is damaged"),
        ("preflight.json", "{", r"preflight\.json is damaged"),
    ],
)
def test_damaged_records_of_the_run_itself_are_named(
    runs: Runs, copied: Path, name: str, text: str, message: str
) -> None:
    (copied / name).write_text(text)
    with pytest.raises(StoreError, match=message):
        runs(copied)
    assert (copied / name).read_text() == text


def test_a_changed_run_record_does_not_pass_for_another_fingerprint(copied: Path) -> None:
    record = json.loads((copied / "run.json").read_text())
    record["identity"]["settings"]["batch"] = 13
    (copied / "run.json").write_text(json.dumps(record))
    with pytest.raises(StoreError, match="its fingerprint is not that of its contents"):
        directory.read_run(copied)


def test_a_shut_gate_stops_the_run_and_is_saved(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = lambda bench: counted("a made-up check", 1, "it must fail")  # noqa: E731
    monkeypatch.setattr(preflight, "CHECKS", (broken,))
    with pytest.raises(GateShutError, match="shut by a made-up check; nothing was run"):
        runs(tmp_path / "run")
    assert "a made-up check" in (tmp_path / "run" / "preflight.json").read_text()
    assert not (tmp_path / "run" / "units").exists()
    assert "stopped: GateShutError" in (tmp_path / "run" / "run.log").read_text()


def test_a_unit_that_another_process_holds_is_left_to_it(runs: Runs, copied: Path) -> None:
    before = contents(copied)
    shutil.rmtree(copied / "units" / "retrieval-001")
    shutil.rmtree(copied / "units" / "retrieval-002")
    with claimed(copied, "retrieval-001") as mine:
        assert mine
        assert list(holders(copied)) == ["retrieval-001"]
        with claimed(copied, "retrieval-001") as again:
            assert not again
        assert runs(copied, limit=1).done == 2
        assert not (copied / "units" / "retrieval-001").exists()
    assert holders(copied) == {}
    assert runs(copied).done == 3
    assert contents(copied) == before


def test_the_claim_of_a_process_that_died_is_free_at_once(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from finite_calculus.harness.claims import claimed\n"
        "with claimed(Path(sys.argv[1]), 'unit') as mine: print(mine, flush=True); os.kill(os.getpid(), 9)"
    )
    words = [sys.executable, "-c", program, str(tmp_path)]
    died = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (died.returncode, died.stdout) == (-signal.SIGKILL, "True\n")
    assert (tmp_path / "claims" / "unit").exists()
    with claimed(tmp_path, "unit") as mine:
        assert mine


def test_two_processes_leave_the_records_of_one(finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    progress = Processes(2)(STUDY, small(), out)
    assert (progress.done, progress.total) == (3, 3)
    assert contents(out) == contents(finished)
    log = (out / "run.log").read_text()
    assert [log.count(f" retrieval-00{n} in ") for n in range(3)] == [1, 1, 1]
    assert len({line.split()[2] for line in log.splitlines()}) == 2


def test_workers_and_a_limit_are_refused_together(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="`workers` must be at least 1, and 1 where `limit` is set"
    ):
        Processes(2)(STUDY, small(), tmp_path / "run", limit=1)


def test_a_run_goes_on_with_the_threads_that_it_began_with(finished: Path, tmp_path: Path) -> None:
    assert choose_threads(finished, 2, None) == 1
    assert choose_threads(finished, 2, 3) == 3
    assert choose_threads(tmp_path, 1, None) == torch.get_num_threads()


def test_setting_up_waits_for_the_other_process(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from finite_calculus.harness.claims import exclusive\n"
        "with exclusive(Path(sys.argv[1]), 'setup'): print('in')"
    )
    with exclusive(tmp_path, "setup"):
        other = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(timeout=3)
    assert other.communicate()[0] == "in\n"


def test_a_limit_below_one_is_refused(runs: Runs, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`limit` must be at least 1 unit; got 0"):
        runs(tmp_path / "run", limit=0)
    assert not (tmp_path / "run").exists()


PROGRAM = """
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from finite_calculus.checkpoints import load
from finite_calculus.studies.joint_kv import STUDY, JointKVSettings
from finite_calculus.harness.runner import run
settings = JointKVSettings.model_validate_json(sys.argv[1])
report = lambda *state: print(*state, flush=True)
run(STUDY, settings, Path(sys.argv[2]), loaded=load(settings.model), report=report)
"""


def start(settings: Any, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, settings.model_dump_json(), str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def test_killed_at_random_moments_a_run_ends_in_the_same_bytes(
    finished: Path, tmp_path: Path
) -> None:
    # Two kills after the gate; `bench/kill_study.py` makes fifty, before it too.
    draw = random.Random(981)
    without = shutil.ignore_patterns(directory.UNITS, directory.WEIGHTS)
    out = Path(shutil.copytree(finished, tmp_path / "run", ignore=without))
    for _ in range(2):
        with start(small(), out) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(draw.uniform(0.0, 0.5))
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
    with start(small(), out) as process:
        process.communicate()
    assert process.returncode == 0
    assert contents(out) == contents(finished)
