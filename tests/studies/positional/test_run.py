"""The positional study on the harness: rows, checks, resumption, policy, replay."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from safetensors.numpy import load_file, save_file

from finite_calculus.harness import StoreError, Tables, UnitResult
from finite_calculus.harness.checks import CheckRow
from finite_calculus.harness.directory import CAPTURES
from finite_calculus.harness.records import failed_checks, read_saved
from finite_calculus.harness.replay import ALLOWED, replay
from finite_calculus.harness.rows import schema_of
from finite_calculus.harness.summary import report_tables
from finite_calculus.models import Instrument
from finite_calculus.provenance.digests import digest
from finite_calculus.studies.positional import STUDY, deletions, predictors, rows
from finite_calculus.studies.positional.plan import plan_sets
from finite_calculus.studies.positional.replay import replay_unit
from finite_calculus.studies.positional.shared import layer_constants
from finite_calculus.studies.positional.unit import run_set
from tests.helpers.studies import contents
from tests.studies.positional.conftest import small

pytestmark = pytest.mark.xdist_group("positional")  # one worker makes its run, once

POLICY = {"depths": [0, 1, 2, 3], "layers": [0, 1, 2], "deletion_layers": [0, 1], "repair_layer": 1}


def test_every_edit_of_the_design_is_there_once_and_every_check_holds(complete: Path) -> None:
    records = read_saved(complete).records
    edits = records.rows(rows.PositionalEdit)
    assert len(edits) == len({row.place for row in edits}) == 5 * 3 * 4
    assert len(records.rows(rows.BandInteraction)) == 5 * 3
    assert len(records.rows(rows.Reordering)) == 3 * 3
    assert len(records.rows(rows.SpanDeletion)) == 5 * 2 * 8
    assert len(records.rows(rows.Repair)) == 2 * 9 * 2
    assert len(records.rows(rows.Calibration)) == 4
    assert failed_checks(complete) == ""
    names = {row.check.split(":")[0].split(",")[0] for row in records.rows(CheckRow)}
    assert names == {"calibration", "shift", "deletion", "repair", "interaction", "reordering"}


def test_margins_are_signed_towards_the_preferred_label(complete: Path) -> None:
    for row in read_saved(complete).records.rows(rows.PositionalEdit):
        assert row.control + row.path_drift >= -abs(row.path_drift)
        assert row.preferred in "AB"


def test_a_run_that_stops_between_the_stages_goes_on_to_the_same_bytes(
    start: Callable[..., Any], complete: Path, tmp_path: Path
) -> None:
    first = start(tmp_path / "run", limit=1)
    assert (first.done, first.total) == (1, 2)
    assert [table.name for table in report_tables(read_saved(tmp_path / "run"))] == ["calibration"]
    assert start(tmp_path / "run").done == 2
    assert contents(tmp_path / "run") == contents(complete)


def test_another_policy_is_refused(start: Callable[..., Any], duplicate: Path) -> None:
    target = duplicate / "policy-calibration.json"
    saved = json.loads(target.read_text())
    saved["policy"]["layers"] = [0, 2, 3]
    target.write_text(json.dumps(saved))
    with pytest.raises(StoreError, match=r"policy-calibration\.json is damaged"):
        start(duplicate)
    saved["sha256"] = digest(saved["policy"])
    target.write_text(json.dumps(saved))
    with pytest.raises(StoreError, match="must be the policy that the records of calibration give"):
        start(duplicate)


def test_every_prediction_is_reproduced_from_the_definition(duplicate: Path) -> None:
    result = replay(duplicate)
    assert result.passed
    # Four numbers of each shift, three of each deletion.
    assert result.compared == 4 * 60 + 3 * 80


@pytest.mark.parametrize("name", ["2.1.keys", "0.0.values", "4.1.query", "1.shift_writes"])
def test_a_changed_capture_is_found_under_a_valid_seal(duplicate: Path, name: str) -> None:
    shard = duplicate / "units" / "ordered-test-000"
    tensors = load_file(shard / CAPTURES)
    tensors[name] = tensors[name] * tensors[name].dtype.type(1 + 1e-4)
    save_file(tensors, shard / CAPTURES)
    seal = json.loads((shard / "seal.json").read_text())
    seal["sha256"][CAPTURES] = digest((shard / CAPTURES).read_bytes())
    (shard / "seal.json").write_text(json.dumps(seal))
    result = replay(duplicate)
    assert not result.passed
    assert {wrong.where.split()[0] for wrong in result.disagreeing} == {"ordered-0"}


def unit_tables(result: UnitResult) -> Tables:
    """Rows of one unit as a replay asks for them."""
    kinds = {name: STUDY.tables[name] for name in result.rows}
    return Tables(
        kinds,
        {
            name: pa.Table.from_pylist([vars(row) for row in listed], schema=schema_of(kinds[name]))
            for name, listed in result.rows.items()
        },
    )


def test_sabotaged_predictors_are_found(
    embedded: Any, instrument: Instrument, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sabotage(module: Any, name: str) -> None:
        right = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *arguments: right(*arguments) * (1 + 1e-9))

    sabotage(predictors, "finite_response")
    sabotage(predictors, "positional_jacobian")
    sabotage(deletions, "deletion_response")
    sabotage(deletions, "deletion_jacobian")
    plan = plan_sets(small(), "test", embedded[1], 512)
    result = run_set(instrument, small(), next(iter(plan.units.values())), POLICY)
    shared = {k: v.numpy() for k, v in layer_constants(instrument, range(4)).items()}
    tensors = {k: v.numpy() for k, v in result.tensors.items()}
    compared = list(replay_unit(shared, tensors, unit_tables(result)))
    wrong = {("span" in pair.where, pair.name) for pair in compared if pair.relative > ALLOWED}
    assert wrong == {
        *((False, "predicted_finite"), (False, "predicted_jacobian")),
        *((True, "predicted_finite"), (True, "predicted_jacobian")),
    }


def test_an_execution_that_misses_its_write_fails_its_checks(
    embedded: Any, instrument: Instrument, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = instrument.execute

    def wrong(*arguments: Any, **options: Any) -> Any:
        execution = right(*arguments, **options)
        outcomes = [replace(o, write=o.write * (1 + 1e-2)) for o in execution.outcomes]
        return replace(execution, outcomes=tuple(outcomes))

    monkeypatch.setattr(instrument, "execute", wrong)
    plan = plan_sets(small(), "test", embedded[1], 512)
    result = run_set(instrument, small(), next(iter(plan.units.values())), POLICY)
    failed = Counter({check.name: check.failed for check in result.checks if check.failed})
    assert set(failed) == {
        *("shift: executed write", "shift: executed write along the gradient"),
        *("deletion: executed write", "deletion: executed write along the gradient"),
        "repair: executed write",
    }


def test_a_finished_run_reports_every_table(complete: Path) -> None:
    tables = {table.name: table for table in report_tables(read_saved(complete))}
    assert list(tables) == [
        *("calibration", "accuracy", "prediction", "signs", "strata", "layers"),
        *(
            "second-order",
            "large",
            "answers",
            "angles",
            "certificates",
            "interaction",
            "reordering",
            "deletion",
            "repair",
        ),
        *("repair-contrasts", "findings", "checks", "audit"),
    ]
    audit = dict(tables["audit"].rows)
    assert audit["executed shifts"] == audit["expected shifts"] == 60
    assert audit["checks failed"] == audit["duplicates"] == 0
    for line in tables["reordering"].rows:
        assert line[-1] == pytest.approx(1, abs=np.finfo(np.float64).eps * 100)
