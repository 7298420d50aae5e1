"""The search study: what it records of a prompt, and what its report makes of that."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from finite_calculus.harness import Records
from finite_calculus.harness.rows import Tables, encode_rows
from finite_calculus.models import attach
from finite_calculus.models.tiny import tiny_model
from finite_calculus.search import certify_table, prepare_search, score
from finite_calculus.studies.search import STUDY, slopes as slopes_module
from finite_calculus.studies.search.baselines import first_order, place_scores
from finite_calculus.studies.search.prompts import SearchPrompt
from finite_calculus.studies.search.report import report
from finite_calculus.studies.search.rows import Cost
from finite_calculus.studies.search.settings import SearchSettings
from finite_calculus.studies.search.slopes import integrated_slopes, relevance_slopes
from finite_calculus.studies.search.truth import PREDICTORS, Truth, truths
from finite_calculus.studies.search.unit import run_prompt

ANSWERS = {"answer": 5, "versus": 9}
SETTINGS = SearchSettings(model="tiny-llama", batch=64, directions=4)


@pytest.fixture(scope="module")
def attached():
    with attach(tiny_model("llama")) as instrument:
        yield instrument


@pytest.fixture(scope="module")
def capture(attached):
    ids = torch.randint(3, 96, (9,), generator=torch.Generator().manual_seed(5))
    return attached.capture(ids, **ANSWERS)


@pytest.fixture(scope="module")
def result(attached, capture):
    prompt = SearchPrompt("fact", 2, tuple(capture.ids.tolist()), 5, 9)
    return run_prompt(attached, SETTINGS, prompt)


@pytest.fixture(scope="module")
def records(result) -> Records:
    """The unit as it comes back from the disk."""
    import io

    import pyarrow.parquet as pq

    tables = {
        name: pq.read_table(io.BytesIO(encode_rows(rows, STUDY.tables[name])))
        for name, rows in result.rows.items()
    }
    return Records(Tables(STUDY.tables, tables), {})


def test_every_candidate_is_recorded_with_its_execution(attached, capture, result) -> None:
    rows = result.rows["candidates"]
    table = score(capture)
    assert len(rows) == len(table) == 15 * 9 * 3
    assert all(check.failed == 0 for check in result.checks)
    from finite_calculus.models.kinds import TOKEN_KINDS

    for number in (0, 100, 317, len(rows) - 1):
        row = rows[number]
        edit = TOKEN_KINDS[row.kind].at(row.layer, (row.token,))
        (outcome,) = attached.execute(capture, [edit]).outcomes
        assert row.executed == pytest.approx(outcome.effect, abs=1e-5)
        assert float(row.exact) == pytest.approx(capture.predict(edit).effect, rel=1e-3, abs=1e-6)


def test_first_orders_are_those_of_the_certificate(capture) -> None:
    prepared = prepare_search(capture)
    certified = certify_table(prepared.score()).certificate
    assert certified is not None
    apart = (first_order(prepared) - certified.first_order).abs()
    assert float(apart.max()) <= 1e-9


def test_place_scores_are_derivatives_and_norms_of_the_write(capture) -> None:
    layer = capture.layer(1)
    keys = layer.keys.double().requires_grad_()
    values = layer.values.double().requires_grad_()
    groups = layer.heads // layer.keys.shape[0]
    scores = (
        torch.einsum("hw,hjw->hj", layer.query.double(), keys.repeat_interleave(groups, 0))
        * layer.scaling
    )
    probs = torch.softmax(scores, -1)
    parts = torch.einsum(
        "hj,hjw,hwm->hjm",
        probs,
        values.repeat_interleave(groups, 0),
        layer.output_projection.double(),
    )
    effect = (parts.sum((0, 1)) * layer.gradient_write.double()).sum()
    slopes = torch.autograd.grad(effect, (keys, values))
    taken = (slopes[0] * keys + slopes[1] * values).sum((0, 2))
    expected = torch.stack([probs.sum(0), parts.sum(0).norm(dim=-1), taken]).detach()
    assert torch.allclose(place_scores(layer), expected, rtol=1e-9, atol=1e-12)


def test_relevance_of_the_last_write_is_that_of_the_rules_by_hand(attached, capture) -> None:
    model = attached.model
    block = model.model.layers[2]
    (state,) = [layer.write for layer in capture.layers if layer.layer == 2]
    inputs: dict[str, torch.Tensor] = {}

    def keep(name):
        def hook(module, args, output):
            inputs[name] = args[0][0, -1].detach(), output[0, -1].detach()

        return hook

    hooks = [
        module.register_forward_hook(keep(name))
        for name, module in (
            ("norm", block.post_attention_layernorm),
            ("gate", block.mlp.gate_proj),
            ("act", block.mlp.act_fn),
            ("up", block.mlp.up_proj),
            ("final", model.model.norm),
        )
    ]
    with torch.no_grad():
        model(input_ids=capture.ids.unsqueeze(0))
    for hook in hooks:
        hook.remove()

    def factor(name):
        entered, left = inputs[name]
        return left / entered

    head = model.lm_head.weight.detach()
    slope = (head[5] - head[9]) * factor("final")
    product = block.mlp.down_proj.weight.detach().T @ slope / 2
    gate = block.mlp.gate_proj.weight.detach().T @ (product * inputs["up"][1] * factor("act"))
    up = block.mlp.up_proj.weight.detach().T @ (product * inputs["act"][1])
    expected = slope + (gate + up) * factor("norm")
    actual = relevance_slopes(attached.prompt(capture.ids), capture)[2]
    assert state.shape == actual.shape
    assert torch.allclose(actual, expected, rtol=1e-3, atol=1e-5 * float(expected.abs().max()))


def test_integrated_slopes_add_up_to_what_the_write_does(attached, capture, monkeypatch) -> None:
    prompt, number = attached.prompt(capture.ids), 2
    layer = capture.layer(number)
    hook = attached.support.sites[number].projection.register_forward_hook(
        lambda module, args, output: torch.cat([output[:, :-1], output[:, -1:] - layer.write], 1)
    )
    with torch.no_grad():
        logits = attached.model(input_ids=capture.ids.unsqueeze(0)).logits[0, -1]
    hook.remove()
    whole = capture.baseline - float(logits[5] - logits[9])
    added = []
    for steps in (128, 256):
        monkeypatch.setattr(slopes_module, "STEPS", steps)
        slope = integrated_slopes(prompt, replace(capture, layers=(layer,)))[0]
        added.append(float(slope.reshape(-1) @ layer.write))
    # Twice the midpoints leave a quarter of the error: the finer sum is off by a third of the step.
    assert abs(added[1] - whole) <= abs(added[1] - added[0]) + 1e-5 * abs(whole)


def test_figures_of_a_prompt_by_hand() -> None:
    cost = Cost("fact", 0, 5, 4, 1.0, 2.0, 4.0, 8.0, 16.0, 1, 32.0, 64.0, 0.0, 0.0, 0.1, 0.5)
    columns = {
        "executed": np.array([4.0, -3.0, 0.2, 0.0]),
        "exact": np.array([1.0, -2.0, -0.2, 0.0]),
        "corrected": np.array([0.0, -2.0, 3.0, 0.0]),
        "known": np.array([True, False, False, False]),
        "layer": np.array([0, 0, 1, 1]),
    }
    truth = Truth("fact", columns, cost, {0: 10.0, 1: 1.0})
    assert truth.recall("exact", 1) == 0
    assert truth.recall("exact", 2) == 1
    assert truth.recall("corrected", 2) == 0.5
    assert truth.regret("exact") == 0.25
    assert truth.regret("corrected") == 0
    assert truth.signs("exact") == 1
    assert truth.everything == 1 + 22
    assert truth.reach("exact", 2, 1.0) == (2, 3 + 20)
    # The first is known from the calibration; the others follow by prediction: 2 (layer 1), then 1.
    assert truth.reach("corrected", 2, 1.0) == (3, 31 + 11)
    assert truth.reach("corrected", 1, 1.0) == (1, 31)
    assert truth.rank_correlation("exact") == pytest.approx(0.8)


def test_the_report_says_what_the_records_say(records, result) -> None:
    tables = {table.name: table for table in report(SETTINGS, records)}
    (truth,) = truths(records)
    ranking = {row[0]: row for row in tables["ranking"].rows}
    assert len(ranking) == len(PREDICTORS)
    assert ranking["exact write"][1] == truth.recall("exact", 10)
    assert tables["trust"].rows[-1][1] == 1
    assert sum(row[1] for row in tables["layers"].rows) == int(
        (truth.unknown & (truth.size >= 0.1)).sum()
    )
    assert len(tables["time"].rows) == len(PREDICTORS)
    damaged = [replace(row, exact=-float(row.exact)) for row in result.rows["candidates"]]
    assert [row.exact for row in damaged] != [row.exact for row in result.rows["candidates"]]
