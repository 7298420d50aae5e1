"""The audit counts violations, keeps records it can resume and replay, and catches seeded errors."""

import dataclasses
import functools
import math
import re
from pathlib import Path

import jaxtyping
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import finite_calculus as fc
from finite_calculus import response, sparse
from finite_calculus.cli import app
from proofs.numeric import audit, audit_records, cases, checks, record_files
from proofs.numeric.comparison import CasePlace, ReferenceComparison, Sample, Tally, run
from tests.helpers.seeded_errors import under_its_own_bound, under_our_bound
from tests.mutation.__main__ import FOLDERS

TESTS = Path(__file__).parent


@pytest.fixture(autouse=True, scope="module")
def _as_in_production():
    """Shape checks cost more than the computations here, and other tests run with them."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def command(*arguments: str):
    return CliRunner().invoke(app, ["audit", "--jobs", "1", *arguments])


def replay(folder: Path, target: str):
    return command("--replay", target, "--out", str(folder))


def saved(folder: Path, name: str, dtype: str) -> dict:
    """The record of a check."""
    return record_files.read(folder).audits[name, dtype]


def replace_record(folder: Path, record: dict) -> None:
    """Put a record in the place of the one of the same check."""
    records = record_files.read(folder)
    records.audits[record["function"], record["dtype"]] = record
    record_files.write(folder, records)


def words(result) -> str:
    """What a refusal says, without the box around it."""
    return " ".join(result.output.replace("│", " ").split())


def test_an_audit_of_a_sound_function_has_no_violation(tmp_path: Path) -> None:
    out = tmp_path / "records"
    result = command("--cases", "2e2", "--function", "phi1", "--out", str(out))
    assert result.exit_code == 0
    assert "400 cases of 1 checks: 0 violations" in result.output.splitlines()[-1]
    record = saved(out, "phi1", "float64")
    assert (record["cases"], record["violations"]) == (200, 0)
    assert record["slack_quantiles"]["0.5"] >= 1
    assert record["stability"]["settings"]["cases"] == record["stability"]["cases"] == 96
    assert record["stability"]["bits"] < record["stability"]["allowed"] == 26


def test_a_finished_record_is_not_made_again(tmp_path: Path, monkeypatch) -> None:
    options = {"cases": 100, "jobs": 1, "out": tmp_path}
    (first,) = audit.audit(["phi1"], ["float64"], **options)
    for piece in ("_tally_piece", "_sample_piece"):
        monkeypatch.setattr(audit, piece, lambda _: pytest.fail("computed again"))
    for number in (100, 30):  # a record of more cases stands for fewer
        (again,) = audit.audit(["phi1"], ["float64"], **{**options, "cases": number})
        assert again == first


def test_a_record_that_was_never_held_against_the_problem_is_completed(tmp_path: Path) -> None:
    options = {"jobs": 1, "out": tmp_path}
    (first,) = audit.audit(["phi1"], ["float64"], cases=200, **options)
    whole = saved(tmp_path, "phi1", "float64")
    for spoiled in ({}, {"stability": {**whole["stability"], "settings": {"cases": 0}}}):
        bare = {name: item for name, item in whole.items() if name != "stability"}
        replace_record(tmp_path, {**bare, **spoiled})
        (again,) = audit.audit(["phi1"], ["float64"], cases=100, **options)
        assert again == first
        assert (
            saved(tmp_path, "phi1", "float64") == whole
        )  # of the tally of 200 cases nothing is lost


@pytest.mark.parametrize("change", [{"cases": 101}, {"seed": 5}])
def test_a_record_made_with_other_settings_is_not_reused(tmp_path: Path, change) -> None:
    options = {"cases": 100, "seed": 0, "jobs": 1, "out": tmp_path}
    list(audit.audit(["phi1"], ["float64"], **options))
    (again,) = audit.audit(["phi1"], ["float64"], **{**options, **change})
    assert again.tally.cases == change.get("cases", 100)
    record = saved(tmp_path, "phi1", "float64")
    for part in (record, record["stability"]):
        assert part["settings"]["seed"] == change.get("seed", 0)


def test_a_record_made_with_other_sources_is_not_reused(tmp_path: Path, monkeypatch) -> None:
    options = {"cases": 64, "jobs": 1, "out": tmp_path}
    list(audit.audit(["phi2"], ["float32"], **options))
    calls = []
    monkeypatch.setattr(audit, "sources", lambda *_: "other")
    for name in ("_tally_piece", "_sample_piece"):
        run = functools.partial(
            lambda sound, piece: calls.append(piece) or sound(piece), getattr(audit, name)
        )
        monkeypatch.setattr(audit, name, run)
    list(audit.audit(["phi2"], ["float32"], **options))
    assert len(calls) == 2


def test_the_papers_own_recipe_is_caught(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(response, "reallocate", under_our_bound)
    result = command("--cases", "200", "--function", "probability_change", "--out", str(tmp_path))
    assert result.exit_code == 1
    record = saved(tmp_path, "probability_change", "float64")
    assert record["violations"] > 20
    replay_report = replay(tmp_path, "probability_change:float64")
    assert replay_report.exit_code == 1
    assert "violation" in replay_report.output


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_sign_of_a_heavy_group_s_drift_is_seen(monkeypatch, dtype: str) -> None:
    with_rest = sparse._with_rest

    def flipped(prepared: sparse.PreparedGroups) -> sparse.PreparedGroups:
        sound = with_rest(prepared)
        assert sound.heavy is not None
        heavy = dataclasses.replace(sound.heavy, drift=-sound.heavy.drift)
        return dataclasses.replace(sound, heavy=heavy)

    monkeypatch.setattr(sparse, "_with_rest", flipped)
    assert run(checks.CHECKS["PreparedGroups.response"], dtype, 100).violations >= 10


def test_it_is_caught_where_its_own_bound_excuses_it(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(response, "reallocate", under_its_own_bound)
    result = command("--cases", "200", "--function", "probability_change", "--out", str(tmp_path))
    assert result.exit_code == 1
    assert "0 violations" in result.output.splitlines()[-1]
    assert result.output.splitlines()[-1].endswith("2 unstable")
    for dtype in ("float64", "float32"):
        stability = saved(tmp_path, "probability_change", dtype)["stability"]
        assert stability["bits"] > stability["allowed"]
        replay_report = replay(tmp_path, f"probability_change:{dtype}")
        assert replay_report.exit_code == 1
        assert replay_report.output.splitlines()[-1].endswith("unstable")
        assert (
            f"{stability['bits']:.1f} bits lost of {stability['allowed']:.1f}"
            in replay_report.output
        )
    monkeypatch.undo()
    sound = replay(tmp_path, "probability_change:float64")
    assert sound.exit_code == 0
    assert "the code has changed" in sound.output


@pytest.mark.parametrize("name", ["finite_response", "control_query"])
def test_a_replayed_case_is_measured_in_its_batch_and_shows_its_inputs(
    tmp_path: Path, name: str
) -> None:
    command("--cases", "100", "--function", name, "--out", str(tmp_path))
    record = saved(tmp_path, name, "float32")
    bounded = audit_records.replay(record)
    assert bounded is not None
    assert bounded.in_place
    assert bounded.measured.over_bound == record["worst_over_bound"]
    stable = audit_records.replay_stability(record)
    assert (stable is None) == (name == "control_query")  # a property
    if stable is not None:
        assert (stable.in_place, stable.measured) == (True, record["stability"]["bits"])
    report = replay(tmp_path, f"{name}:float32")
    assert report.exit_code == 0
    for case in (bounded.case, (stable or bounded).case):
        for item in case.each.values():
            assert str(item.tolist()) in report.output


@pytest.mark.parametrize("name", ["probability_change", "affine_features", "select_evictions"])
def test_inputs_that_are_no_longer_drawn_are_replayed_from_the_record(
    tmp_path: Path, monkeypatch, name: str
) -> None:
    list(audit.audit([name], ["float32"], cases=40, jobs=1, out=tmp_path))
    record = saved(tmp_path, name, "float32")
    in_batch = audit_records.replay(record)
    check = checks.CHECKS[name]
    other = dataclasses.replace(
        check, draw=lambda rng, dtype, count: check.draw(rng.spawn(1)[0], dtype, count)
    )
    monkeypatch.setitem(checks.CHECKS, name, other)
    alone = audit_records.replay(record)
    assert in_batch is not None
    assert alone is not None
    assert (in_batch.in_place, alone.in_place) == (True, False)
    assert audit_records._saved(alone.case) == audit_records._saved(in_batch.case)
    # On its own a case may take other paths through torch, but not past its bound.
    assert 0 < alone.measured.over_bound <= 1
    assert "from the record's inputs" in replay(tmp_path, name).output


def test_a_replay_without_a_worst_case_is_refused(tmp_path: Path) -> None:
    list(audit.audit(["augment"], ["float64"], cases=10, jobs=1, out=tmp_path))
    for target, reason in (
        ("augment", "got one without errors"),
        ("augment:float32", "got no record of augment:float32"),
        ("phi1", "got no record of phi1"),
        ("nothing", "must be a checked function"),
    ):
        refusal = replay(tmp_path, target)
        assert refusal.exit_code == 2
        assert reason in words(refusal)


def test_a_cache_of_which_nothing_is_left_to_restore_has_no_error() -> None:
    check = checks.CHECKS["restore_greedily"]
    batch = next(
        b
        for seed in range(9)
        if (b := check.batch("float32", seed, 6)).each["scores"].shape[-1] == 4
    )
    for name in ("scores", "values"):  # two of four entries are corrupted, and two are restored
        batch.each[f"original_{name}"][:, :, 2:] = batch.each[name][:, :, 2:]
    samples = list(check.measure(batch))
    assert len(samples) == 6
    assert all(sample.over_bound <= 1 for sample in samples)


def test_every_fourth_batch_lies_in_memory_with_gaps() -> None:
    check = checks.CHECKS["finite_response"]
    whole = [check.batch("float64", seed, 5).each["values"].flags.contiguous for seed in range(8)]
    assert whole == [False, True, True, True] * 2


def test_a_computation_that_returns_nan_is_a_violation(monkeypatch) -> None:
    sound = checks.CHECKS["phi1"]
    assert isinstance(sound, ReferenceComparison)
    broken = dataclasses.replace(sound, compute=lambda case: sound.compute(case) * torch.nan)
    monkeypatch.setitem(checks.CHECKS, "phi1", broken)
    (result,) = audit.audit(["phi1"], ["float64"], cases=10, jobs=1)
    assert result.tally.violations == 10
    assert result.unstable


@pytest.mark.parametrize("bound", [math.inf, math.nan])
@pytest.mark.parametrize("error", [0.0, 1.0])
def test_a_bound_that_says_nothing_is_a_violation(error: float, bound: float) -> None:
    tally = Tally("f", "float64")
    tally.add(Sample([error], [bound], scale=1.0, bits=64), CasePlace(0, 1, 0))
    assert (tally.violations, tally.slack) == (1, {})


def test_tallies_of_pieces_merge_into_the_tally_of_the_whole() -> None:
    samples = [
        Sample([e], [b], scale=1.0, bits=64) for e, b in ((1.0, 4.0), (2.0, 2.5), (3.0, 2.0))
    ]
    whole, left, right = (Tally("f", "float64") for _ in range(3))
    for index, sample in enumerate(samples):
        whole.add(sample, CasePlace(0, 3, index))
        (left if index < 2 else right).add(sample, CasePlace(0, 3, index))
    left.merge(right)
    assert left == whole
    assert (whole.violations, whole.worst, whole.worst_over_bound) == (1, CasePlace(0, 3, 2), 1.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--cases", "1.5"), "whole number"),
        (("--cases", "many"), "whole number"),
        (("--dtype", "float16"), "float64 or float32"),
        (("--function", "nothing"), "checked function"),
    ],
)
def test_bad_options_are_refused_with_what_is_wanted(arguments, message) -> None:
    result = command(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def test_the_tests_of_the_core_hold_no_literal_tolerance() -> None:
    tolerance = re.compile(r"\b(rtol|atol|rel|abs)\s*=\s*[0-9.]")
    places = [
        f"{path.relative_to(TESTS)}:{number}"
        for pattern in ("*.py", "helpers/*.py", *(f"{folder}/**/*.py" for folder in FOLDERS))
        for path in sorted(TESTS.glob(pattern))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if tolerance.search(line) or "allclose(" in line.replace('"allclose("', "")
    ]
    assert not places


def test_banks_of_the_largest_values_have_responses_that_are_numbers() -> None:
    """Beyond the largest number only infinity is right, and a bound that is infinite says nothing."""
    largest = float(np.finfo(np.float32).max)
    for seed in range(64):
        batch = cases.wide_bank(np.random.default_rng(seed), np.float32, 256)
        each = {name: torch.from_numpy(array) for name, array in batch.each.items()}
        each = {name: x.double() if x.is_floating_point() else x for name, x in each.items()}
        readout = fc.freeze(each["scores"], each["values"], mask=each["mask"])
        response = fc.finite_response(readout, each["score_delta"], each["value_delta"])
        assert float(response.abs().max()) < largest
