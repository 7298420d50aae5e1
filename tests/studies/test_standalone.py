"""The joint study in the paper's standalone form."""

import os
import subprocess
import sys
from pathlib import Path

from finite_calculus.harness.records import read_saved

ROOT = Path(__file__).parents[2]


def standalone(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "finite_calculus.studies.joint_kv", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_papers_command_runs_its_initial_design(tmp_path: Path) -> None:
    out = tmp_path / "joint"
    done = standalone("--device", "cpu", "--batch", "32", "--pairs", "1", "--out", str(out))
    assert done.returncode == 0, done.stderr[-2000:]
    settings = read_saved(out).settings.model_dump()
    assert (settings["design"], settings["batch"], settings["layers"]) == ("initial", 32, (3,))
    assert settings["tasks"] == ("retrieval",)


def test_a_wrong_option_is_named() -> None:
    done = standalone("--batsh", "32", "--design=supplement")
    assert done.returncode == 2
    assert "--batsh" in done.stderr
