"""Random small models of two families: what the calculus predicts is what the model executes, within bounds.

Sizes, groups, biases, frequencies, windows, weights, prompts and edits are all drawn. A failure shrinks to a
model of one layer with few tokens and one edit, and prints what it was.
"""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, note, strategies as st

from finite_calculus.models import (
    Delete,
    KeyShift,
    Odds,
    Replace,
    ScaleValues,
    attach,
    compare_locally,
)
from finite_calculus.models.edits.base import attended_tokens
from finite_calculus.models.tiny import tiny_model

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
VOCABULARY = 24


@dataclass(frozen=True)
class Sketch:
    """A model, a prompt and a donor prompt of the same length, and edits as a word, tokens and a number."""

    family: str
    seed: int
    scale: float
    settings: dict[str, Any]
    prompt: tuple[int, ...]
    donor: tuple[int, ...]
    edits: tuple[tuple[str, int, tuple[int, ...], float], ...]


@st.composite
def sketches(draw: st.DrawFn) -> Sketch:
    """Models of one to three layers and at most 64 wide, over prompts of two to twelve tokens."""
    layers, groups, readers = (draw(st.integers(1, most)) for most in (3, 2, 3))
    heads, width = groups * readers, draw(st.sampled_from([2, 4, 8, 10]))
    family = draw(st.sampled_from(["llama", "qwen2"]))
    theta = draw(st.sampled_from([10.0, 1e4, 1e6]))
    options: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "hidden_size": heads * width,
        "head_dim": width,
        "intermediate_size": draw(st.sampled_from([8, 24])),
        "rope_parameters": {"rope_type": "default", "rope_theta": theta},
    }
    if family == "llama":
        options["attention_bias"] = draw(st.booleans())
    elif draw(st.booleans()):
        kinds = st.sampled_from(["sliding_attention", "full_attention"])
        options |= {
            "use_sliding_window": True,
            "sliding_window": draw(st.integers(1, 6)),
            "layer_types": [draw(kinds) for _ in range(layers)],
        }
    length = draw(st.integers(2, 12))
    prompts = st.tuples(*[st.integers(3, VOCABULARY - 1)] * length)
    words = st.sampled_from(["delete", "shift", "odds", "scale", "replace"])
    places = st.lists(st.integers(0, 11), min_size=1, max_size=3, unique=True).map(tuple)
    edit = st.tuples(words, st.integers(0, layers - 1), places, st.floats(-4, 4, width=32))
    return Sketch(
        family,
        draw(st.integers(0, 99)),
        draw(st.sampled_from([0.05, 0.3, 1.0])),
        options,
        draw(prompts),
        draw(prompts),
        tuple(draw(st.lists(edit, min_size=1, max_size=4))),
    )


def edit_of(word: str, layer, places, amount: float, donor):
    """The edit of some of the tokens that a layer attends to, one of them left out of a deletion."""
    attended = attended_tokens(layer)
    tokens = tuple(sorted({attended[place % len(attended)] for place in places}))
    if word == "delete":
        tokens = tuple(t for t in tokens if t != attended[0])
        return Delete(layer.layer, tokens) if tokens else None
    others = {
        "shift": lambda: KeyShift(layer.layer, tokens, amount),
        "odds": lambda: Odds(layer.layer, tokens, 2.0**amount),
        "scale": lambda: ScaleValues(layer.layer, tokens, amount),
        "replace": lambda: Replace(layer.layer, tokens, donor, strength=amount / 4),
    }
    return others[word]()


@given(sketch=sketches())
def test_a_random_model_executes_what_is_predicted(sketch: Sketch) -> None:
    model = tiny_model(sketch.family, seed=sketch.seed, scale=sketch.scale, **sketch.settings)
    with attach(model) as instrument:
        donor = instrument.capture(torch.tensor(sketch.donor), answer=3, versus=4)
        capture = instrument.capture(torch.tensor(sketch.prompt), answer=3, versus=4)
        edits = [
            edit
            for word, layer, places, amount in sketch.edits
            if (edit := edit_of(word, capture.layers[layer], places, amount, donor)) is not None
        ]
        outcomes = instrument.execute(capture, edits, batch=4).outcomes
    for edit, outcome in zip(edits, outcomes, strict=True):
        local = compare_locally(edit, outcome)
        for name, part in (("y", local.response), ("o", local.write)):
            worst = int((part.error.abs() - part.bound).argmax())
            flat = [
                x.reshape(-1)[worst]
                for x in (part.executed, part.predicted, part.error, part.bound)
            ]
            note(
                f"{edit}: Δ{name} executed {flat[0]}, exact {flat[1]}, error {flat[2]}, bound {flat[3]}"
            )
            assert bool((part.error.abs() <= part.bound).all())
        assert torch.equal(outcome.response, local.response.executed)
