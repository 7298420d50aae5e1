"""The reconstruction study: two coordinates agree, a frozen matrix errs by what is said, sabotage is seen."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from finite_calculus.harness.records import failed_checks, read_saved, unit_tables
from finite_calculus.harness.replay import ALLOWED, replay
from finite_calculus.harness.runner import run
from finite_calculus.harness.summary import report_tables
from finite_calculus.models import Instrument, LayerCapture, attach
from finite_calculus.studies.reconstruction import STUDY, ReconstructionSettings, frozen, unit
from finite_calculus.studies.reconstruction.heads import Head, head_of
from finite_calculus.studies.reconstruction.native import best_tokens, continue_prefix
from finite_calculus.studies.reconstruction.replay import replay_unit
from finite_calculus.studies.reconstruction.rows import Frozen, Reconstruction
from finite_calculus.studies.reconstruction.unit import Context, run_context
from finite_calculus.tasks.articles import ArticlePrefix

pytestmark = pytest.mark.xdist_group("reconstruction")  # one worker makes its run, once

TOKENS, CONTINUATIONS = 23, 10


def settings(folder: Path | None = None, **changes: Any) -> ReconstructionSettings:
    given = {"model": "embedded", "source": "folder", "data": folder, "contexts": 2, "tokens": TOKENS,
             "continuations": CONTINUATIONS, "batch": 6}  # fmt: skip
    return ReconstructionSettings.complete({**given, **changes}, 4)


@pytest.fixture(scope="module")
def finished(embedded: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for n, text in enumerate(
        ("Every head reads the same bank. " * 4, "An anchor is one query. " * 4)
    ):
        (folder / f"{n}.txt").write_text(text)
    out = tmp_path_factory.mktemp("reconstruction") / "run"
    assert run(STUDY, settings(folder), out, loaded=embedded).done == 2
    return out


@pytest.fixture(scope="module")
def prefix(embedded: Any) -> ArticlePrefix:
    ids = embedded[1]("The last of these tokens is the first that follows.")["input_ids"]
    return ArticlePrefix("a text", tuple(ids[:TOKENS]), ids[TOKENS])


def context_checks(embedded: Any, prefix: ArticlePrefix) -> set[str]:
    with attach(embedded[0], tokenizer=embedded[1]) as instrument:
        result = run_context(instrument, settings(contexts=1), Context(0, prefix))
    return {check.name for check in result.checks if check.failed}


@pytest.fixture(scope="module")
def layers(embedded: Any, prefix: ArticlePrefix) -> list[LayerCapture]:
    with attach(embedded[0], tokenizer=embedded[1]) as instrument:
        tokens = best_tokens(instrument, prefix, CONTINUATIONS)
        return [row.layer for row in continue_prefix(instrument, prefix, tokens, 3, 6)]


def test_a_run_has_a_row_for_every_head_and_write_and_replays(finished: Path) -> None:
    assert failed_checks(finished) == ""
    saved = read_saved(finished)
    rows = saved.records.rows(Reconstruction)
    assert [(row.context, row.head) for row in rows] == [
        (context, head) for context in (0, 1) for head in (0, 1, 2, 3, None)
    ]
    assert len(saved.records.rows(Frozen)) == 2 * len(rows)
    result = replay(finished)
    assert result.passed
    # Of each head three figures and two in either gauge; of each write one in either gauge.
    assert result.compared == 2 * (4 * (3 + 4) + 2)
    tables = {table.name: table for table in report_tables(saved)}
    assert list(tables) == ["float64", "native", "frozen", "heads", "audit"]
    write = [row for row in rows if row.head is None]
    assert tables["native"].rows[1][2] == pytest.approx(np.mean([r.native_mse for r in write]))
    assert dict(tables["audit"].rows)["rows of a combined write"] == 2


def test_float64_readouts_differ_no_more_than_roundings_of_the_inputs_do(finished: Path) -> None:
    for row in read_saved(finished).records.rows(Reconstruction):
        for error, rounding in (
            (row.prefix_mse, row.prefix_mse_rounding),
            (row.full_mse, row.full_mse_rounding),
        ):
            # A random rounding is a third of the largest; the readout has sums over keys and inputs besides.
            assert error <= 100 * rounding


def test_continuations_are_the_observed_token_and_the_best_ordinary_others(
    embedded: Any, prefix: ArticlePrefix
) -> None:
    model, tokenizer = embedded
    with attach(model, tokenizer=tokenizer) as instrument:
        tokens = best_tokens(instrument, prefix, CONTINUATIONS)
        with pytest.raises(
            ValueError, match=r"`continuations` must not exceed the \d+ ordinary tokens"
        ):
            best_tokens(instrument, prefix, 10**6)
    assert tokens[0] == prefix.observed
    assert len(set(tokens)) == CONTINUATIONS
    assert not set(tokens) & set(tokenizer.all_special_ids)
    with torch.no_grad():
        logits = model(torch.tensor([prefix.ids])).logits[0, -1]
    others = logits[tokens[1:]]
    assert torch.equal(others, others.sort(descending=True).values)
    ordinary = logits.clone()
    ordinary[[*tokenizer.all_special_ids, *tokens]] = -torch.inf
    assert float(ordinary.max()) <= float(others.min())


def test_a_row_of_the_batch_is_the_prompt_with_its_token(
    embedded: Any, prefix: ArticlePrefix, layers: list[LayerCapture]
) -> None:
    """The same continuation as a prompt of its own, up to the rounding of another batch size."""
    model, tokenizer = embedded
    with attach(model, tokenizer=tokenizer) as instrument:
        tokens = best_tokens(instrument, prefix, CONTINUATIONS)
        for n in (0, 7):
            ids = [*prefix.ids, tokens[n]]
            alone = instrument.capture(ids, answer=0, versus=1, layers=[3]).layer(3)
            for name in ("query", "keys", "values", "output", "write", "head_input"):
                one, other = getattr(alone, name), getattr(layers[n], name)
                assert torch.allclose(one, other, rtol=0, atol=2e-5 * float(one.abs().max())), name


def test_a_head_is_softmax_attention_and_its_self_mass_relation_holds(
    layers: list[LayerCapture],
) -> None:
    for number in (0, 3):
        head = head_of(layers, number)
        for n, layer in enumerate(layers):
            native = layer.output[number].double()
            assert torch.allclose(head.full.output[n], native, rtol=0, atol=1e-5)
        assert torch.allclose(head.relation, head.full.output, rtol=0, atol=1e-14)
        assert bool((head.self_mass > 0).all())
        assert not torch.allclose(head.prefix.output, head.full.output, rtol=0, atol=1e-6)


def test_a_frozen_matrix_errs_and_the_correction_gives_the_output_again(
    layers: list[LayerCapture],
) -> None:
    head = head_of(layers, 1)
    for gauge in ("original", "mean"):
        still = frozen.freeze_anchor(head, gauge)
        assert float(still.errors[0]) < 1e-13
        assert float(still.errors.max()) > 1e-4
        assert bool(((still.corrected - still.output).abs() <= still.budget).all())
        figure, bound = still.worst_pair
        assert 1e-4 < figure <= bound


def test_gauges_and_portions_change_the_matrices_and_not_the_readout(
    layers: list[LayerCapture],
) -> None:
    head = head_of(layers, 2)
    parts = {gauge: list(head.prefix_weights(gauge)) for gauge in ("original", "mean")}
    assert [rows.start for rows, _ in parts["mean"]] == [0, 8]
    for (_, one), (_, other) in zip(*parts.values(), strict=True):
        assert torch.allclose(one.output, other.output, rtol=0, atol=1e-13)
        assert not torch.allclose(one.matrix, other.matrix, rtol=1e-6)


SABOTAGE = {
    "effective weights, prefix": ("prefix_weights", "matrix"),
    "effective weights, causal": ("full_weights", "mean"),
}


@pytest.mark.parametrize("name", SABOTAGE)
def test_a_readout_that_is_off_by_a_hundred_millionth_fails_its_check(
    name: str, embedded: Any, prefix: ArticlePrefix, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, field = SABOTAGE[name]
    right = getattr(Head, method)

    def wrong(self: Head, *gauge: str) -> Any:
        for rows, weights in right(self, *gauge):
            yield rows, replace(weights, **{field: getattr(weights, field) * (1 + 1e-8)})

    monkeypatch.setattr(Head, method, wrong)
    assert f"layer 3: {name}" in context_checks(embedded, prefix)


def test_a_wrong_self_mass_fails_its_check(
    embedded: Any, prefix: ArticlePrefix, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = property(lambda self: self.full.probs[:, -1] * (1 + 1e-7))
    monkeypatch.setattr(Head, "self_mass", wrong)
    assert "layer 3: self-mass relation" in context_checks(embedded, prefix)


def test_a_correction_of_other_tokens_fails_its_check(
    embedded: Any, prefix: ArticlePrefix, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = frozen.anchor_residual
    monkeypatch.setattr(frozen, "anchor_residual", lambda *a: right(*a) * (1 + 1e-6))
    assert context_checks(embedded, prefix) == {
        f"layer 3: corrected readout, {gauge} gauge" for gauge in ("original", "mean")
    }


def test_a_bound_that_is_too_small_fails_its_check(
    embedded: Any, prefix: ArticlePrefix, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = frozen.anchor_bound
    monkeypatch.setattr(frozen, "anchor_bound", lambda *a: right(*a) / 100)
    assert context_checks(embedded, prefix) == {
        f"layer 3: frozen error, {gauge} gauge" for gauge in ("original", "mean")
    }


@pytest.mark.parametrize(
    ("name", "failed"),
    [("output", "native float32"), ("write", "native float32"), ("query", "native query")],
)
def test_a_native_tensor_of_another_row_fails_its_check(
    name: str,
    failed: str,
    embedded: Any,
    prefix: ArticlePrefix,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = unit.continue_prefix

    def swapped(*arguments: Any) -> Any:
        rows = right(*arguments)
        other = getattr(rows[1].layer, name)
        rows[0] = replace(rows[0], layer=replace(rows[0].layer, **{name: other}))
        return rows

    monkeypatch.setattr(unit, "continue_prefix", swapped)
    assert f"layer 3: {failed}" in context_checks(embedded, prefix)


@pytest.mark.parametrize("name", ["keys", "values", "inputs", "own_keys", "outputs"])
def test_a_changed_capture_is_found_by_replay(finished: Path, name: str) -> None:
    shard = finished / "units" / "article-001"
    tensors = load_file(shard / "captures.safetensors")
    shared = load_file(finished / "weights" / "captures.safetensors")
    tensors[f"3.{name}"] = tensors[f"3.{name}"] * np.float32(1 + 1e-5)
    used = STUDY.Settings.model_validate({**settings().model_dump(), "layers": (3,)})
    pairs = list(replay_unit(used, shared, tensors, unit_tables(STUDY, used, shard)))
    assert any(pair.relative > ALLOWED for pair in pairs)


def test_layers_that_are_not_plain_softmax_are_refused(layers: list[LayerCapture]) -> None:
    with pytest.raises(ValueError, match=r"Layer 3 must be plain softmax attention.*a softcap"):
        head_of([replace(layer, softcap=30.0) for layer in layers], 0)
    with pytest.raises(ValueError, match="it has sinks"):
        head_of([replace(layer, sinks=torch.zeros(4)) for layer in layers], 0)


def test_the_settings_follow_the_model() -> None:
    paper = ReconstructionSettings.complete({"model": "qwen2.5-0.5b"}, 24)
    assert (paper.layers, paper.tokens, paper.contexts, paper.continuations) == ((23,), 511, 16, 32)
    assert ReconstructionSettings.complete({"model": "stories15m"}, 6).tokens == 255
    assert paper.folders == ()
    assert settings().folders == ("data",)
    with pytest.raises(ValueError, match="needs a model; its depth is not known"):
        ReconstructionSettings.complete({"model": "embedded"}, None)


def test_a_prefix_without_room_for_a_token_is_refused(embedded: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the prompt has 513 tokens and the model takes 512"):
        run(STUDY, settings(tmp_path, tokens=512), tmp_path / "run", loaded=embedded)


def test_the_instrument_is_left_as_it_was(embedded: Any, prefix: ArticlePrefix) -> None:
    model, tokenizer = embedded
    hooks = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())
    with attach(model, tokenizer=tokenizer) as instrument:
        assert isinstance(instrument, Instrument)
        tokens = best_tokens(instrument, prefix, 3)
        rows = continue_prefix(instrument, prefix, tokens, 3, 32)
        before = instrument.prompt(torch.tensor([*prefix.ids, tokens[0]])).prefix.digest()
        continue_prefix(instrument, prefix, tokens, 3, 32)
        assert instrument.prompt(torch.tensor([*prefix.ids, tokens[0]])).prefix.digest() == before
    assert all(row.same_bank for row in rows)
    assert sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()) == hooks
