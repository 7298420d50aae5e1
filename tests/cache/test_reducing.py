"""A cache that shrinks: the model's own arithmetic over what stays, positions untouched, all restored."""

import pytest
import torch

from finite_calculus.cache import (
    AttentionMass,
    KeyNorm,
    ObservationWindow,
    Protected,
    Random,
    ReducedLayer,
    ScoredMethod,
    SinkAndRecent,
    WriteDistortion,
    WriteGradient,
    reducing,
)
from finite_calculus.models.tiny import tiny_model

METHODS = (
    WriteDistortion,
    AttentionMass,
    ObservationWindow,
    SinkAndRecent,
    KeyNorm,
    Random,
    WriteGradient,
)


@pytest.fixture(scope="module", params=["llama", "gemma2", "gpt_oss", "gpt2"])
def model(request):
    """Grouped heads; caps and windows; sinks; learned positions."""
    return tiny_model(request.param)


@pytest.fixture(scope="module")
def llama():
    return tiny_model("llama")


def prompt(rows: int = 2, tokens: int = 20) -> torch.Tensor:
    return torch.randint(3, 96, (rows, tokens), generator=torch.Generator().manual_seed(5))


def generated(model, ids: torch.Tensor, **options) -> torch.Tensor:
    options = {"do_sample": False, "max_new_tokens": 6, "pad_token_id": 0} | options
    mask = options.pop("attention_mask", torch.ones_like(ids))
    return model.generate(input_ids=ids, attention_mask=mask, **options)


@pytest.mark.parametrize("method", METHODS)
def test_a_cache_that_keeps_everything_changes_no_token(model, method) -> None:
    ids = prompt()
    with reducing(model, method(keep=1000, every=2)) as reduction:
        kept = generated(model, ids)
    assert torch.equal(kept, generated(model, ids))
    assert reduction.before == reduction.after > 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"do_sample": True}])
def test_memory_shrinks_with_every_method_and_way_to_generate(llama, method, options) -> None:
    ids = prompt()
    few = {"queries": 4} if method is ObservationWindow else {}
    with reducing(llama, method(keep=12, every=2, **few)) as reduction:
        torch.manual_seed(0)
        cache_of = generated(llama, ids, return_dict_in_generate=True, **options).past_key_values
    rows = 2 * options.get("num_beams", 1)
    assert set(reduction.kept.values()) == {(12, 24)}
    assert reduction.plans == 3
    for layer in cache_of.layers:
        assert layer.keys.shape[2] == 12 + 1
        assert layer.tokens.shape[0] == rows
        assert layer.get_seq_length() == 25
        assert bool((layer.tokens.diff(dim=-1) > 0).all())
    assert reduction.after < reduction.before


class _Chosen(ScoredMethod):
    """Tokens named beforehand, for every layer alike."""

    def scores(self, window):
        return -(window.tokens % 3 == 1).double()


def test_a_step_on_the_reduced_cache_is_a_step_with_the_others_masked(model) -> None:
    ids, missing = prompt(), [1, 4, 7, 10, 13, 16]
    with torch.no_grad(), reducing(model, _Chosen(keep=14)):
        cache = model(input_ids=ids, use_cache=True).past_key_values
        short = model(input_ids=ids[:, :3], past_key_values=cache, use_cache=True).logits
    reduced = [number for number, x in enumerate(cache.layers) if isinstance(x, ReducedLayer)]
    assert reduced
    for number in reduced:
        tokens = cache.layers[number].tokens[0, 0].tolist()
        assert tokens == [t for t in range(23) if t not in missing]
    masked = _with_masked(model, ids, missing, reduced)
    torch.testing.assert_close(short, masked, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(short, _with_masked(model, ids, [], reduced), rtol=1e-3, atol=1e-3)


def _with_masked(model, ids, missing, layers) -> torch.Tensor:
    """Three more tokens after the prompt, through attention with some keys masked in some layers."""
    from finite_calculus.cache.passing import passing
    from finite_calculus.models import supported
    from finite_calculus.models.session import AttentionCall

    sites = supported(model).sites

    def mask(site, call):
        if site.layer not in layers or call.key.shape[2] == 20:
            return call
        rows, heads, queries, _ = call.query.shape
        keys = call.key.shape[2]
        causal = torch.arange(keys) <= torch.arange(keys - queries, keys)[:, None]
        causal[:, missing] = False
        added = torch.zeros(rows, heads, queries, keys).masked_fill(~causal, -1e30)
        return AttentionCall(call.query, call.key, call.value, added, call.options)

    with torch.no_grad(), passing(model, sites, mask):
        cache = model(input_ids=ids, use_cache=True).past_key_values
        return model(input_ids=ids[:, :3], past_key_values=cache, use_cache=True).logits


def test_rows_of_a_padded_batch_lose_their_padding_first(llama) -> None:
    ids = prompt(1, 16)
    padded = torch.cat([torch.zeros(1, 5, dtype=torch.long), ids], 1)
    mask = torch.cat([torch.zeros(1, 5, dtype=torch.long), torch.ones_like(ids)], 1)
    for method in (WriteDistortion, AttentionMass):
        with reducing(llama, method(keep=16)):
            short = generated(llama, padded, attention_mask=mask)
        assert torch.equal(short[:, 5:], generated(llama, ids))


def test_one_total_for_all_layers_is_spent_where_it_costs_least(llama) -> None:
    with reducing(llama, WriteDistortion(keep=0.5, shared=True)) as reduction:
        generated(llama, prompt(1))
    kept = [stored for stored, _ in reduction.kept.values()]
    assert sum(kept) == 10 * len(kept)
    assert len(set(kept)) > 1


def test_protected_tokens_stay_and_shortlists_find_the_same_size(llama) -> None:
    method = WriteDistortion(keep=8, protect=Protected(first=3, last=2), shortlist=1.5)
    with torch.no_grad(), reducing(llama, method):
        cache = llama(input_ids=prompt(), use_cache=True).past_key_values
    for layer in cache.layers:
        assert layer.tokens.shape[2] == 8
        for row in layer.tokens.flatten(0, 1).tolist():
            assert {0, 1, 2, 18, 19} <= set(row)


def test_everything_is_restored_on_exit_and_after_an_error(llama) -> None:
    before = llama.config._attn_implementation, llama.base_model._forward_hooks.copy()
    with pytest.raises(KeyError), reducing(llama, Random(keep=4)):
        raise KeyError
    assert (llama.config._attn_implementation, llama.base_model._forward_hooks) == before
    assert not llama.base_model._forward_pre_hooks
    ordinary = generated(llama, prompt())
    with reducing(llama, Random(keep=4)):
        assert not torch.equal(generated(llama, prompt(), max_new_tokens=8)[:, :26], ordinary)
    assert torch.equal(generated(llama, prompt()), ordinary)


def test_settings_and_models_that_cannot_be_reduced_are_refused() -> None:
    with pytest.raises(ValueError, match="`keep` must be a share between 0 and 1"):
        WriteDistortion(keep=1.5)
    with pytest.raises(ValueError, match="`every` must be at least 0"):
        AttentionMass(every=-1)
    with pytest.raises(ValueError, match="`scope` must be 'token' or 'group' for a cache"):
        WriteDistortion(scope="head")
    sliding = reducing(tiny_model("mistral"), Random())
    with pytest.raises(ValueError, match="all 3 have a sliding window"), sliding:
        pass
    layer = ReducedLayer(*[torch.zeros(1, 1, 2, 4)] * 3, torch.zeros(1, 2, dtype=torch.bool))
    with pytest.raises(ValueError, match="A reduced cache must not be cropped"):
        layer.crop(1)
