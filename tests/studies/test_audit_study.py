"""An audit in units: any number of processes make the records of one."""

import json
from pathlib import Path

import pytest

from finite_calculus.harness.records import read_saved
from finite_calculus.harness.runner import run
from finite_calculus.studies.audit import STUDY, AuditSettings
from finite_calculus.studies.audit.rows import Part
from proofs.numeric import audit, record_files, spread
from proofs.numeric.record_files import RecordsError
from tests.helpers.studies import command, plain

FUNCTION, CASES = "phi1", audit.PIECE + 37
SETTINGS = AuditSettings(function=FUNCTION, cases=CASES, block=audit.PIECE, seed=3)


@pytest.fixture(scope="module")
def spread_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("audit") / "run"
    run(STUDY, SETTINGS, out)
    return out


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("audit") / "records"
    names = audit.selected(FUNCTION)
    list(audit.audit(names, ["float64", "float32"], cases=CASES, seed=3, jobs=1, out=out))
    return out


def test_the_records_are_those_of_one_process(
    spread_out: Path, together: Path, tmp_path: Path
) -> None:
    result = command("audit", "--from", str(spread_out), "--out", str(tmp_path), "--quiet")
    assert result.exit_code == 0, result.output
    assert f"{2 * CASES} cases of 1 checks: 0 violations" in result.output
    for name in (record_files.AUDITS, record_files.WORST):
        assert (tmp_path / name).read_bytes() == (together / name).read_bytes()


def test_a_larger_record_of_the_same_code_stays(spread_out: Path, tmp_path: Path) -> None:
    smaller = AuditSettings(function=FUNCTION, cases=8, seed=3)
    run(STUDY, smaller, tmp_path / "smaller")
    for place in (spread_out, tmp_path / "smaller"):
        words = ["audit", "--from", str(place), "--out", str(tmp_path / "records"), "--quiet"]
        assert command(*words).exit_code == 0
    saved = record_files.read(tmp_path / "records").audits.values()
    assert {record["cases"] for record in saved} == {CASES}


def test_every_case_and_every_digit_of_the_sample_is_in_one_block() -> None:
    units = spread.blocks(FUNCTION, ("float32",), cases=CASES, seed=3, size=1)
    assert sum(block.cases for block in units.values() if not block.digits) == CASES
    assert sum(block.cases for block in units.values() if block.digits) == audit.sampled(CASES)
    seeds = [block.seed for block in units.values() if not block.digits]
    assert seeds == sorted(set(seeds))


def test_parts_of_other_code_are_refused(spread_out: Path) -> None:
    part = read_saved(spread_out).records.rows(Part)[0]
    other = json.loads(part.record)
    other["settings"]["sources"] = "0" * 64
    with pytest.raises(RecordsError, match="must be of the code at hand; its part of phi1"):
        spread.merged([(part.function, part.dtype, part.digits, json.dumps(other))], 3)


def test_what_is_no_finished_audit_is_refused(tmp_path: Path) -> None:
    run(STUDY, AuditSettings(function=FUNCTION, cases=8), tmp_path / "begun", limit=1)
    given = ["--from", str(tmp_path / "begun")]
    result = command("audit", *given, "--out", str(tmp_path / "records"))
    assert result.exit_code == 2
    assert "is not finished" in plain(result.output)
    assert "needs --out" in plain(command("audit", *given).output)


def test_unknown_precisions_and_functions_are_refused() -> None:
    with pytest.raises(
        ValueError, match="`dtypes` must be float64, float32 or both; got 'float16'"
    ):
        spread.blocks(None, ("float16",), cases=1, seed=0, size=1)
    with pytest.raises(ValueError, match="`function` must be a checked function; got 'sine'"):
        spread.blocks("sine", ("float32",), cases=1, seed=0, size=1)
