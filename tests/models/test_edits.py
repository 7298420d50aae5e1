"""Each edit changes what it names and nothing else; predicted and executed responses agree."""

import pytest
import torch

from finite_calculus.models import (
    Delete,
    KeyShift,
    Odds,
    Quantise,
    QueryEdit,
    Replace,
    Restore,
    ScaleValues,
    attach,
    edited_bank,
    increments,
    predict,
)
from finite_calculus.models.edits import Edit
from finite_calculus.positional import key_shift_scores


@pytest.fixture
def layer(tiny, ids):
    with attach(tiny("qwen2")) as instrument:
        return instrument.capture(ids, answer=3, versus=5, layers=[1]).layer(1)


@pytest.fixture
def donor(tiny, ids):
    with attach(tiny("qwen2")) as instrument:
        return instrument.capture(ids.flip(0), answer=3, versus=5, layers=[1]).layer(1)


def test_a_key_shift_has_the_score_increments_of_the_core(layer):
    bank = edited_bank(layer, KeyShift(1, (3, 4), 5))
    found = increments(layer, bank).scores
    keys = layer.keys.double().repeat_interleave(3, 0)
    query = layer.query.double().unsqueeze(-2)
    exact = key_shift_scores(layer.rotary, query, keys, 5.0, scaling=layer.scaling)
    # The executed key is rounded to float32: half a unit of every coordinate.
    bound = 2.0**-24 * (query.abs() * bank.keys.double().abs().repeat_interleave(3, 0)).sum(-1)
    assert bool(((found - exact).abs()[:, 3:5] <= bound[:, 3:5] * 1.001).all())
    assert bool((found[:, [0, 1, 2, *range(5, 20)]] == 0).all())


def test_a_band_moves_only_its_planes(layer):
    band = torch.tensor([True, False, False, False])
    moved = edited_bank(layer, KeyShift(1, (3,), 5, band)).keys != layer.keys
    assert moved[:, 3, [0, 4]].all()
    assert int(moved.sum()) == 4


def test_replacement_at_full_strength_is_the_donor_and_at_zero_is_nothing(layer, donor):
    full = edited_bank(layer, Replace(1, (3,), donor))
    assert torch.equal(full.keys[:, 3], donor.keys[:, 3])
    assert torch.equal(full.values[:, 3], donor.values[:, 3])
    none = edited_bank(layer, Replace(1, (3,), donor, strength=0))
    assert torch.equal(none.keys, layer.keys)
    keys_only = edited_bank(layer, Replace(1, (3,), donor, values=False))
    assert torch.equal(keys_only.values, layer.values)
    half = edited_bank(layer, Replace(1, (3,), donor, strength=0.5))
    middle = (layer.keys[:, 3].double() + donor.keys[:, 3].double()) / 2
    torch.testing.assert_close(half.keys[:, 3].double(), middle, atol=1e-6, rtol=1e-6)


def test_odds_are_multiplied(layer):
    base, bank = layer.readout(), edited_bank(layer, Odds(1, (3,), 3.0, heads=(2,)))
    after = layer.readout(bank)
    odds = [r.probs[:, 3] / (1 - r.probs[:, 3]) for r in (base, after)]
    ratio = odds[1] / odds[0]
    assert abs(float(ratio[2]) - 3) < 1e-5
    assert bool(((ratio[[0, 1, 3, 4, 5]] - 1).abs() < 1e-12).all())


def test_a_deleted_token_has_no_attention(layer):
    after = layer.readout(edited_bank(layer, Delete(1, (3, 5))))
    assert bool((after.probs[:, [3, 5]] == 0).all())
    found = predict(layer, Delete(1, (3, 5)))
    assert found.parts is None
    torch.testing.assert_close(
        found.response, after.output - layer.readout().output, atol=1e-13, rtol=1e-12
    )


