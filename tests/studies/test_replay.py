"""Replay, status and summaries: numbers are recomputed, and every kind of sabotage is found."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
import torch
from safetensors.numpy import load_file, save_file

from finite_calculus.harness import Comparison, StoreError, Table
from finite_calculus.harness.archive import archive, command
from finite_calculus.harness.directory import CAPTURES
from finite_calculus.harness.records import read_saved
from finite_calculus.harness.replay import ALLOWED, replay
from finite_calculus.harness.rows import read_table
from finite_calculus.harness.status import status
from finite_calculus.harness.subjects import ModelSubject
from finite_calculus.harness.summary import report_tables, summary_files, write_summary
from finite_calculus.harness.tables import as_csv, as_latex, as_markdown
from finite_calculus.models import Instrument, attach, edited_bank
from finite_calculus.provenance.digests import digest
from finite_calculus.studies.joint_kv import STUDY, predictors
from finite_calculus.studies.joint_kv.replay import replay_unit
from finite_calculus.studies.joint_kv.rows import Intervention
from finite_calculus.studies.joint_kv.unit import variants
from tests.helpers.studies import small

PARTS = ("linear", "key", "value", "interaction", "quadratic")


def tables(run: Path) -> dict[str, Table]:
    return {table.name: table for table in report_tables(read_saved(run))}


def test_every_prediction_is_reproduced(copied: Path) -> None:
    seen: list[str] = []
    result = replay(copied, report=lambda unit, *_: seen.append(unit))
    assert result.passed
    # 12 numbers of each of the 8 · (3 + 1) interventions of 3 pairs.
    assert result.compared == 12 * 32 * 3
    assert max(result.worst.values()) <= ALLOWED
    assert seen[-1] == "retrieval-002"
    saved = json.loads((copied / "replay.json").read_text())
    assert saved["passed"]
    assert "1152 numbers of 3 units, all agree" in "\n".join(status(copied).lines())


@pytest.mark.parametrize("name", ["2.keys", "2.keys@0.5", "2.values@1", "2.gradient", "2.writes"])
def test_a_changed_capture_is_found_even_under_a_valid_seal(copied: Path, name: str) -> None:
    shard = copied / "units" / "retrieval-001"
    tensors = load_file(shard / CAPTURES)
    tensors[name] = tensors[name] * np.float32(1 + 1e-4)
    save_file(tensors, shard / CAPTURES)
    with pytest.raises(StoreError, match=r"retrieval-001/captures\.safetensors: damaged"):
        replay(copied)
    seal = json.loads((shard / "seal.json").read_text())
    seal["sha256"][CAPTURES] = digest((shard / CAPTURES).read_bytes())
    (shard / "seal.json").write_text(json.dumps(seal))
    result = replay(copied)
    assert not result.passed
    assert {wrong.where[:13] for wrong in result.disagreeing} == {"retrieval-001"}
    assert "DISAGREE" in "\n".join(status(copied).lines())


def test_every_sabotaged_part_is_found(embedded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    right, parts = predictors.decompose, PARTS

    def wrong(*arguments: Any) -> Any:
        predictions = right(*arguments)
        return replace(
            predictions, **{part: getattr(predictions, part) * (1 + 1e-9) for part in parts}
        )

    monkeypatch.setattr(predictors, "decompose", wrong)
    names = {pair.name for pair in disagreeing(one_unit(embedded))}
    sums = {f"predicted_{name}" for name in ("first_order", "separate", "quadratic")}
    assert names == {f"part_{part}" for part in parts} | sums


def test_a_sabotaged_joint_predictor_is_found_by_replay_and_by_its_dense_control(
    embedded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = predictors._sparse
    monkeypatch.setattr(predictors, "_sparse", lambda *a: right(*a) * (1 + 1e-6))
    result = one_unit(embedded)
    assert {pair.name for pair in disagreeing(result)} == {"predicted_joint"}
    failed = {check.name for check in result[1].checks if check.failed}
    assert failed == {
        f"layer 2: sparse against {other}" for other in ("dense", "effective matrices")
    }


def test_an_execution_of_other_edits_fails_the_local_check(
    embedded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = Instrument.execute

    def weaker(self: Any, capture: Any, edits: Any, **how: Any) -> Any:
        return execute(self, capture, [replace(edit, strength=0.9) for edit in edits], **how)

    monkeypatch.setattr(Instrument, "execute", weaker)
    _, wrong = one_unit(embedded)
    (failed,) = [check for check in wrong.checks if check.failed]
    assert failed.name == "layer 2: executed write against its prediction"
    assert failed.figure > failed.bound


def one_unit(embedded: Any) -> tuple[Any, Any]:
    """The shared tensors of a run and what its first unit leaves."""
    model, tokenizer = embedded
    settings = small(pairs=1)
    with attach(model, tokenizer=tokenizer) as instrument:
        subject = ModelSubject(instrument, tokenizer)
        plan = STUDY.plan(subject, settings, "main", None)
        shared = STUDY.shared(subject, settings)
        return shared, STUDY.run(subject, settings, plan.units["retrieval-000"], None)


def disagreeing(result: tuple[Any, Any]) -> list[Comparison]:
    shared, unit = result
    arrays = [{name: t.numpy() for name, t in kept.items()} for kept in (shared, unit.tensors)]
    compared = replay_unit(*arrays, unit.rows["records"])
    return [pair for pair in compared if not pair.relative <= ALLOWED]


def test_a_number_that_is_not_one_never_agrees() -> None:
    assert Comparison("", "", float("nan"), 1.0, 1.0).relative == float("inf")
    assert Comparison("", "", 1.0, 1.0 + 1e-9, 0.0).relative == float("inf")
    assert Comparison("", "", 0.0, 0.0, 0.0).relative == 0.0


def test_a_run_without_units_can_be_neither_replayed_nor_summarised(copied: Path) -> None:
    shutil.rmtree(copied / "units")
    with pytest.raises(StoreError, match="no finished unit yet; there is nothing to replay"):
        replay(copied)
    with pytest.raises(StoreError, match="no finished unit yet; there is nothing to summarise"):
        read_saved(copied)


def test_status_says_what_is_missing_and_what_is_wrong(copied: Path) -> None:
    fine = status(copied)
    assert fine.sound
    assert "3 of 3 done, every sha256 verified, complete" in fine.lines()[1]
    assert fine.checks == 3 * 32 * 5
    damaged = copied / "units" / "retrieval-000" / "checks.parquet"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-1])
    words = status(copied).lines()
    assert "2 of 3 done, PROBLEMS: 1" in words[1]
    assert "verified" not in words[1]
    assert "complete" not in words[1]
    assert "units/retrieval-000/checks.parquet: damaged" in words[-1]
    damaged.write_bytes(whole)
    shutil.rmtree(copied / "units" / "retrieval-001")
    (copied / "units" / "notes").write_text("mine")
    state = status(copied)
    assert not state.sound
    assert state.missing == ("retrieval-001",)
    assert "2 of 3 done, PROBLEMS: 1, next retrieval-001" in state.lines()[1]
    assert "units/notes: foreign" in state.lines()[-1]
    with pytest.raises(StoreError, match=r"holds no run\.json"):
        status(copied / "units")


def test_predictions_use_the_endpoint_tensors_that_execution_uses(embedded: Any) -> None:
    model, tokenizer = embedded
    _, unit = one_unit(embedded)
    with attach(model, tokenizer=tokenizer) as instrument:
        plan = STUDY.plan(ModelSubject(instrument, tokenizer), small(pairs=1), "main", None)
        pair = plan.units["retrieval-000"]
        captured = [
            instrument.capture(ids, answer=pair.labels[0], versus=pair.labels[1], layers=[2])
            for ids in (pair.baseline, pair.donor)
        ]
    for variant in variants(pair.spans, (1.0, 0.5)):
        bank = edited_bank(captured[0].layer(2), variant.edit(2, captured[1].layer(2)))
        columns = list(variant.tokens)
        if variant.kind != "value":
            saved = unit.tensors[f"2.keys@{variant.strength:g}"]
            assert torch.equal(saved[:, columns], bank.keys[:, columns])
        if variant.kind != "key":
            saved = unit.tensors[f"2.values@{variant.strength:g}"]
            assert torch.equal(saved[:, columns], bank.values[:, columns])


def test_a_record_holds_the_four_cell_effect_of_its_span_and_its_residual(finished: Path) -> None:
    rows = read_table(finished / "units" / "retrieval-001" / "records.parquet").to_pylist()
    for span in range(8):
        mine = {(r["kind"], r["strength"]): r for r in rows if r["span"] == span}
        joint = mine["joint", 1.0]
        executed = joint["effect"] - mine["key", 1.0]["effect"] - mine["value", 1.0]["effect"]
        assert joint["executed_interaction"] == executed
        assert joint["interaction_residual"] == executed - joint["part_interaction"]
        assert mine["joint", 0.5]["executed_interaction"] is None
        assert mine["key", 1.0]["part_interaction"] == 0
        assert mine["key", 1.0]["part_value"] == 0
        for row in mine.values():
            assert row["effect"] == row["margin"] - row["control"]


def test_tables_are_what_the_records_say(finished: Path) -> None:
    records = read_saved(finished).tables["records"]
    joint = records.filter(
        (pc.field("kind") == "joint") & (pc.field("strength") == 1.0)
    ).to_pylist()
    report = tables(finished)
    row = dict(zip(report["coverage"].columns, report["coverage"].rows[0], strict=True))
    for name, column in (("exact joint", "predicted_joint"), ("separate", "predicted_separate")):
        errors = [abs(r[column] - r["effect"]) for r in joint]
        assert row[name] == pytest.approx(np.mean(errors), rel=1e-12)
    assert row["zero"] == pytest.approx(np.mean([abs(r["effect"]) for r in joint]), rel=1e-12)
    paired = {r[2]: r for r in report["paired"].rows}
    assert paired["separate"][3] == pytest.approx(row["exact joint"] - row["separate"], rel=1e-9)
    assert [r[2] for r in report["strengths"].rows] == [0.5, 1.0]
    audit = dict(report["audit"].rows)
    assert audit["executed interventions"] == audit["expected interventions"] == 96
    assert audit["duplicates"] == audit["checks failed"] == 0
    assert len(report["interventions"].rows) == 24


def test_a_summary_needs_records_only_and_is_the_same_each_time(
    copied: Path, tmp_path: Path
) -> None:
    before = summary_files(read_saved(copied))
    for unit in (copied / "units").iterdir():
        assert (unit / CAPTURES).exists()
    written = write_summary(read_saved(copied), tmp_path / "tables")
    assert {path.name: path.read_bytes() for path in written} == before
    assert "INCOMPLETE" not in before["summary.md"].decode()
    shutil.rmtree(copied / "units" / "retrieval-002")
    assert b"INCOMPLETE" in summary_files(read_saved(copied))["summary.md"]


def test_an_archive_stands_alone_without_tensors_texts_or_places(
    copied: Path, tmp_path: Path
) -> None:
    manifest = archive(copied, tmp_path / "archive")
    names = {path.name for path in (tmp_path / "archive").iterdir()}
    assert {"records.parquet", "checks.parquet", "manifest.json", "summary.md"} <= names
    assert not [name for name in names if name.endswith("safetensors")]
    text = manifest.read_text()
    assert str(tmp_path) not in text
    assert json.loads(text)["command"] == command(read_saved(copied))
    assert json.loads(text)["rows"] == {"records": 96, "checks": 15}
    sealed = {"records.parquet", "checks.parquet", "plan-main.json", "preflight.json", "units.json"}
    assert set(json.loads(text)["sha256"]) == sealed
    again = read_saved(tmp_path / "archive")
    assert summary_files(again) == summary_files(read_saved(copied))
    with pytest.raises(StoreError, match="`archive` must be empty or new"):
        archive(copied, tmp_path / "archive")
    (tmp_path / "archive" / "records.parquet").write_bytes(b"no")
    with pytest.raises(StoreError, match=r"records\.parquet is missing or damaged"):
        read_saved(tmp_path / "archive")
    shutil.rmtree(copied / "units" / "retrieval-002")
    with pytest.raises(StoreError, match="must be finished before it is archived"):
        archive(copied, tmp_path / "other")


def test_a_layer_with_a_softcap_is_refused(embedded: Any) -> None:
    model, tokenizer = embedded
    with attach(model, tokenizer=tokenizer) as instrument:
        layer = instrument.capture(range(3, 27), answer=3, versus=5, layers=[1]).layer(1)
    with pytest.raises(ValueError, match=r"Layer 1 must be plain softmax attention.*a softcap"):
        predictors.require_plain(replace(layer, softcap=30.0))
    with pytest.raises(ValueError, match="it has sinks"):
        predictors.require_plain(replace(layer, sinks=torch.zeros(layer.heads)))


def test_tables_in_three_forms() -> None:
    table = Table("t", "A title", ("what", "|I|"), (("a_b", 0.00012345), ("c", None)), "A note.")
    assert as_markdown(table).splitlines()[2] == r"| what | \|I\| |"
    assert "| a_b | 1.23e-04 |" in as_markdown(table)
    assert r"a\_b & $1.23\times10^{-4}$\\" in as_latex(table)
    assert as_csv(table) == "what,|I|\na_b,0.00012345\nc,\n"


def test_the_second_order_comes_closer_to_what_was_executed(finished: Path) -> None:
    listed = read_saved(finished).records.rows(Intervention)
    assert all((row.predicted_second is None) == (row.kind != "joint") for row in listed)
    rows = [row for row in listed if row.strength == 0.5]
    errors = {
        name: np.abs([getattr(row, name) - row.effect for row in rows]).mean()
        for name in ("predicted_joint", "predicted_second")
    }
    assert errors["predicted_second"] < errors["predicted_joint"] / 2


def test_records_without_the_second_order_leave_its_column_empty() -> None:
    saved = read_saved(Path(__file__).parents[2] / "results" / "joint-kv" / "embedded")
    (table,) = [table for table in report_tables(saved) if table.name == "downstream"]
    assert {row[table.columns.index("second MAE")] for row in table.rows} == {None}
