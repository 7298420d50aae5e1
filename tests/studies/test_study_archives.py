"""Archives of reconstruction, regression and runtime: whole, all checks passed, and the pages say no more."""

import json
from pathlib import Path

import pytest

from finite_calculus.harness import Records
from finite_calculus.harness.checks import CheckRow, totals
from finite_calculus.harness.records import read_saved
from finite_calculus.harness.summary import summary_files
from finite_calculus.provenance.digests import digest
from finite_calculus.studies.regression.rows import Direction, Model

ROOT = Path(__file__).parents[2]
STUDIES = ("reconstruction", "regression", "runtime")
ARCHIVES = sorted(
    path.parent.relative_to(ROOT / "results").as_posix()
    for study in STUDIES
    for path in (ROOT / "results" / study).glob("*/manifest.json")
)


def page(name: str) -> str:
    return " ".join((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8").split())


def test_the_runs_that_the_pages_speak_of_are_there() -> None:
    assert "regression/pilot" in ARCHIVES


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_is_whole_and_every_check_passed(name: str) -> None:
    folder = ROOT / "results" / name
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["fingerprint"] == digest(manifest["identity"])
    saved = read_saved(folder)
    cases, failed = totals(saved.records.rows(CheckRow))
    assert cases > 0
    assert failed == 0
    assert (folder / "summary.md").read_bytes() == summary_files(saved)["summary.md"]
    if manifest["repeatable"]:
        assert manifest["replay"]["passed"]
        assert manifest["replay"]["fingerprint"] == manifest["fingerprint"]


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_holds_neither_tensors_nor_places_nor_texts(name: str) -> None:
    folder = ROOT / "results" / name
    files = {path.name for path in folder.iterdir()}
    assert not [file for file in files if file.endswith((".safetensors", ".log", ".txt"))]
    text = "".join(path.read_text() for path in folder.glob("*.json"))
    assert "/tmp" not in text
    assert "/home" not in text
    for prefix in json.loads((folder / "plan-main.json").read_text())["manifest"].get(
        "prefixes", []
    ):
        assert set(prefix) == {"article", "tokens", "ids_sha256"}


def test_the_page_on_regression_says_what_its_records_say() -> None:
    said, records = page("regression"), read_saved(ROOT / "results/regression/pilot").records
    cosines = mean_cosines(records)
    softmax = [value for (name, _), value in cosines.items() if name in ("softmax", "rope")]
    low = [value for value in softmax if value < 0.9]
    assert "a second, rarer outcome of training, apart from the first" in said
    assert 0 < len(low) < len(softmax) / 2
    # Apart: the gap between the two outcomes is wider than either of them.
    high = [value for value in softmax if value >= 0.9]
    assert min(high) - max(low) > max(max(high) - min(high), max(low) - min(low))
    assert "linear attention has none" in said
    assert min(value for (name, _), value in cosines.items() if name == "linear") > 0.99
    (control,) = [model for model in records.rows(Model) if model.architecture == "control"]
    assert control.disagreement_mse < 1e-30
    replayed = json.loads((ROOT / "results/regression/pilot/manifest.json").read_text())["replay"]
    assert replayed["compared"] > 0
    assert replayed["failed"] == 0


def mean_cosines(records: Records) -> dict[tuple[str, int], float]:
    listed: dict[tuple[str, int], list[float]] = {}
    for row in records.rows(Direction):
        listed.setdefault((row.architecture, row.seed), []).append(row.jacobian)
    return {place: sum(values) / len(values) for place, values in listed.items()}
