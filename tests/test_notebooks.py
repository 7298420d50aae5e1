"""The notebooks run from their first cell to their last on a checkpoint that is at hand."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.notebooks import code_cells

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def execute(notebook: Path, folder: Path) -> "subprocess.CompletedProcess[str]":
    settings = {"PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "tests.helpers.notebooks", str(notebook)],
        cwd=folder,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )


def test_there_is_a_notebook() -> None:
    assert [path.name for path in NOTEBOOKS] == ["joint_kv.ipynb"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_its_first_cell_to_its_last(notebook: Path, tmp_path: Path) -> None:
    done = execute(notebook, tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"ran {len(code_cells(notebook))} cells" in done.stdout
    assert "1152 numbers replayed, 0 disagree" in done.stdout
    figures = list(tmp_path.rglob("*.png"))
    assert [figure.name for figure in figures] == ["joint_kv.png"]
    assert figures[0].stat().st_size > 10_000


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(notebook: Path) -> None:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    assert content["nbformat"] == 4
    for cell in content["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_a_cell_that_fails_fails_the_notebook(tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": [f"{line}\n"]} for line in ("x = 1", "y = x / 0", "z")]
    broken = tmp_path / "broken.ipynb"
    broken.write_text(json.dumps({"cells": cells}))
    done = execute(broken, tmp_path)
    assert done.returncode != 0
    assert "broken.ipynb, cell 2" in done.stderr
    assert "cell 3" not in done.stdout
