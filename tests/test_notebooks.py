"""The notebooks run from their first cell to their last on a checkpoint that is at hand."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.helpers.notebooks import code_cells

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


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


def test_there_are_two_notebooks() -> None:
    assert [path.name for path in NOTEBOOKS] == ["first_look.ipynb", "joint_kv.ipynb"]


def run_through(notebook: Path, folder: Path) -> str:
    """What a notebook prints when all of its cells run."""
    done = execute(notebook, folder)
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"ran {len(code_cells(notebook))} cells" in done.stdout
    return done.stdout


def test_the_notebook_of_the_joint_study_runs_replays_and_draws(tmp_path: Path) -> None:
    printed = run_through(FOLDER / "joint_kv.ipynb", tmp_path)
    assert "1152 numbers replayed, 0 disagree" in printed
    figures = list(tmp_path.rglob("*.png"))
    assert [figure.name for figure in figures] == ["joint_kv.png"]
    assert figures[0].stat().st_size > 10_000


def test_the_notebook_of_a_first_look_runs(tmp_path: Path) -> None:
    run_through(FOLDER / "first_look.ipynb", tmp_path)


def test_the_notebook_of_a_study_is_kept_without_outputs() -> None:
    content = json.loads((FOLDER / "joint_kv.ipynb").read_text(encoding="utf-8"))
    assert content["nbformat"] == 4
    for cell in content["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_the_first_look_shows_what_its_cells_gave() -> None:
    content = json.loads((FOLDER / "first_look.ipynb").read_text(encoding="utf-8"))
    assert content["nbformat"] == 4
    code = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    shown = [cell["outputs"][-1]["data"] for cell in code]
    assert all(data["text/plain"] for data in shown)
    assert "text/html" in shown[6]  # the table


def test_a_cell_that_fails_fails_the_notebook(tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": [f"{line}\n"]} for line in ("x = 1", "y = x / 0", "z")]
    broken = tmp_path / "broken.ipynb"
    broken.write_text(json.dumps({"cells": cells}))
    done = execute(broken, tmp_path)
    assert done.returncode != 0
    assert "broken.ipynb, cell 2" in done.stderr
    assert "cell 3" not in done.stdout
