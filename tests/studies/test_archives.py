"""The committed archives: complete, undamaged, and their tables are what their records say."""

import csv
import json
import re
from pathlib import Path

import pytest

from finite_calculus.harness.records import read_saved
from finite_calculus.harness.summary import summary_files
from finite_calculus.provenance.digests import digest

RESULTS = Path(__file__).parent.parent.parent / "results" / "joint-kv"
ARCHIVES = sorted(path.name for path in RESULTS.iterdir())


def manifest(name: str) -> dict:
    return json.loads((RESULTS / name / "manifest.json").read_text())


def test_the_runs_that_the_readme_speaks_of_are_there() -> None:
    assert {"embedded", "smollm2-135m-instruct"} <= set(ARCHIVES)
    assert manifest("smollm2-135m-instruct")["rows"]["records"] == 5120


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_is_complete_and_every_check_passed(name: str) -> None:
    found = manifest(name)
    assert found["fingerprint"] == digest(found["identity"])
    assert found["replay"]["passed"]
    assert found["replay"]["fingerprint"] == found["fingerprint"]
    prompts = json.loads((RESULTS / name / "prompts.json").read_text())
    assert digest(prompts) == found["identity"]["prompts"]
    gate = json.loads((RESULTS / name / "preflight.json").read_text())
    assert all(check["passed"] for check in gate["checks"])
    with (RESULTS / name / "audit.csv").open() as file:
        audit = {row[0]: row[1] for row in csv.reader(file)}
    assert audit["executed interventions"] == audit["expected interventions"]
    assert audit["duplicates"] == audit["checks failed"] == "0"


@pytest.mark.parametrize("name", ARCHIVES)
def test_the_tables_are_made_from_the_records_alone(name: str) -> None:
    for file, blob in summary_files(read_saved(RESULTS / name)).items():
        kept = (RESULTS / name / file).read_text().splitlines()
        again = blob.decode().splitlines()
        if not file.endswith(".csv"):
            assert kept == again
            continue
        for one, other in zip(csv.reader(kept), csv.reader(again), strict=True):
            assert all(_same(*cells) for cells in zip(one, other, strict=True)), (one, other)


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_holds_neither_tensors_nor_places_nor_sentences(name: str) -> None:
    files = {path.name for path in (RESULTS / name).iterdir()}
    assert not [file for file in files if file.endswith((".safetensors", ".log", ".tsv"))]
    text = "".join(path.read_text() for path in (RESULTS / name).glob("*.json"))
    assert "/tmp" not in text
    assert "/home" not in text
    prompts = json.loads((RESULTS / name / "prompts.json").read_text())
    kept = {"unit", "task", "pair", "source", "answer", "tokens", "spans", "label_tokens"}
    assert all(set(pair) == kept | {"text_sha256", "ids_sha256"} for pair in prompts["pairs"])


def test_the_table_of_the_readme_is_that_of_the_archives() -> None:
    readme = (RESULTS.parent.parent / "README.md").read_text()
    rows = re.findall(r"^\| (\S+) \(here\) \| (\S+), (\d+) \| (.*) \|$", readme, re.MULTILINE)
    assert len(rows) == 12
    for model, task, layer, cells in rows:
        (name,) = [n for n in ARCHIVES if n.startswith(model.lower())]
        place = (task.lower().replace("-", ""), layer)
        errors = _row(name, "coverage", place)
        below = {row["comparator"]: row["reduction %"] for row in _rows(name, "paired", place)}
        expected = [errors[c] for c in ("zero", "separate", "quadratic", "exact joint")]
        expected += [below["separate"], below["quadratic"]]
        expected.append(_row(name, "interaction", place)["exact r"])
        for cell, value in zip(cells.split(" | "), expected, strict=True):
            assert abs(float(cell.removesuffix(" %")) - float(value)) <= _last_place(cell), (
                name,
                cell,
            )


def test_the_kill_study_saw_what_the_readme_says() -> None:
    saved = json.loads((RESULTS.parent / "kill-study.json").read_text())
    readme = " ".join((RESULTS.parent.parent / "README.md").read_text().split())
    assert f"After {saved['kills']} kills" in readme
    assert f"all {saved['finished']} runs that came to their end" in readme
    assert saved["different"] == 0


def _rows(name: str, table: str, place: tuple[str, str]) -> list[dict[str, str]]:
    with (RESULTS / name / f"{table}.csv").open() as file:
        return [row for row in csv.DictReader(file) if (row["task"], row["layer"]) == place]


def _row(name: str, table: str, place: tuple[str, str]) -> dict[str, str]:
    (row,) = _rows(name, table, place)
    return row


def _last_place(cell: str) -> float:
    """Half a unit of the last printed digit, and a hair."""
    digits, _, power = cell.removesuffix(" %").partition("e")
    return 0.5000001 * 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))


def _same(one: str, other: str) -> bool:
    """Equal texts, or numbers in full: the order in which a machine sums may show in the last digits."""
    try:
        return float(one) == pytest.approx(float(other), rel=1e-9, abs=1e-18)
    except ValueError:
        return one == other
