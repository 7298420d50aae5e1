"""Half precision: the algebra is that of the captured values, writes keep their bound, sabotage is seen."""

import dataclasses
import os

import pytest
import torch

import finite_calculus.models.layer as layer_of
from finite_calculus.models import (
    Delete,
    KeyShift,
    Odds,
    Quantise,
    QueryEdit,
    ScaleValues,
    UnsupportedModelError,
    attach,
    compare_locally,
    load_capture,
    local_check,
    save_capture,
)
from finite_calculus.models.bounds import local_error
from finite_calculus.models.edits import edited_bank
from finite_calculus.models.precision import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    PRECISIONS,
    cast_weights,
    precision_of,
)
from finite_calculus.models.storage import same_tensors
from finite_calculus.models.sum_order import half_place
from finite_calculus.models.tiny import FAMILIES, tiny_model
from native_checks.bench import Bench
from native_checks.preflight import preflight
from native_checks.queries import requested_ratios_are_native
from native_checks.sums import kept_ones

HALVES = ("bfloat16", "float16")
pytestmark = pytest.mark.usefixtures("unchecked_shapes")


def edits_of(layer) -> list:
    nudge = torch.linspace(-0.2, 0.2, layer.query.numel()).reshape(layer.query.shape)
    edits = [
        Delete(layer.layer, (3,)),
        Delete(layer.layer, (4,), heads=(0,)),
        Odds(layer.layer, (2, 5), 3.0),
        ScaleValues(layer.layer, (1,), 0.3),
        Quantise(layer.layer, (6, 7), 4),
        QueryEdit(layer.layer, (), nudge),
        (ScaleValues(layer.layer, (1,), 1.7), Odds(layer.layer, (1,), 0.3)),
    ]
    return edits if layer.rotary is None else [*edits, KeyShift(layer.layer, (2,), 3.0)]


# Families in turn in one precision and the other; with NIGHTLY=1 each in both.
GATES = [
    (family, name)
    for number, family in enumerate(sorted(FAMILIES))
    for name in HALVES
    if name == HALVES[number % 2] or os.environ.get("NIGHTLY") == "1"
]


@pytest.mark.parametrize(("family", "name"), GATES)
def test_the_gate_opens_for_every_family_in_half_precision(half, family, name):
    report = preflight(half(family, name))
    assert report.passed, "\n".join(report.lines())
    assert report.fingerprint["dtype"] == f"torch.{name}"


@pytest.mark.parametrize("family", ["qwen2", "gemma2", "qwen3", "gpt2"])
def test_the_gate_opens_for_a_float64_model(half, family):
    report = preflight(half(family, "float64"))
    assert report.passed, "\n".join(report.lines())


@pytest.mark.parametrize("path", ["resumed", "whole", "shared"])
@pytest.mark.parametrize("name", HALVES)
def test_executed_writes_meet_their_bound(half, ids, name, path):
    with attach(half("qwen2", name)) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        edits = [edit for layer in capture.layers for edit in edits_of(layer)]
        for edit, outcome in (
            zip(
                edits[:: 1 if path == "resumed" else 3],
                instrument.execute(capture, edits, path=path).outcomes[
                    :: 1 if path == "resumed" else 3
                ],
                strict=True,
            )
            if path != "shared"
            else _shared(instrument, capture, edits)
        ):
            local = compare_locally(edit, outcome)
            for part in (local.response, local.write):
                assert bool(torch.isfinite(part.bound).all())
                assert bool((part.error.abs() <= part.bound).all()), edit
            # Nor is it so wide that a wrong write would pass: a few last places of what is written.
            size = outcome.write.double().abs().max() + outcome.control_write.double().abs().max()
            assert float(local.write.bound.max()) <= 64 * capture.layers[0].precision.unit * size


def _shared(instrument, capture, edits):
    plain = [e for e in edits if isinstance(e, tuple) or e.heads is None or e.by_score]
    return zip(plain, instrument.execute(capture, plain, path="shared").outcomes, strict=True)


@pytest.mark.parametrize("name", HALVES)
def test_captures_hold_values_of_the_precision_and_edits_are_rounded_to_it(half, ids, name):
    precision = PRECISIONS[name]
    with attach(half("llama", name)) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5, layers=[1])
        layer = capture.layer(1)
        assert layer.dtype == name
        for field in dataclasses.fields(layer):
            value = getattr(layer, field.name)
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                assert value.dtype == torch.float32
                assert torch.equal(precision.round(value), value), field.name
        for edit in edits_of(layer):
            bank = edited_bank(layer, edit)
            for tensor in (bank.query, bank.keys, bank.values, bank.bias):
                assert torch.equal(precision.round(tensor), tensor)


