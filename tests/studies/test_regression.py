"""The regression study: matched streams, a control that is the learner, exact steps, replay, sabotage."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from finite_calculus.harness.records import failed_checks, read_saved
from finite_calculus.harness.replay import ALLOWED, replay
from finite_calculus.harness.runner import run
from finite_calculus.harness.summary import report_tables
from finite_calculus.studies.regression import STUDY, RegressionSettings, unit
from finite_calculus.studies.regression.block import (
    SUPPORT,
    WIDTH,
    bank_of,
    head_outputs,
    initial_weights,
    predict,
)
from finite_calculus.studies.regression.directions import cosine, effective_step, jacobians
from finite_calculus.studies.regression.episodes import Episodes, draw_episodes, stream
from finite_calculus.studies.regression.replay import replay_unit
from finite_calculus.studies.regression.rows import CONTROL, Direction, Model
from finite_calculus.studies.regression.training import squared_error, train

SMALL = RegressionSettings(
    seeds=2, steps=6, every=3, validation=4, test=6, queries=2, diagnostics=3
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("regression") / "run"
    assert run(STUDY, SMALL, out).done == 7
    return out


def rows(finished: Path, kind: Any) -> list[Any]:
    return read_saved(finished).records.rows(kind)


def test_a_run_is_complete_and_every_number_is_reproduced(finished: Path) -> None:
    assert failed_checks(finished) == ""
    result = replay(finished)
    assert result.passed
    # Four means of each model, and seven numbers of each diagnostic query.
    assert result.compared == 7 * (4 + 7 * 3 * 2)
    assert max(result.worst.values()) <= ALLOWED
    tables = {table.name: table for table in report_tables(read_saved(finished))}
    assert list(tables) == [
        *("alignment", "distribution", "outcomes", "directions", "prediction", "audit", "models")
    ]
    linear = tables["alignment"].rows[0]
    listed = [
        r.jacobian for r in rows(finished, Direction) if (r.architecture, r.seed) == ("linear", 1)
    ]
    assert linear[2] == pytest.approx(np.mean(listed), rel=1e-14)
    assert linear[3] is None
    assert [row[1] for row in tables["distribution"].rows] == [2, 2, 2]


def test_the_control_is_the_learner(finished: Path) -> None:
    (control,) = [row for row in rows(finished, Model) if row.architecture == CONTROL]
    assert control.rate == pytest.approx(0.7, rel=2e-8)  # 0.7 as float32 holds it
    assert control.disagreement_mse < 1e-30
    cosines = [row.jacobian for row in rows(finished, Direction) if row.architecture == CONTROL]
    assert cosines == pytest.approx([1.0] * len(cosines), abs=4e-15)


def test_a_control_that_is_not_the_learner_fails_its_checks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = unit.control_weights()
    right.key[0, 0, 0] *= 1 + 1e-6
    monkeypatch.setattr(unit, "control_weights", lambda: right)
    failed = {c.name for c in unit.run_job(SMALL, unit.Job(CONTROL, 0)).checks if c.failed}
    assert failed == {f"control: {name}" for name in ("prediction", "Jacobian", "calibrated rate",
                                                      "1 − cosine of the Jacobian")}  # fmt: skip


def test_architectures_see_the_same_episodes_and_begin_with_the_same_weights() -> None:
    first, again, other = (draw_episodes(stream(5, "training", n), 3, 2) for n in (0, 0, 1))
    assert torch.equal(first.support, again.support)
    assert not torch.equal(first.support, other.support)
    validation = draw_episodes(stream(5, "validation"), 4, 2)
    one = RegressionSettings(steps=1, every=1, validation=4, rate=1e-30)
    states = [train(one, name, 0, validation).weights for name in ("linear", "softmax", "rope")]
    for state in states[1:]:
        assert torch.equal(state.key, states[0].key)


def test_targets_are_linear_and_queries_carry_none() -> None:
    episodes = draw_episodes(stream(5, "test"), 4, 3).double()
    x, t = episodes.support[..., :-1], episodes.support[..., -1:]
    task = torch.linalg.lstsq(x, t).solution
    asked = torch.matmul(episodes.queries[..., :-1], task).squeeze(-1)
    # The targets were formed in float32, from sums of five products.
    assert torch.allclose(asked, episodes.targets, atol=1e-5)
    assert not episodes.queries[..., -1].any()


@pytest.mark.parametrize("architecture", ["linear", "softmax", "rope"])
def test_the_block_is_attention_by_its_definition(architecture: str) -> None:
    """Key by key in NumPy, RoPE as complex numbers."""
    weights = initial_weights(stream(5, "weights", 3)).double()
    episodes = draw_episodes(stream(5, "test"), 1, 1).double()
    support, query = episodes.support[0].numpy(), episodes.queries[0, 0].numpy()
    total = 0.0
    for head in range(2):
        q, k, v, o = (x[head].numpy() for x in weights.tensors().values())
        keys, asking, values = support @ k, query @ q, support @ v
        if architecture == "rope":
            turn = 1j * 1e4 ** (-np.arange(8) / 8)
            keys = (keys[:, :8] + 1j * keys[:, 8:]) * np.exp(np.outer(np.arange(SUPPORT), turn))
            asking = (asking[:8] + 1j * asking[8:]) * np.exp(SUPPORT * turn)
        scores = (keys * asking.conj()).sum(-1).real / np.sqrt(WIDTH)
        weighed = scores / SUPPORT
        if architecture != "linear":
            weighed = np.exp(scores) / np.exp(scores).sum()
        total += (weighed @ values) @ o[:, -1]
    predicted = predict(architecture, weights, episodes.support, episodes.queries)
    assert float(predicted) == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("gauge", ["original", "mean"])
def test_the_exact_step_gives_the_prediction_and_depends_on_the_gauge(gauge: str) -> None:
    weights = initial_weights(stream(5, "weights", 0)).double()
    episodes = draw_episodes(stream(5, "test"), 2, 2).double()
    step = effective_step("softmax", weights, episodes, gauge)
    predicted = predict("softmax", weights, episodes.support, episodes.queries)
    assert torch.allclose(step.prediction, predicted, rtol=0, atol=1e-14)
    other = effective_step("softmax", weights, episodes, {"mean": "original"}.get(gauge, "mean"))
    assert not torch.allclose(step.direction, other.direction)
    # For linear attention the step is the Jacobian.
    linear = effective_step("linear", weights, episodes, gauge)
    slope = jacobians("linear", weights, episodes)
    assert torch.allclose(linear.direction, slope, rtol=0, atol=1e-15)


def test_the_state_with_the_least_validation_error_is_kept() -> None:
    settings = RegressionSettings(steps=40, every=1, validation=8, rate=0.2)
    validation = draw_episodes(stream(5, "validation"), 8, 2)
    trained = train(settings, "softmax", 0, validation)
    errors = dict(trained.curve)
    assert trained.step == min(errors, key=lambda step: errors[step]) < 40
    with torch.no_grad():
        kept = float(squared_error("softmax", trained.weights, validation))
    assert kept == errors[trained.step]


@pytest.mark.parametrize("name", ["query", "key", "value", "output"])
def test_changed_weights_are_found_by_replay(finished: Path, name: str) -> None:
    weights = load_file(finished / "units" / "rope-001" / "captures.safetensors")
    shared = load_file(next((finished / "weights").glob("captures.safetensors")))
    weights[name] = weights[name] * np.float32(1 + 1e-5)
    from finite_calculus.harness.records import unit_tables

    tables = unit_tables(STUDY, SMALL, finished / "units" / "rope-001")
    pairs = list(replay_unit(SMALL, shared, weights, tables))
    wrong = {pair.name for pair in pairs if pair.relative > ALLOWED}
    assert {"rate", "prediction", "disagreement_mse"} <= wrong


@pytest.mark.parametrize("gauge", ["original", "mean"])
def test_a_step_that_is_wrong_fails_its_check_or_its_replay(
    gauge: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = unit.effective_step

    def wrong(form: str, weights: Any, episodes: Episodes, asked: str) -> Any:
        step = right(form, weights, episodes, asked)
        if asked != gauge:
            return step
        return type(step)(step.direction, step.prediction * (1 + 1e-9))

    monkeypatch.setattr(unit, "effective_step", wrong)
    checks = unit.run_job(SMALL, unit.Job("softmax", 0)).checks
    assert [check.name for check in checks if check.failed] == [
        f"prediction through effective weights, {gauge} gauge"
    ]


def test_a_matrix_that_is_no_gradient_step_fails_its_check(monkeypatch: pytest.MonkeyPatch) -> None:
    right = unit.unit_gradient_step
    monkeypatch.setattr(unit, "unit_gradient_step", lambda step: right(step) * (1 + 1e-12))
    checks = unit.run_job(SMALL, unit.Job("softmax", 0)).checks
    assert [c.name for c in checks if c.failed] == ["effective weights as a gradient step"]


def test_heads_read_the_bank_that_is_theirs() -> None:
    weights = initial_weights(stream(5, "weights", 0)).double()
    episodes = draw_episodes(stream(5, "test"), 2, 2).double()
    bank = bank_of("softmax", weights, episodes.support)
    outputs = head_outputs("softmax", weights, bank, episodes.queries)
    bank.values[:, 1] = 0
    silent = head_outputs("softmax", weights, bank, episodes.queries)
    assert torch.equal(silent[:, 0], outputs[:, 0])
    assert not silent[:, 1].any()


def test_the_cosine_of_parallel_and_of_vanishing_vectors() -> None:
    vector = torch.tensor([3.0, -4.0])
    assert float(cosine(vector, -2 * vector)) == -1
    assert cosine(vector, 0 * vector).isnan()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"every": 7}, "`every` must not exceed the 6 steps"),
        ({"diagnostics": 7}, "`diagnostics` must not exceed the 6 test episodes; got 7"),
        ({"architectures": ("rope", "rope")}, "`architectures` must name each one once"),
    ],
)
def test_settings_that_cannot_be_run_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RegressionSettings.model_validate({**SMALL.model_dump(), **wrong})


def test_replay_of_another_file_is_refused_by_its_hash(finished: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "run"
    shutil.copytree(finished, copy)
    target = copy / "units" / "softmax-000" / "captures.safetensors"
    weights = load_file(target)
    save_file({name: -array for name, array in weights.items()}, target)
    with pytest.raises(ValueError, match="damaged"):
        replay(copy)
