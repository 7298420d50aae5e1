"""Keys and values made of latents: what rows read, what rotates, and the model's own code beside it."""

import pytest
import torch
from torch import Tensor

import finite_calculus.models.shared as shared
from finite_calculus.cache import watch
from finite_calculus.models import Instrument, KeyShift, Odds, ScaleValues, attach, local_check
from finite_calculus.models.session import Session, active, by_module, keep_call
from finite_calculus.models.support import UnsupportedModelError

FAMILIES = ("deepseek_v2", "deepseek_v3")
EDITS = (KeyShift(1, (2, 3), 5.0), Odds(1, (4,), 4.0), ScaleValues(1, (5,), 0.0))


def keys_of(instrument: Instrument, ids: Tensor, start: int) -> Tensor:
    """Native keys of layer 0 for a text whose positions begin at `start`."""
    kept = []

    def observe(site, call, output):
        if site.layer == 0:
            kept.append(call.key[0].detach().clone())
        return output

    sites, where = instrument.support.sites, torch.arange(start, start + len(ids))
    with torch.no_grad(), active(Session(by_module(sites), keep_call, observe)):
        instrument.model(input_ids=ids[None], position_ids=where[None], use_cache=False)
    return kept[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_shift_turns_the_end_of_a_key_as_the_model_does(tiny, ids: Tensor, family: str) -> None:
    with attach(tiny(family)) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5, layers=[0])
        layer = capture.layer(0)
        moved = keys_of(instrument, ids, 5)
    edit = KeyShift(0, tuple(range(len(ids))), 5.0)
    shifted = edit.apply(layer, layer.bank()).keys
    rotary = layer.rotary
    assert rotary is not None
    assert rotary.start == layer.keys.shape[-1] - 2 * rotary.planes > 0
    assert torch.equal(shifted[..., : rotary.start], layer.keys[..., : rotary.start])
    assert not torch.equal(shifted[..., rotary.start :], layer.keys[..., rotary.start :])
    # Two float32 angles of at most 25 radians, and the few roundings of either rotation.
    allowed = 2**-24 * (2 * 25 + 24) * layer.keys.norm(dim=-1, keepdim=True)
    assert bool(((shifted - moved).abs() <= allowed).all())


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_expand_their_own_keys_and_keep_their_bounds(tiny, ids: Tensor, family: str) -> None:
    with attach(tiny(family)) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        runs = {
            path: instrument.execute(capture, EDITS, path=path).outcomes
            for path in ("resumed", "whole", "shared")
        }
        (one,) = instrument.execute(capture, [ScaleValues(1, (5,), 0.0, heads=(2,))]).outcomes
    for outcomes in runs.values():
        for edit, outcome in zip(EDITS, outcomes, strict=True):
            assert local_check(edit, outcome).within_bound
            assert outcome.layer.keys.shape == (6, len(ids), 10)
            assert outcome.layer.values.shape == (6, len(ids), 5)
    assert [o.effect for o in runs["resumed"]] == [o.effect for o in runs["whole"]]
    assert torch.equal(one.output[[0, 1, 3, 4, 5]], one.control_output[[0, 1, 3, 4, 5]])
    assert not torch.equal(one.output[2], one.control_output[2])


def test_a_prefix_expanded_otherwise_is_seen(tiny, ids: Tensor, monkeypatch) -> None:
    genuine = shared.with_prefix
    with attach(tiny("deepseek_v2")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        monkeypatch.setattr(
            shared,
            "with_prefix",
            lambda site, call, keys, values: genuine(site, call, keys * (1 + 1e-3), values),
        )
        outcomes = instrument.execute(capture, EDITS, path="shared").outcomes
    checks = zip(EDITS, outcomes, strict=True)
    assert not all(local_check(edit, outcome).within_bound for edit, outcome in checks)


def test_a_capture_of_another_model_is_refused(tiny, ids: Tensor) -> None:
    with attach(tiny("deepseek_v3")) as instrument:
        other = instrument.capture(ids, answer=3, versus=5)
    with (
        attach(tiny("deepseek_v2")) as instrument,
        pytest.raises(ValueError, match="must come from the attached model"),
    ):
        instrument.execute(other, EDITS)


def test_a_window_of_a_cache_of_latents_is_refused(tiny, ids: Tensor) -> None:
    with pytest.raises(UnsupportedModelError, match="needs a cache of keys and values"):
        watch(tiny("deepseek_v2"), ids)