def test_restoring_a_quantised_token_undoes_it(layer):
    both = (Quantise(1, (3, 4), 3), Restore(1, (3,)))
    bank = edited_bank(layer, both)
    assert torch.equal(bank.keys[:, 3], layer.keys[:, 3])
    assert not torch.equal(bank.keys[:, 4], layer.keys[:, 4])
    assert predict(layer, (Quantise(1, (3,), 3), Restore(1, (3,)))).effect == 0


def test_edits_compose_from_left_to_right(layer):
    zeroed = edited_bank(layer, (ScaleValues(1, (3,), 2.0), ScaleValues(1, (3,))))
    assert bool((zeroed.values[:, 3] == 0).all())
    twice = edited_bank(layer, (Odds(1, (3,), 2.0), Odds(1, (3,), 3.0)))
    assert float(twice.bias[0, 3]) == pytest.approx(1.791759, abs=1e-6)


def test_a_predicted_response_splits_into_key_value_and_interaction(layer, donor):
    found = predict(layer, Replace(1, (3, 4, 5), donor))
    assert found.parts is not None
    split = found.parts.key + found.parts.value + found.parts.interaction
    torch.testing.assert_close(found.response, split, atol=1e-12, rtol=1e-12)
    dotted = float((found.response * layer.gradient_output.double()).sum())
    assert found.effect == pytest.approx(dotted, rel=1e-4, abs=1e-7)


def test_score_increments_under_a_softcap_are_those_of_capped_scores(tiny, ids):
    with attach(tiny("gemma2")) as instrument:
        layer = instrument.capture(ids, answer=3, versus=5, layers=[1]).layer(1)
    bank = edited_bank(layer, KeyShift(1, (3, 4), 5))
    apart = increments(layer, bank).scores - (layer.scores(bank) - layer.scores())
    assert float(apart.abs().max()) < 1e-14


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda d: KeyShift(1, (20,), 1.0), r"must lie in 0..19, .* layer 1 holds; got 20"),
        (lambda d: KeyShift(1, (-1,), 1.0), "Negative indices are not wrapped"),
        (lambda d: Delete(1, ()), "`tokens` of Delete must name at least one token"),
        (lambda d: Delete(1, tuple(range(20))), "must leave at least one attended key; Delete"),
        (lambda d: Odds(1, (3,), 0.0), "`multiplier` must be positive and finite; got 0.0"),
        (lambda d: Odds(1, (3,), 2.0, heads=(6,)), r"`heads` must name heads in 0..5; got \(6,\)"),
        (lambda d: QueryEdit(1, (), torch.zeros(2, 8)), r"`delta` must have shape \(6, 8\)"),
        (lambda d: Delete(2, (3,)), "must be of layer 1; got one of layer 2"),
        (lambda d: (Delete(1, (3,)), Delete(2, (3,))), "must edit exactly one layer"),
        (lambda d: (), "must edit exactly one layer"),
        (lambda d: Quantise(1, (3,), 1), "`bits` must be an integer of at least 2"),
    ],
)
def test_bad_edits_are_refused(layer, donor, edit, words):
    with pytest.raises(ValueError, match=words):
        predict(layer, edit(donor))


def test_a_donor_of_another_length_is_refused(tiny, ids, layer):
    with attach(tiny("qwen2")) as instrument:
        short = instrument.capture(ids[:10], answer=3, versus=5, layers=[1]).layer(1)
    with pytest.raises(ValueError, match="`donor` must be a capture of layer 1 with keys of shape"):
        predict(layer, Replace(1, (3,), short))


def test_a_key_shift_needs_a_rotary_layer(tiny, ids):
    with attach(tiny("gpt2")) as instrument:
        layer = instrument.capture(ids, answer=3, versus=5, layers=[1]).layer(1)
    with pytest.raises(ValueError, match="layer 1 has no rotary position"):
        predict(layer, KeyShift(1, (3,), 1.0))


def test_an_edit_without_an_action_is_refused(layer):
    with pytest.raises(NotImplementedError, match="Edit must define apply"):
        predict(layer, Edit(1, (3,)))
