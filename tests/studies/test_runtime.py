"""The runtime study: what is timed is right and audited, turns are random, a native case is the capture."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from finite_calculus.harness import Records, Tables
from finite_calculus.harness.records import failed_checks, read_saved
from finite_calculus.harness.runner import run
from finite_calculus.harness.summary import report_tables, summary_files
from finite_calculus.models import Replace, attach
from finite_calculus.studies.runtime import STUDY, RuntimeSettings, unit
from finite_calculus.studies.runtime.attention import (
    dense,
    draw,
    fused,
    prepare_dense,
    prepare_sparse,
    sparse,
)
from finite_calculus.studies.runtime.audit import exact_responses, response_spread
from finite_calculus.studies.runtime.report import report
from finite_calculus.studies.runtime.rows import METHODS, MODES, Audit, Machine, Timing
from finite_calculus.studies.runtime.timing import finished, take_turns
from finite_calculus.tasks.pairs import PairTokens, retrieval_text, tokenise
from finite_calculus.tasks.synthetic import PAPER_SEED


def settings(**changes: Any) -> RuntimeSettings:
    given = {"model": "embedded", "tokens": (32,), "candidates": (3,), "rounds": 2, "at_least": 0.0}
    return RuntimeSettings.complete({**given, **changes}, 4)


@pytest.fixture(scope="module")
def pair(embedded: Any) -> PairTokens:
    return tokenise(retrieval_text(0, PAPER_SEED), embedded[1], 512)


def test_a_run_times_and_audits_every_case(embedded: Any, tmp_path: Path) -> None:
    assert run(STUDY, settings(), tmp_path / "run", loaded=embedded).done == 2
    assert failed_checks(tmp_path / "run") == ""
    saved = read_saved(tmp_path / "run")
    rows = saved.records.rows(Timing)
    # Three methods in each charged mode, two from prepared statistics, two rounds.
    assert len(rows) == 2 * 2 * (3 + 3 + 2)
    assert all(row.seconds > 0 for row in rows)
    assert {row.method for row in rows if row.mode == "prepared"} == {"dense", "ours"}
    assert {row.case for row in rows} == {"native, layer 3", "synthetic, 32 tokens, 3 spans"}
    assert {row.method for row in saved.records.rows(Audit)} == set(METHODS)
    assert all(row.error <= row.bound < row.size for row in saved.records.rows(Audit)), (
        saved.records.rows(Audit)
    )
    (machine,) = {replace(row, case="") for row in saved.records.rows(Machine)}
    assert machine.processor
    assert machine.threads == torch.get_num_threads()
    assert [table.name for table in report_tables(saved)] == [
        *("runtime", "quartiles", "audit", "machine")
    ]
    head = summary_files(saved)["summary.md"].decode().splitlines()[0]
    assert "timings: another run gives other numbers" in head


def test_prepared_and_charged_evaluations_are_the_same_numbers() -> None:
    inputs = draw(64, 5, strengths=(0.1, 1.0), dtype=torch.float64)
    slack = 12 * (64 + 128) * torch.finfo(torch.float64).eps
    expected = dense(inputs)
    for method in (sparse, fused):
        assert float((method(inputs) - expected).abs().max()) <= slack
    for prepare in (prepare_sparse, prepare_dense):
        evaluate = prepare(inputs)
        for n, strength in enumerate(inputs.strengths):
            assert float((evaluate(strength.reshape(1))[0] - expected[n]).abs().max()) <= slack
    assert float(expected.abs().min()) > 1e3 * slack


def test_a_native_case_is_what_the_model_would_do(embedded: Any, pair: PairTokens) -> None:
    """Responses of the captured layer against the prediction of the same edits."""
    model, tokenizer = embedded
    with attach(model, tokenizer=tokenizer) as instrument:
        inputs = unit.native_inputs(instrument, pair, 2).to(torch.float64)
        answer, versus = pair.labels
        baseline, donor = (
            instrument.capture(ids, answer=answer, versus=versus, layers=[2])
            for ids in (pair.baseline, pair.donor)
        )
        edits = [Replace(2, tuple(range(*span)), donor.layer(2)) for span in pair.spans]
        predicted = torch.tensor([baseline.predict(edit).effect for edit in edits])
    # The gradient at the heads was formed in float32: a sum over the model's 96 coordinates.
    allowed = 96 * torch.finfo(torch.float32).eps * float(predicted.abs().max())
    assert float((sparse(inputs)[0] - predicted).abs().max()) <= allowed


def test_spans_of_different_lengths_are_refused(embedded: Any, pair: PairTokens) -> None:
    first, last = pair.spans[0]
    other = replace(pair, spans=((first, last - 1), *pair.spans[1:]))
    with (
        attach(embedded[0], tokenizer=embedded[1]) as instrument,
        pytest.raises(ValueError, match="spans of a native case must have one length; got"),
    ):
        unit.native_inputs(instrument, other, 2)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_that_is_off_fails_its_audit(
    name: str, embedded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = unit._ALL[name]
    monkeypatch.setitem(unit._ALL, name, lambda inputs: right(inputs) * (1 + 3e-3))
    inputs = draw(64, 5)
    rows, (_, likely) = unit._audits(unit.Case("a case"), inputs)
    assert likely.failed
    assert [row.method for row in rows if row.error > row.probable] == [name]


def test_the_bounds_hold_and_are_of_use() -> None:
    inputs = draw(128, 40, strengths=(0.1, 0.5, 1.0))
    expected, spread = exact_responses(inputs), response_spread(inputs)
    assert expected.dtype == torch.float64
    assert expected.shape == spread.sure.shape == (3, 40)
    for method in (dense, sparse, fused):
        assert bool(((method(inputs).double() - expected).abs() <= spread.probable).all())
    # The probable bound sees a hundredth of the usual response.
    assert float(spread.probable.max()) < 1e-2 * float(expected.abs().median())
    assert bool((spread.probable < spread.sure).all())


def test_all_methods_take_turns_in_random_order() -> None:
    calls: list[str] = []
    functions = {name: lambda name=name: calls.append(name) for name in METHODS}
    times = take_turns(functions, rounds=8, at_least=0, clock=iter(range(1000)).__next__)
    assert times == {name: [1.0] * 8 for name in METHODS}
    rounds = [tuple(calls[n : n + 3]) for n in range(0, 24, 3)]
    assert all(sorted(each) == sorted(METHODS) for each in rounds)
    assert len(set(rounds)) > 2


def test_a_function_is_called_until_the_time_has_passed() -> None:
    calls: list[int] = []
    times = take_turns(
        {"one": lambda: calls.append(1)}, rounds=1, at_least=5, clock=iter(range(100)).__next__
    )
    assert len(calls) == 5
    assert times == {"one": [1.0]}


def test_on_a_processor_nothing_is_waited_for() -> None:
    def function() -> int:
        return 3

    assert finished(function, torch.device("cpu")) is function


def test_medians_and_quartiles_are_over_the_rounds() -> None:
    seconds = {"dense": (4.0, 1.0, 2.0), "ours": (1.0, 1.0, 1.0), "fused": (9.0, 9.0, 9.0)}
    rows = [
        Timing("a case", 112, 8, 7, 12, 2, 128, mode, method, n, time / 1000)
        for mode in MODES
        for method, times in seconds.items()
        if (mode, method) != ("prepared", "fused")
        for n, time in enumerate(times)
    ]

    class Listed(Tables):
        def rows(self, kind: Any) -> list[Any]:
            return rows if kind is Timing else []

    tables = {table.name: table for table in report(Records(Listed({}, {}), {}))}
    row = dict(zip(tables["runtime"].columns, tables["runtime"].rows[0], strict=True))
    assert row["dense, R=3"] == pytest.approx(2.0)
    assert row["dense/ours, R=1"] == pytest.approx(2.0)
    assert row["fused, R=1"] == pytest.approx(9.0)
    first = tables["quartiles"].rows[0]
    assert first[3:] == pytest.approx(tuple(np.quantile((1.0, 2.0, 4.0), (0.25, 0.5, 0.75))))


def test_the_processor_is_named(tmp_path: Path) -> None:
    listing = tmp_path / "cpuinfo"
    listing.write_text("processor\t: 0\nmodel name\t: A Processor @ 1GHz\n")
    assert unit.processor_name(listing) == "A Processor @ 1GHz"
    assert unit.processor_name(tmp_path / "none")


def test_the_settings_follow_the_model() -> None:
    assert RuntimeSettings.complete({"model": "qwen2.5-1.5b-instruct"}, 28).layers == (21,)
    paper = RuntimeSettings.complete({"model": "smollm2-135m-instruct"}, 30)
    assert (paper.layers, paper.tokens, paper.candidates) == ((22,), (128, 1024, 8192), (8, 256))
    with pytest.raises(ValueError, match="needs a model; its depth is not known"):
        RuntimeSettings.complete({"model": "embedded"}, None)
