"""The tiny random models: the same every time, and with nothing at a value that hides mistakes."""

import pytest
import torch

from finite_calculus.checkpoints import KNOWN, CheckpointError, load, loading
from finite_calculus.checkpoints.registry import Architecture, Checkpoint, Random

TINY = ["tiny-qwen2", "tiny-llama"]


@pytest.mark.parametrize("name", TINY)
def test_tiny_models_are_the_same_every_time_and_leave_the_random_state_alone(name: str):
    before = torch.get_rng_state()
    first, _ = load(name)
    torch.rand(3)
    second, _ = load(name)
    torch.set_rng_state(before)
    load(name)
    assert torch.equal(torch.get_rng_state(), before)
    pairs = zip(first.state_dict().items(), second.state_dict().items(), strict=True)
    assert all(a[0] == b[0] and torch.equal(a[1], b[1]) for a, b in pairs)


@pytest.mark.parametrize("name", TINY)
def test_tiny_models_are_eager_frozen_and_in_evaluation_mode(name: str):
    model, tokenizer = load(name, dtype=torch.float64)
    assert model.config._attn_implementation == "eager"
    assert model.dtype == torch.float64
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert model.config.vocab_size == len(tokenizer)


@pytest.mark.parametrize("name", TINY)
def test_no_parameter_of_a_tiny_model_is_constant(name: str):
    model, _ = load(name)
    assert [n for n, p in model.named_parameters() if p.std() == 0] == []
    biases = [n for n, _ in model.named_parameters() if n.endswith("bias")]
    assert bool(biases) == KNOWN[name].architecture.biases


def test_a_model_that_is_not_what_the_registry_says_is_refused(monkeypatch: pytest.MonkeyPatch):
    wrong = Checkpoint(
        "tiny-llama", "", Random(0), Architecture("llama", 2, 4, 2, 8, 1e4, 64), "", False
    )
    model, tokenizer = load("tiny-llama")
    monkeypatch.setitem(KNOWN, "tiny-llama", wrong)
    monkeypatch.setattr(loading, "_opened", lambda *_: (model, tokenizer))
    with pytest.raises(CheckpointError, match=r"not what the registry describes.*'layers': 3"):
        load("tiny-llama")


@pytest.mark.parametrize("device", ["potato", "mtia"])
def test_a_device_that_is_not_there_is_refused_before_anything_is_loaded(
    device: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(loading, "_opened", None)
    with pytest.raises(
        ValueError, match=f"`device` must be one that this torch can use; got '{device}'"
    ):
        load("tiny-llama", device=device)
