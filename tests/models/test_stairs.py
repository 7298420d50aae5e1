"""Second derivatives in closed form are those of torch, row for row and layer for layer."""

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

import finite_calculus.models.products as module
from finite_calculus.models import attach
from finite_calculus.models.gated_blocks import has_gated_blocks
from finite_calculus.models.hessian import hessian_products
from finite_calculus.models.products import layer_products
from finite_calculus.models.tiny import tiny_model
from tests.helpers.hessians import ANSWERS, full_hessian, rounding_of

SIZES = {(0, 1, 2): (4, 3, 2), (1, 2): (5, 0), (0, 2): (3, 3), (2,): (4,)}


def with_random_biases(model):
    """A fresh model has zero biases and norms of one, which would hide what is forgotten."""
    draw = torch.Generator().manual_seed(6)
    with torch.no_grad():
        for name, each in model.named_parameters():
            if name.endswith("bias") or "norm" in name:
                each += 0.3 * torch.randn(each.shape, generator=draw)
    return model.eval()


def biased_llama():
    """Biases in every projection, one key for each query, an untied head."""
    torch.manual_seed(2)
    config = LlamaConfig(
        vocab_size=96,
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=6,
        attention_bias=True,
        mlp_bias=True,
        tie_word_embeddings=False,
        initializer_range=0.2,
    )
    return LlamaForCausalLM(config)


MODELS = {
    "llama": lambda: tiny_model("llama"),
    "qwen2": lambda: tiny_model("qwen2"),
    "biased": biased_llama,
}


@pytest.fixture(scope="module", params=MODELS)
def prompted(request):
    """A prepared prompt of a model with gated blocks, and its margin."""
    ids = torch.randint(3, 96, (20,), generator=torch.Generator().manual_seed(1))
    with attach(with_random_biases(MODELS[request.param]())) as instrument:
        capture = instrument.capture(ids, **ANSWERS, layers=[0])
        prompt = instrument.prompt(capture.ids)
        assert has_gated_blocks(prompt)
        yield prompt, capture.margin


@pytest.mark.parametrize("layers", SIZES)
@pytest.mark.parametrize("rows", [512, 3])
def test_stairs_are_the_double_derivative(prompted, layers, rows, monkeypatch):
    prompt, margin = prompted
    monkeypatch.setattr(module, "_STAIR_ROWS", rows)
    draw = torch.Generator().manual_seed(3)
    starts = [torch.randn(size, 48, generator=draw) for size in SIZES[layers]]
    gradients, expected = hessian_products(prompt, margin, layers, starts)
    begins = [sum(SIZES[layers][:place]) for place in range(len(layers) + 1)]
    seen = torch.zeros(len(layers), begins[-1])
    for part in layer_products(prompt, margin, layers, starts):
        rows_ = slice(part.first, part.first + len(part.change))
        seen[part.place, rows_] += 1
        whole, gradient = expected[part.place], gradients[part.place].flatten()
        wrong = (part.change - whole[rows_]).abs().flatten().tolist()
        assert max(wrong, default=0.0) <= rounding_of(whole)
        assert float((part.gradient - gradient).abs().max()) <= rounding_of(gradient)
        if part.own is not None:
            own = whole[begins[part.place] : begins[part.place + 1]]
            assert part.own.shape == own.shape
            assert torch.equal(part.own, part.change[len(part.change) - len(own) :])
    # Every direction once, at its own layer and at all above it.
    wanted = [[float(row < begins[p + 1]) for row in range(begins[-1])] for p in range(len(layers))]
    assert seen.tolist() == wanted


@pytest.mark.parametrize("layer", [0, 2])
def test_stairs_are_the_whole_hessian(tiny, ids, layer):
    expected = full_hessian("llama", ids, layer)
    with attach(tiny("llama")) as instrument:
        margin = instrument.capture(ids, **ANSWERS, layers=[layer]).margin
        (part,) = layer_products(instrument.prompt(ids), margin, [layer], [torch.eye(48)])
    assert part.own is not None
    assert float((part.own - expected).abs().max()) <= rounding_of(expected)


def _hooked(model) -> None:
    model.model.layers[1].mlp.register_forward_hook(lambda module, args, out: out)


def _replaced(model) -> None:
    class Own(torch.nn.Module):
        """An activation of somebody else's."""

        def forward(self, gate: Tensor) -> Tensor:
            return gate.square()

    model.model.layers[1].mlp.act_fn = Own()


def _other_activation(model) -> None:
    model.model.layers[2].mlp.act_fn = torch.nn.GELU()


def _own_forward(model) -> None:
    block = model.model.layers[0].mlp
    block.forward = type(block).forward.__get__(block)


@pytest.mark.parametrize("change", [_hooked, _replaced, _other_activation, _own_forward])
def test_a_changed_model_does_not_take_the_stairs(ids, change):
    model = tiny_model("llama")
    change(model)
    with attach(model) as instrument:
        assert not has_gated_blocks(instrument.prompt(ids))


@pytest.mark.parametrize("family", ["mistral", "gemma", "qwen3", "granite", "gpt2", "qwen3_moe"])
def test_other_families_do_not_take_the_stairs(tiny, ids, family):
    with attach(tiny(family)) as instrument:
        assert not has_gated_blocks(instrument.prompt(ids))
