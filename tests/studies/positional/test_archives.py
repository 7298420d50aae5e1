"""Saved archives of the positional study: balanced, replayed, every check passed, no text."""

import json
from collections import Counter
from pathlib import Path

import pytest

from finite_calculus.harness.checks import CheckRow, totals
from finite_calculus.harness.records import SavedRun, read_saved
from finite_calculus.provenance.digests import digest
from finite_calculus.studies.positional.rows import PositionalEdit

ROOT = Path(__file__).parents[3] / "results" / "positional"
ARCHIVES = sorted(path.parent.name for path in ROOT.glob("*/manifest.json"))


@pytest.fixture(scope="module", params=ARCHIVES)
def saved(request: pytest.FixtureRequest) -> tuple[Path, SavedRun]:
    folder = ROOT / request.param
    return folder, read_saved(folder)


def test_the_page_has_an_archive_to_show() -> None:
    assert "smollm2-135m-instruct" in ARCHIVES


def test_every_check_passed_and_every_prediction_was_replayed(
    saved: tuple[Path, SavedRun],
) -> None:
    folder, run = saved
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["fingerprint"] == digest(manifest["identity"])
    assert manifest["replay"]["passed"]
    assert manifest["replay"]["fingerprint"] == manifest["fingerprint"]
    cases, failed = totals(run.records.rows(CheckRow))
    assert cases > 0
    assert failed == 0


def test_sets_are_the_first_ones_of_every_task_in_full(saved: tuple[Path, SavedRun]) -> None:
    _, run = saved
    rows = run.records.rows(PositionalEdit)
    assert len({row.place for row in rows}) == len(rows)
    settings = run.settings.model_dump()
    each = 5 * 3 * 4 * len(settings["shifts"])  # variants, layers, bands, shifts
    counts = Counter((row.task, row.set) for row in rows)
    assert set(counts.values()) == {each}
    first = range(len(counts) // len(settings["tasks"]))
    assert set(counts) == {(task, number) for task in settings["tasks"] for number in first}


def test_an_archive_names_no_place_and_holds_no_text(saved: tuple[Path, SavedRun]) -> None:
    folder, _ = saved
    files = {path.name for path in folder.iterdir()}
    assert not [file for file in files if file.endswith((".safetensors", ".log", ".txt"))]
    text = "".join(path.read_text() for path in folder.glob("*.json"))
    assert "/tmp" not in text
    assert "/home" not in text
    for prompt in json.loads((folder / "plan-test.json").read_text())["manifest"]["sets"]:
        assert not [value for value in prompt.values() if isinstance(value, str) and " " in value]