@pytest.mark.parametrize("name", HALVES)
def test_a_saved_capture_predicts_the_same(half, ids, name, tmp_path):
    with attach(half("qwen2", name)) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        save_capture(capture, tmp_path / "capture.safetensors")
        again = load_capture(tmp_path / "capture.safetensors")
        assert same_tensors(capture, again)
        edit = Odds(1, (4,), 8.0)
        assert again.predict(edit).effect == capture.predict(edit).effect
        (outcome,) = instrument.execute(again, [edit]).outcomes
        assert local_check(edit, outcome).within_bound


@pytest.mark.parametrize("name", HALVES)
def test_what_is_installed_generates_what_is_executed(half, ids, name):
    model = half("qwen2", name)
    with attach(model) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        edit = Odds(0, (4, 5), 50.0)
        (outcome,) = instrument.execute(capture, [edit], path="whole", keep_logits=True).outcomes
        with instrument.installed(capture, edit):
            made = model.generate(ids.unsqueeze(0), max_new_tokens=1, do_sample=False)
        assert outcome.logits is not None
        likeliest = outcome.logits.topk(2)
        # Prefill and last token round differently: the token is that of `execute` unless two are as likely.
        apart = float(likeliest.values[0] - likeliest.values[1])
        if apart > instrument.noise_floor(capture):
            assert int(made[0, -1]) == int(likeliest.indices[0])


@pytest.mark.parametrize("name", HALVES)
def test_passages_keep_their_bounds_and_second_orders_are_refused(half, ids, name):
    with attach(half("llama", name)) as instrument:
        passage = instrument.passage(ids, instrument.log_probability([5, 9, 7]))
        edit = Odds(1, (4, 5), 4.0)
        (outcome,) = instrument.execute_passage(passage, [edit])
        assert all(local_check(edit, query).within_bound for query in outcome.queries)
        assert instrument.noise_floor(passage) > 0
        with pytest.raises(UnsupportedModelError, match=f"computes in {name}"):
            instrument.second_order(passage, edit)
        with pytest.raises(
            UnsupportedModelError, match="Second derivatives need a model in float32"
        ):
            instrument.capture(ids, answer=3, versus=5, curvature=2)


@pytest.mark.parametrize("name", HALVES)
def test_the_noise_floor_covers_what_another_rounding_does_to_effects(half, ids, name):
    """Effects of the very same edits and weights, in half precision and in float32."""
    model, twin = half("llama", name), half("llama", name, upcast=True)
    effects, floors = [], []
    for each in (model, twin):
        with attach(each) as instrument:
            capture = instrument.capture(ids, answer=3, versus=5)
            edits = [Odds(n, (t,), 2.0) for n in range(3) for t in (3, 9, 15)]
            effects.append(instrument.execute(capture, edits).effects)
            floors.append(instrument.noise_floor(capture))
    assert bool(((effects[0] - effects[1]).abs() <= floors[0]).all())
    # It scales with the precision, and says something: a few hundred last places of the logits.
    assert floors[1] < floors[0] * 2**-6
    assert floors[0] < 500 * PRECISIONS[name].unit * float(capture.logits.abs().max())


def test_an_accumulation_in_half_precision_shuts_the_gate(half, monkeypatch):
    genuine = torch.matmul

    def in_pieces(left, right):
        if left.dtype != torch.float16 or left.shape[-1] < 4:
            return genuine(left, right)
        middle = left.shape[-1] // 2
        return genuine(left[..., :middle], right[..., :middle, :]) + genuine(
            left[..., middle:], right[..., middle:, :]
        )

    monkeypatch.setattr(torch, "matmul", in_pieces)
    failed = preflight(half("qwen2", "float16")).failed
    assert {"sums are float32", "products are as probed"} <= set(failed)


def test_a_softmax_in_half_precision_shuts_the_gate(half, monkeypatch):
    def softmax(scores, dim=-1, dtype=None):
        weights = torch.exp(scores - scores.amax(dim, keepdim=True))
        return weights / weights.cumsum(dim)[..., -1:]

    monkeypatch.setattr(torch.nn.functional, "softmax", softmax)
    assert "softmax is float32" in preflight(half("qwen2", "bfloat16")).failed


