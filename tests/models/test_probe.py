"""The rotary operator is found on the model: layouts, partial widths, scalings, layers without it."""

import pytest
import torch

from finite_calculus.models import KeyShift, UnsupportedModelError, attach, predict
from finite_calculus.models.tiny import tiny_model

SCALED = {
    "llama3": {
        "rope_type": "llama3",
        "rope_theta": 1e4,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "yarn": {
        "rope_type": "yarn",
        "rope_theta": 1e4,
        "factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "linear": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0},
    "dynamic": {
        "rope_type": "dynamic",
        "rope_theta": 1e4,
        "factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "longrope": {
        "rope_type": "longrope",
        "rope_theta": 1e4,
        "short_factor": [1.0, 1.1, 1.2, 1.3],
        "long_factor": [2.0, 3.0, 4.0, 5.0],
        "original_max_position_embeddings": 64,
        "factor": 2.0,
    },
}


@pytest.mark.parametrize(
    ("family", "layout", "planes"),
    [
        ("qwen2", "half", 4),
        ("phi", "half", 2),
        ("cohere", "interleaved", 4),
        ("glm4", "interleaved", 2),
        ("gpt_neox", "half", 1),
        ("gpt_oss", "half", 4),
    ],
)
def test_layout_and_width_are_found(tiny, family, layout, planes):
    with attach(tiny(family)) as instrument:
        for probed in instrument.probed:
            assert (probed.rotary.layout, probed.rotary.planes) == (layout, planes)
            assert probed.error <= probed.bound
            # A tenth of a position would show in the slowest plane.
            assert probed.bound < float(probed.rotary.frequencies.min()) / 10


@pytest.mark.parametrize("family", ["smollm3", "cohere2", "exaone4"])
def test_layers_without_rotation_are_found(tiny, family):
    with attach(tiny(family)) as instrument:
        assert [p.rotary is None for p in instrument.probed] == [False, True, False]


def test_layers_of_different_base_are_told_apart(tiny):
    with attach(tiny("gemma3_text")) as instrument:
        sliding, full, _ = instrument.probed
    assert float(sliding.rotary.frequencies[1]) > float(full.rotary.frequencies[1])


def test_models_with_learned_positions_have_none(tiny):
    with attach(tiny("gpt2")) as instrument:
        assert all(p.rotary is None for p in instrument.probed)


@pytest.mark.parametrize("kind", sorted(SCALED))
def test_scaled_frequencies_are_found(kind):
    model = tiny_model("llama", rope_parameters=SCALED[kind])
    with attach(model) as instrument:
        for probed in instrument.probed:
            assert probed.rotary.planes == 4
            assert (probed.limit == 64) == (kind in ("dynamic", "longrope"))
            assert (probed.scaling > 1) == (kind in ("yarn", "longrope"))


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_a_switch_of_frequencies_is_not_crossed(kind):
    with attach(tiny_model("llama", rope_parameters=SCALED[kind])) as instrument:
        layer = instrument.capture(list(range(3, 43)), answer=3, versus=5, layers=[1]).layer(1)
        predict(layer, KeyShift(1, (39,), 24))
        with pytest.raises(ValueError, match=r"position 64 or beyond.* token 39 would go to 64"):
            predict(layer, KeyShift(1, (39,), 25))
        with pytest.raises(UnsupportedModelError, match="must not be longer than 64 tokens"):
            instrument.capture(list(range(3, 68)), answer=3, versus=5)


def test_a_rotation_that_no_stored_frequency_explains_is_refused():
    model = tiny_model("qwen2")
    genuine = model.model.rotary_emb.forward
    model.model.rotary_emb.forward = lambda x, where: genuine(x, where * 1.1)
    with (
        attach(model) as instrument,
        pytest.raises(UnsupportedModelError, match="best of 2 candidates"),
    ):
        instrument.capture(torch.arange(3, 9), answer=3, versus=5)
