"""What a set of evictions does to every query of a window, against the definition and the model."""

import pytest
import torch

from finite_calculus.cache import Protected, QueryWindow, watch
from finite_calculus.models import Delete, attach, predict
from finite_calculus.models.tiny import tiny_model
from tests.cache.windows import drawn_window, rounding, without, written


@pytest.mark.parametrize("sinks", [False, True])
def test_changes_are_two_writes_subtracted(sinks: bool) -> None:
    window = drawn_window(sinks=sinks)
    evicted = torch.zeros(window.heads, window.length, dtype=torch.bool)
    evicted[:2, [1, 4]] = True
    evicted[2:, [0, 3, 5]] = True
    nothing = torch.zeros_like(evicted)
    exact = written(window, evicted) - written(window, nothing)
    before, after = rounding(window), rounding(without(window, evicted))
    assert ((window.changes(evicted) - exact).abs() <= before + after).all()
    assert ((window.writes() - written(window, nothing)).abs() <= before).all()
    assert torch.equal(window.changes(nothing), torch.zeros_like(exact))


def test_the_window_of_a_capture_is_its_query(family) -> None:
    for layer in family.capture.layers:
        window = QueryWindow.of_capture(layer)
        token = layer.first + int(layer.attended.nonzero()[0])
        evicted = torch.zeros(window.heads, window.length, dtype=torch.bool)
        evicted[:, layer.column(token)] = True
        exact = predict(layer, Delete(layer.layer, (token,))).write
        allowed = rounding(window) + rounding(without(window, evicted))
        assert ((window.changes(evicted) - exact).abs() <= allowed).all()


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma2", "gpt_oss", "gpt2"])
def test_a_watched_query_is_the_captured_one(name: str) -> None:
    model = tiny_model(name)
    ids = torch.randint(3, 96, (12,), generator=torch.Generator().manual_seed(1))
    windows = {window.layer: window for window in watch(model, ids, queries=3)}
    for queries in (1, 2, 3):
        with attach(model) as instrument:
            capture = instrument.capture(ids[: len(ids) - 3 + queries], answer=1, versus=2)
        for number, window in windows.items():
            layer = capture.layer(number)
            torch.testing.assert_close(window.queries[queries - 1], layer.query)
            attended = int(window.attended[queries - 1, 0].sum())
            assert attended == layer.keys.shape[1]
            torch.testing.assert_close(window.keys[:, :attended], layer.keys)
            probs = window.probs()[queries - 1, :, :attended]
            own = QueryWindow.of_capture(layer).probs()[0]
            torch.testing.assert_close(probs, own, rtol=1e-4, atol=1e-6)


def test_watching_leaves_the_model_as_it_was() -> None:
    model = tiny_model("llama")
    before = model.config._attn_implementation
    watch(model, [3, 4, 5])
    assert model.config._attn_implementation == before
    with pytest.raises(ValueError, match="`queries` must be at least 1"):
        watch(model, [3, 4, 5], queries=0)


def test_protected_tokens_are_sinks_recent_ones_and_both_ends() -> None:
    assert Protected(first=2, last=3).mask(8).nonzero().flatten().tolist() == [0, 1, 5, 6, 7]
    assert Protected(ends=0.25).mask(8).nonzero().flatten().tolist() == [0, 1, 6, 7]
    assert Protected(last=0, tokens=(4,)).mask(8).nonzero().flatten().tolist() == [4, 7]
    assert bool(Protected(first=9).mask(4).all())
    with pytest.raises(ValueError, match=r"`protect` must name tokens in 0\.\.7; got 9"):
        Protected(tokens=(9,)).mask(8)
    with pytest.raises(ValueError, match="`first` must be a number of tokens"):
        Protected(first=-1)
    with pytest.raises(ValueError, match="`ends` must be a share"):
        Protected(ends=0.6)
