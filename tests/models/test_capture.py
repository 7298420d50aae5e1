"""A capture holds what the model computed, and predicts the same from memory and from a file."""

import dataclasses
import json

import pytest
import torch

from finite_calculus.margin import head_gradient
from finite_calculus.models import (
    KeyShift,
    UnsupportedModelError,
    attach,
    head_weights,
    load_capture,
    output_error,
    predict,
    save_capture,
)
from finite_calculus.models.bounds import query_error
from finite_calculus.models.capture import check_replay
from finite_calculus.models.margins import Margin, margin
from finite_calculus.models.projections import affine_query, projection_weights
from finite_calculus.models.storage import same_tensors
from finite_calculus.models.tiny import tiny_model
from finite_calculus.rounding import error_of, track
from native_checks.bench import battery
from native_checks.local import query_share

FAMILIES = ["qwen2", "llama", "gemma2", "gpt_oss", "gpt_neox", "gpt2"]


def native_logits(model, ids):
    with torch.no_grad():
        return model(input_ids=ids.unsqueeze(0), use_cache=True).logits[0, -1]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_capture_repeats_bit_for_bit_and_its_leaves_change_nothing(tiny, ids, family):
    model = tiny(family)
    with attach(model) as instrument:
        first = instrument.capture(ids, answer=3, versus=5)
        second = instrument.capture(ids, answer=3, versus=5)
        with torch.no_grad():
            prefix = instrument.prefix(ids)
            output = model(input_ids=prefix.last, past_key_values=prefix.cache(), use_cache=True)
    assert same_tensors(first, second)
    assert first.baseline == float(first.margin.of(output.logits[0, -1]))


def test_keys_and_values_are_those_of_the_native_cache(tiny, ids):
    model = tiny("qwen2")
    with attach(model) as instrument, torch.no_grad():
        capture = instrument.capture(ids, answer=3, versus=5)
        # The same two calls without the instrument's cache: all tokens but the last, then the last.
        cache = model(input_ids=ids[None, :-1], use_cache=True).past_key_values
        cache = model(input_ids=ids[None, -1:], past_key_values=cache).past_key_values
    for layer in capture.layers:
        assert layer.keys.shape == (2, 20, 8)
        assert torch.equal(layer.keys, cache.layers[layer.layer].keys[0])
        assert torch.equal(layer.values, cache.layers[layer.layer].values[0])


def test_a_positive_margin_means_that_the_answer_is_preferred(tiny, ids):
    model = tiny("qwen2")
    logits = native_logits(model, ids)
    best, worst = int(logits.argmax()), int(logits.argmin())
    with attach(model) as instrument:
        towards = instrument.capture(ids, answer=best, versus=worst, layers=[2])
        away = instrument.capture(ids, answer=worst, versus=best, layers=[2])
    assert towards.baseline > 0 > away.baseline
    assert towards.logits[0] > towards.logits[1]
    assert Margin(1, 0).of(torch.tensor([2.0, 5.0])) == 3.0
    # Moving the write along the gradient raises the margin.
    assert torch.equal(towards.layer(2).gradient_write, -away.layer(2).gradient_write)


