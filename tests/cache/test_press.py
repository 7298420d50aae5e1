"""A method as a press of kvpress keeps what it keeps in our own cache; kvpress is not installed here."""

import pytest
import torch
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from finite_calculus.cache import AttentionMass, WriteDistortion, reducing
from finite_calculus.cache.passing import passing
from finite_calculus.cache.press import compressed, press, rotated
from finite_calculus.models import supported
from finite_calculus.models.tiny import tiny_model


@pytest.mark.parametrize(
    "method", [WriteDistortion(keep=7, queries=3), AttentionMass(keep=7, queries=3)]
)
def test_a_press_keeps_what_the_method_keeps_in_our_cache(method) -> None:
    model = tiny_model("llama")
    ids = torch.randint(3, 96, (2, 14), generator=torch.Generator().manual_seed(2))
    calls, sites = {}, supported(model).sites

    def look(site, call):
        calls[site.layer] = site.module, call
        return call

    with torch.no_grad(), passing(model, sites, look):
        model(input_ids=ids)
    with torch.no_grad(), reducing(model, method):
        cache = model(input_ids=ids, use_cache=True).past_key_values
    for number, (module, call) in calls.items():
        keys, values = compressed(method, module, call.query[:, :, -3:], call.key, call.value)
        assert keys.shape[2] == 7
        assert torch.equal(keys, cache.layers[number].keys)
        assert torch.equal(values, cache.layers[number].values)


def test_positions_are_those_of_the_model() -> None:
    draw = torch.Generator().manual_seed(3)
    queries, angles = (torch.randn(2, 3, 5, 8, generator=draw) for _ in range(2))
    cos, sin = angles[:, 0].cos(), angles[:, 0].sin()
    wanted, _ = apply_rotary_pos_emb(queries, queries, cos, sin)
    assert torch.equal(rotated(queries, cos.unsqueeze(1), sin.unsqueeze(1)), wanted)


def test_what_a_press_cannot_do_is_refused() -> None:
    with pytest.raises(ValueError, match="must decide layer by layer"):
        press(WriteDistortion(shared=True))
    with pytest.raises(ImportError, match="needs the package kvpress"):
        press(WriteDistortion())
