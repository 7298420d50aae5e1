"""The committed archives: complete, undamaged, and their tables are what their records say."""

import csv
import functools
import json
from pathlib import Path

import pytest

from finite_calculus.harness.checks import CheckRow
from finite_calculus.harness.records import read_saved
from finite_calculus.harness.summary import summary_files
from finite_calculus.provenance.digests import digest

ROOT = Path(__file__).parents[2] / "results"
RESULTS = ROOT / "joint-kv"
# Archives of every study, and those that the first version of the joint study left.
EVERY = sorted(
    f"../{study}/{path.name}"
    for study in ("joint-kv", "positional", "positional-cost", "retrieval-heads")
    for path in (ROOT / study).iterdir()
)
ARCHIVES = sorted(path.name for path in RESULTS.iterdir() if (path / "prompts.json").exists())


@functools.cache
def derive(name: str) -> dict[str, bytes]:
    """The files that `finite-calculus summary` makes of an archive."""
    return summary_files(read_saved(RESULTS / name))


def table(name: str, stem: str) -> list[dict[str, str]]:
    """One of the derived tables."""
    return list(csv.DictReader(derive(name)[f"{stem}.csv"].decode().splitlines()))


def manifest(name: str) -> dict:
    return json.loads((RESULTS / name / "manifest.json").read_text())


def test_the_runs_that_the_pages_speak_of_are_there() -> None:
    assert {"embedded", "smollm2-135m-instruct"} <= set(ARCHIVES)
    assert manifest("smollm2-135m-instruct")["rows"]["records"] == 5120


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_is_complete_and_every_check_passed(name: str) -> None:
    record = manifest(name)
    assert record["fingerprint"] == digest(record["identity"])
    assert record["replay"]["passed"]
    assert record["replay"]["fingerprint"] == record["fingerprint"]
    prompts = json.loads((RESULTS / name / "prompts.json").read_text())
    assert digest(prompts) == record["identity"]["prompts"]
    gate = json.loads((RESULTS / name / "preflight.json").read_text())
    assert all(check["passed"] for check in gate["checks"])
    audit = {row["figure"]: row["value"] for row in table(name, "audit")}
    assert audit["executed interventions"] == audit["expected interventions"]
    assert audit["duplicates"] == audit["checks failed"] == "0"


@pytest.mark.parametrize("name", EVERY)
def test_no_check_of_an_archive_failed_and_its_replay_agreed(name: str) -> None:
    record = manifest(name)
    assert record["fingerprint"] == digest(record["identity"])
    assert record["replay"] == "not done" or record["replay"]["passed"]
    rows = read_saved(RESULTS / name).records.rows(CheckRow)
    assert sum(row.failed for row in rows) == 0 < sum(row.cases for row in rows)


@pytest.mark.parametrize("name", EVERY)
def test_the_summary_is_made_from_the_records_alone(name: str) -> None:
    assert (RESULTS / name / "summary.md").read_bytes() == derive(name)["summary.md"]


@pytest.mark.parametrize("name", EVERY)
def test_an_archive_keeps_no_other_table_than_its_summary(name: str) -> None:
    files = {path.name for path in (RESULTS / name).iterdir()}
    assert files & set(derive(name)) == {"summary.md"}


@pytest.mark.parametrize("name", EVERY)
def test_an_archive_holds_neither_tensors_nor_places_nor_sentences(name: str) -> None:
    files = {path.name for path in (RESULTS / name).iterdir()}
    assert not [file for file in files if file.endswith((".safetensors", ".log", ".tsv"))]
    text = "".join(path.read_text() for path in (RESULTS / name).glob("*.json"))
    assert "/tmp" not in text
    assert "/home" not in text


@pytest.mark.parametrize("name", ARCHIVES)
def test_prompts_are_kept_as_numbers_and_hashes(name: str) -> None:
    prompts = json.loads((RESULTS / name / "prompts.json").read_text())
    kept = {"unit", "task", "pair", "source", "answer", "tokens", "spans", "label_tokens"}
    assert all(set(pair) == kept | {"text_sha256", "ids_sha256"} for pair in prompts["pairs"])


def test_exact_joint_has_the_lowest_error_in_every_setting_that_the_page_counts() -> None:
    page = (RESULTS.parent.parent / "docs" / "studies.md").read_text()
    rows = [row for name in ARCHIVES if name != "embedded" for row in table(name, "coverage")]
    assert len(rows) == 12
    assert "Exact joint errs least in 12 of 12 settings." in page
    for row in rows:
        others = ("zero", "first order", "separate", "quadratic")
        assert float(row["exact joint"]) < min(float(row[other]) for other in others)


def test_the_kill_study_saw_what_the_page_says() -> None:
    saved = json.loads((RESULTS.parent / "kill-study.json").read_text())
    page = " ".join((RESULTS.parent.parent / "docs" / "studies.md").read_text().split())
    assert f"After {saved['kills']} kills" in page
    assert f"{saved['finished']} runs came to their end; 0 of them" in page
    assert saved["different"] == 0