def test_the_gradient_at_y_is_the_projected_gradient(tiny, ids):
    with attach(tiny("llama")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
    for layer in capture.layers:
        expected = head_gradient(layer.output_projection.double(), layer.gradient_write.double())
        # One float32 product over the model width, in any order.
        bound = error_of(head_gradient(track(layer.output_projection), track(layer.gradient_write)))
        assert bool(((layer.gradient_output.double() - expected).abs() <= bound).all())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_capture_predicts_the_same_without_the_model(tiny, ids, tmp_path, family):
    with attach(tiny(family)) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        path = save_capture(capture, tmp_path / "capture.safetensors")
    loaded = load_capture(path)
    assert same_tensors(capture, loaded)
    assert (loaded.baseline, loaded.margin) == (capture.baseline, capture.margin)
    for layer, again in zip(capture.layers, loaded.layers, strict=True):
        for one, two in zip(battery(layer, layer), battery(again, again), strict=True):
            assert torch.equal(predict(layer, one).response, predict(again, two).response)
            assert capture.predict(one).effect == loaded.predict(two).effect
        assert torch.equal(capture.readout(layer.layer).probs, layer.readout().probs)


def test_a_capture_from_a_file_executes_on_its_model_and_on_no_other(tiny, ids, tmp_path):
    with attach(tiny("qwen2")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        before = instrument.execute(capture, [KeyShift(1, (4,), 2)])
        path = save_capture(capture, tmp_path / "capture.safetensors")
    loaded = load_capture(path)
    with attach(tiny("qwen2")) as instrument:
        assert torch.equal(
            instrument.execute(loaded, [KeyShift(1, (4,), 2)]).margins, before.margins
        )
    with (
        attach(tiny("llama")) as instrument,
        pytest.raises(ValueError, match="`capture` must come from the attached model"),
    ):
        instrument.execute(loaded, [KeyShift(1, (4,), 2)])


def test_a_changed_file_is_refused(tiny, ids, tmp_path):
    with attach(tiny("qwen2")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5, layers=[1])
    path = save_capture(capture, tmp_path / "capture.safetensors")
    blob = bytearray(path.read_bytes())
    blob[-1] ^= 1
    path.write_bytes(blob)
    with pytest.raises(
        ValueError, match=r"sha256 of capture\.safetensors must be.* changed or cut off"
    ):
        load_capture(path)
    manifest = path.with_suffix(".json")
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
    with pytest.raises(ValueError, match="must have format 2; got 99"):
        load_capture(path)
    manifest.unlink()
    with pytest.raises(FileNotFoundError, match=r"capture.json is not there"):
        load_capture(path)
    with pytest.raises(ValueError, match=r"must end in .safetensors; got 'x.pt'"):
        save_capture(capture, tmp_path / "x.pt")


def test_a_capture_cannot_be_changed(tiny, ids):
    with attach(tiny("qwen2")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5, layers=[1])
    with pytest.raises(dataclasses.FrozenInstanceError):
        capture.baseline = 0.0
    with pytest.raises(ValueError, match=r"one of the captured layers \[1\]; got 2"):
        capture.layer(2)


def test_an_attention_that_is_not_the_captured_softmax_is_refused(tiny, ids):
    with attach(tiny("qwen2")) as instrument:
        layer = instrument.capture(ids, answer=3, versus=5, layers=[1]).layer(1)
    check_replay(layer)
    wrong = dataclasses.replace(layer, scaling=layer.scaling * 1.01)
    with pytest.raises(UnsupportedModelError, match="This attention variant is not supported"):
        check_replay(wrong)


def test_leaving_out_a_sink_is_noticed(tiny, ids):
    with attach(tiny("gpt_oss")) as instrument:
        layer = instrument.capture(ids, answer=3, versus=5, layers=[1]).layer(1)
    with pytest.raises(UnsupportedModelError, match="its replay differs by"):
        check_replay(dataclasses.replace(layer, sinks=None))


@pytest.mark.parametrize(
    ("family", "reason"), [("qwen3", "normalised"), ("gpt_neox", "plain linear")]
)
def test_effective_weights_are_refused_where_the_query_is_not_affine(tiny, ids, family, reason):
    with attach(tiny(family)) as instrument:
        layer = instrument.capture(ids, answer=3, versus=5, layers=[1]).layer(1)
    with pytest.raises(ValueError, match=f"affine in the head input; .*{reason}"):
        head_weights(layer, 0)


def test_effective_weights_are_refused_under_a_softcap(tiny, ids):
    with attach(tiny("gemma2")) as instrument:
        layer = instrument.capture(ids, answer=3, versus=5, layers=[1]).layer(1)
    with pytest.raises(ValueError, match=r"caps them at 2\.0"):
        head_weights(layer, 0)


def test_effective_weights_agree_in_both_gauges(tiny, ids):
    with attach(tiny("qwen2")) as instrument:
        layer = instrument.capture(ids, answer=3, versus=5, layers=[1]).layer(1)
    bound = (output_error(layer) + query_share(layer))[4]
    for gauge in ("mean", "original"):
        apart = head_weights(layer, 4, gauge=gauge).output - layer.output[4].double()
        assert bool((apart.abs() <= bound).all())
    with pytest.raises(ValueError, match="`gauge` must be 'mean' or 'original'"):
        head_weights(layer, 4, gauge="median")


def test_a_layer_without_an_affine_query_has_no_query_bound(tiny, ids):
    with attach(tiny("qwen3")) as instrument:
        layer = instrument.capture(ids, answer=3, versus=5, layers=[1]).layer(1)
    for function in (query_error, affine_query):
        with pytest.raises(
            ValueError, match="query that is affine in the head input; queries are norm"
        ):
            function(layer)


def test_a_position_bias_in_the_mask_is_refused(ids):
    model = tiny_model("qwen2")
    inner = model.model.layers[1].self_attn
    genuine = type(inner).forward

    class Biased(type(inner)):
        def forward(self, hidden_states, position_embeddings, attention_mask=None, **kw):
            bias = torch.linspace(-1, 0, attention_mask.shape[-1])
            return genuine(self, hidden_states, position_embeddings, attention_mask + bias, **kw)

    with attach(model) as instrument:
        inner.__class__ = Biased
        with pytest.raises(UnsupportedModelError, match="a position bias such as ALiBi"):
            instrument.capture(ids, answer=3, versus=5)


def test_a_projection_that_is_no_linear_map_is_refused():
    with pytest.raises(UnsupportedModelError, match="must be a linear map; got ReLU"):
        projection_weights(torch.nn.ReLU(), 2)


def test_tokens_given_as_text_must_be_single(tiny, tokenizer):
    model = tiny("qwen2")
    with attach(model, tokenizer=tokenizer) as instrument:
        capture = instrument.capture("the cat sat on a", answer="mat", versus="log", layers=[0])
        assert (capture.margin.answer, capture.margin.versus) == (7, 8)
        assert capture.ids.tolist() == [1, 2, 4, 5, 6]
        with pytest.raises(
            ValueError, match=r"`answer` .* single token; 'red mat' is 2.* try ' red"
        ):
            instrument.capture("the cat", answer="red mat", versus="log")
    with attach(model) as instrument:
        with pytest.raises(ValueError, match="`answer` was given as text, which needs a tokenizer"):
            instrument.capture([1, 2], answer="mat", versus="log")
        with pytest.raises(ValueError, match="`prompt` was given as text, which needs a tokenizer"):
            instrument.capture("the cat", answer=1, versus=2)


def test_bad_prompts_margins_and_layers_are_refused(tiny, ids):
    with attach(tiny("qwen2")) as instrument:
        for prompt, words in (
            ([3], "at least two token ids"),
            ([3, 96], r"token ids in 0..95; got values from 3 to 96"),
            (torch.zeros(2, 3, dtype=torch.long), r"got shape \(2, 3\)"),
        ):
            with pytest.raises(ValueError, match=words):
                instrument.capture(prompt, answer=3, versus=5)
        with pytest.raises(ValueError, match="must be different tokens; both are 3"):
            instrument.capture(ids, answer=3, versus=3)
        with pytest.raises(ValueError, match=r"`versus` must be a token id in 0..95; got 96"):
            instrument.capture(ids, answer=3, versus=96)
        with pytest.raises(ValueError, match=r"`layers` must name layers in 0..2; got \[3\]"):
            instrument.capture(ids, answer=3, versus=5, layers=[3])


def test_a_margin_is_made_of_ids_or_texts(tokenizer):
    assert margin("cat", 3, vocabulary=12, tokenizer=tokenizer) == Margin(2, 3)
