"""The committed record of answer repair: undamaged, what the page says, and its example as a case file."""

import json
from pathlib import Path

from finite_calculus.harness.checks import CheckRow
from finite_calculus.harness.records import read_saved
from finite_calculus.harness.summary import summary_files
from finite_calculus.provenance.digests import digest
from finite_calculus.studies.answer_repair.case_file import written_case
from finite_calculus.studies.answer_repair.rows import ARMS, Case, Continuation
from finite_calculus.tasks.api_cases import api_cases

ROOT = Path(__file__).parents[2]
ARCHIVE = ROOT / "results" / "answer-repair" / "smollm2-135m-instruct"


def manifest() -> dict:
    return json.loads((ARCHIVE / "manifest.json").read_text())


def test_the_record_is_whole_and_every_check_passed() -> None:
    record, saved = manifest(), read_saved(ARCHIVE)
    assert record["fingerprint"] == digest(record["identity"])
    assert (ARCHIVE / "summary.md").read_bytes() == summary_files(saved)["summary.md"]
    gate = json.loads((ARCHIVE / "preflight.json").read_text())
    assert all(check["passed"] for check in gate["checks"])
    text = "".join(path.read_text() for path in ARCHIVE.glob("*.json"))
    assert "/tmp" not in text
    assert "/home" not in text


def test_every_case_has_as_many_continuations_of_each_arm() -> None:
    saved = read_saved(ARCHIVE)
    tries = saved.settings.model_dump()["tries"]
    rows = saved.records.rows(Continuation)
    cases = saved.records.rows(Case)
    for case in cases:
        arms = [row.arm for row in rows if row.case == case.case]
        assert {arm: arms.count(arm) for arm in ARMS} == dict.fromkeys(ARMS, tries)


def test_the_case_file_is_the_case_that_the_search_selected() -> None:
    policy = json.loads(next(ARCHIVE.glob("policy*.json")).read_text())
    selected = policy.get("policy", policy)["case"]
    settings = read_saved(ARCHIVE).settings.model_dump()
    cases = api_cases("search", settings["search_cases"], seed=settings["seed"])
    case = next(case for case in cases if case.name == selected)
    saved = json.loads((ROOT / "docs" / "repair-case.json").read_text())
    assert saved == written_case(case)


def test_the_rate_is_of_a_hundred_cases_or_the_page_says_that_it_is_a_part() -> None:
    page = (ROOT / "docs" / "answer-repair.md").read_text()
    cases = [row for row in read_saved(ARCHIVE).records.rows(Case) if row.stream == "rate"]
    assert len(cases) >= 100 or "The record is a part" in page


def test_no_check_of_the_record_failed() -> None:
    rows = read_saved(ARCHIVE).records.rows(CheckRow)
    assert {row.check for row in rows} >= {"first ranked edit: executed write"}
    assert [row for row in rows if row.failed] == []