@pytest.mark.parametrize("name", HALVES)
def test_algebra_in_half_precision_shuts_the_gate(half, monkeypatch, name):
    genuine = layer_of.LayerCapture.scores

    def scores(self, bank=None):
        return genuine(self, bank).to(getattr(torch, name)).double()

    # What the model itself rounds: closer to its own result, and no longer exact.
    monkeypatch.setattr(layer_of.LayerCapture, "scores", scores)
    assert "algebra is float64" in preflight(half("qwen2", name)).failed


def test_kept_ones_finds_a_half_accumulator():
    def product(left, factor):
        return left @ torch.full((left.shape[-1], 3), factor, dtype=left.dtype)

    def in_half(left, factor):
        total = left[:, :1] * factor
        for term in range(1, left.shape[-1]):
            total = total + left[:, term : term + 1] * factor
        return total

    for precision in (FLOAT16, BFLOAT16):
        for terms in (8, 48, 300):
            assert kept_ones(product, terms, precision, torch.device("cpu")) == 0
            assert kept_ones(in_half, terms, precision, torch.device("cpu")) > 0


@pytest.mark.parametrize("precision", [FLOAT16, BFLOAT16])
def test_half_a_place_is_what_rounding_may_cost(precision):
    draw = torch.Generator().manual_seed(3)
    wide = torch.randn(20_000, generator=draw, dtype=torch.float64)
    wide = wide * 2.0 ** torch.randint(-30, 12, wide.shape, generator=draw)
    apart = (wide.to(precision.dtype).double() - wide).abs()
    places = half_place(wide.abs(), precision)
    assert bool((apart <= places).all())
    assert float((apart / places).max()) > 0.9


@pytest.mark.parametrize("precision", [FLOAT16, BFLOAT16])
def test_scores_are_scaled_by_a_factor_of_float32(precision):
    """torch multiplies half precision by a Python number in float32, as the bounds take it."""
    scaling = 48**-0.5
    x = torch.linspace(0.5, 4, 4001).to(precision.dtype)
    exact = (x.double() * float(torch.tensor(scaling, dtype=torch.float32))).float()
    assert torch.equal(x * scaling, exact.to(precision.dtype))
    assert not torch.equal(x * scaling, x * torch.tensor(scaling, dtype=precision.dtype))


def test_an_edited_query_is_executed_as_it_is_predicted(half, ids):
    with attach(half("qwen2", "bfloat16")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5, layers=[1])
        edit = edits_of(capture.layer(1))[5]
        (outcome,) = instrument.execute(capture, [edit]).outcomes
        bank = edited_bank(outcome.layer, edit)
        exact = outcome.layer.readout(bank).output
        error = local_error(outcome.layer, bank, kernels=outcome.kernels)
        assert bool(((outcome.output.double() - exact).abs() <= error.output).all())


def test_precisions_are_named_and_others_are_refused():
    assert precision_of("bfloat16") is precision_of(torch.bfloat16) is BFLOAT16
    assert FLOAT16.half
    assert not FLOAT32.half
    with pytest.raises(
        ValueError, match="`dtype` must be one of float32, bfloat16, float16, float64"
    ):
        precision_of("int8")


@pytest.mark.parametrize("name", ["float32", *HALVES])
def test_a_deletion_in_one_head_has_a_finite_bound(half, ids, name):
    """The lowest score took the bound of that head to infinity, and with it every check of it."""
    with attach(half("qwen2", name)) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5, layers=[1])
        edit = Delete(1, (3, 4), heads=(2,))
        (outcome,) = instrument.execute(capture, [edit]).outcomes
        local = compare_locally(edit, outcome)
        assert bool(torch.isfinite(local.response.bound).all())
        assert local_check(edit, outcome).within_bound


def test_a_ratio_of_weights_that_are_stored_as_zero_is_not_asked_about(ids):
    """Sharp heads in float16: a logarithm of nothing shut the gate of a sound model."""
    sharp = cast_weights(tiny_model("qwen2", scale=1.2), torch.float16)
    with attach(sharp) as instrument:
        bench = Bench(instrument, ids, 3, 5, 4)
        lightest = [float(replay.base.probs.min(-1).values.min()) for replay in bench.replays]
        check = requested_ratios_are_native(bench)
    assert min(lightest) == 0
    assert check.passed, check.line()
    # Heads that are not that sharp are still asked.
    assert check.compared
    assert check.compared < 2 * 6 * len(bench.replays)
