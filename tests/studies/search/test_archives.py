"""The committed archives of the search study: undamaged, and their summaries are what their records say."""

import json
from pathlib import Path

import pytest

from finite_calculus.harness.checks import CheckRow
from finite_calculus.harness.records import read_saved
from finite_calculus.harness.summary import summary_files
from finite_calculus.provenance.digests import digest

RESULTS = Path(__file__).parents[3] / "results" / "search"
ARCHIVES = sorted(path.parent.name for path in RESULTS.glob("*/manifest.json"))
MOST = 15 * 10**6


def test_every_archive_together_stays_small() -> None:
    assert ARCHIVES
    files = [path for name in ARCHIVES for path in (RESULTS / name).iterdir()]
    assert sum(path.stat().st_size for path in files) < MOST
    assert not [path for path in files if path.suffix in (".safetensors", ".tsv", ".log")]


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_is_whole_and_its_summary_is_made_of_it(name: str) -> None:
    saved = read_saved(RESULTS / name)
    manifest = json.loads((RESULTS / name / "manifest.json").read_text())
    assert manifest["fingerprint"] == digest(manifest["identity"])
    checks = saved.records.rows(CheckRow)
    assert {check.unit for check in checks} == {
        f"{task}-{number:03d}" for task in saved.settings.tasks for number in range(4)
    }
    assert all(check.passed for check in checks)
    assert summary_files(saved)["summary.md"] == (RESULTS / name / "summary.md").read_bytes()
