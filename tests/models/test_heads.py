"""Edits of some heads alone: the others write what they wrote, bit for bit, on every path."""

import pytest
import torch

from finite_calculus.models import (
    Delete,
    KeyShift,
    LocalCheck,
    Odds,
    Quantise,
    Replace,
    Restore,
    ScaleValues,
    attach,
    compare_all,
    edited_bank,
)
from finite_calculus.search import Family

HEADS = (0, 4)


def edits_of(donor, heads=HEADS):
    return [
        Delete(1, (15, 16), heads=heads),
        Odds(1, (15,), 4.0, heads=heads),
        ScaleValues(1, (15, 16), 0.25, heads=heads),
        KeyShift(1, (15, 16), 3.0, heads=heads),
        Quantise(1, (14, 15, 16), 3, heads=heads),
        Replace(1, (15, 16), donor, heads=heads),
    ]


@pytest.fixture(params=["qwen2", "gemma2", "phi"])
def setting(tiny, ids, request):
    with attach(tiny(request.param)) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5, layers=[0, 1, 2])
        donor = instrument.capture(ids.roll(3), answer=3, versus=5, layers=[1]).layer(1)
        yield instrument, capture, donor


@pytest.mark.parametrize("path", ["resumed", "whole"])
def test_other_heads_keep_their_bits_and_these_write_what_is_predicted(setting, path) -> None:
    instrument, capture, donor = setting
    edits = [
        *edits_of(donor),
        # Compositions: other heads each time, and a restoration in one of them.
        (Quantise(1, (15, 16), 3, heads=(0, 1)), Restore(1, (15,), heads=(1,))),
        (ScaleValues(1, (15,), 0.0, heads=(0,)), ScaleValues(1, (15,), 2.0, heads=(5,))),
        (KeyShift(1, (15,), 2.0), ScaleValues(1, (15,), 0.0, heads=(2,))),
    ]
    outcomes = instrument.execute(capture, edits, batch=4, path=path).outcomes
    for edit, outcome, local in zip(edits, outcomes, compare_all(edits, outcomes), strict=True):
        assert LocalCheck.of(local).within_bound, edit
        assert outcome.effect != 0
    for outcome in outcomes[:6]:
        moved = (outcome.output != outcome.control_output).any(-1)
        assert moved.nonzero().squeeze(-1).tolist() == list(HEADS)


def test_all_heads_named_are_all_heads(setting) -> None:
    instrument, capture, donor = setting
    every = tuple(range(capture.layer(1).heads))
    pairs = zip(edits_of(donor, every), edits_of(donor, None), strict=True)
    for named, plain in pairs:
        a, b = instrument.execute(capture, [named, plain]).outcomes
        assert torch.equal(a.output, b.output)
        assert capture.predict(named).effect == pytest.approx(capture.predict(plain).effect, 1e-9)


def test_scores_of_some_heads_run_on_the_shared_path_and_values_do_not(setting) -> None:
    instrument, capture, donor = setting
    delete, odds, values, *_ = edits_of(donor)
    native = instrument.execute(capture, [delete, odds])
    shared = instrument.execute(capture, [delete, odds], path="shared")
    for a, b in zip(native.outcomes, shared.outcomes, strict=True):
        (local,) = compare_all([delete if a is native.outcomes[0] else odds], [b])
        assert LocalCheck.of(local).within_bound
    with pytest.raises(ValueError, match="`path` must be resumed or whole for keys and values"):
        instrument.execute(capture, [values], path="shared")


def test_heads_stay_installed_and_act_in_several_layers(tiny, ids) -> None:
    edits = (Delete(1, (15,), heads=HEADS), ScaleValues(2, (15,), 0.0, heads=(1,)))
    with attach(tiny("qwen2")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        (together,) = instrument.execute_several(capture, [edits])
        with instrument.installed(capture, list(edits)), torch.no_grad():
            logits = instrument.prompt(capture.ids).run_last(rows=2)
    assert capture.margin.of(logits.double())[1] == together.margin
    assert together.effect != 0


@pytest.mark.usefixtures("unchecked_shapes")
def test_heads_that_mean_nothing_are_refused(setting) -> None:
    _, capture, _ = setting
    layer = capture.layer(1)
    with pytest.raises(TypeError, match=r"`heads` of Delete must be query heads, as in \(0, 3\)"):
        Delete(1, (3,), heads=2)
    for edit in (ScaleValues(1, (15,), heads=(6,)), Delete(1, (15,), heads=())):
        with pytest.raises(ValueError, match=r"`heads` must name heads in 0\.\.5"):
            edited_bank(layer, edit)
    with pytest.raises(ValueError, match="must leave at least one attended key"):
        edited_bank(layer, Delete(1, tuple(layer.tokens), heads=(3,)))
    for kind in (Delete.anywhere(heads=(0,)), ScaleValues.anywhere(heads=(0,))):
        with pytest.raises(ValueError, match="`kinds` must act on all heads"):
            Family((kind,))
