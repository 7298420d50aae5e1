"""Each edit changes what it names and nothing else; predicted and executed responses agree."""

import math

import pytest
import torch

from finite_calculus.deletion import deletion_response
from finite_calculus.joint import decompose
from finite_calculus.margin import head_gradient
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
from finite_calculus.models.edits import Edit, third
from finite_calculus.models.layer import head_products
from finite_calculus.positional import key_shift_scores
from finite_calculus.readout import freeze
from finite_calculus.rounding import error_of, track, value_of

UNIT = torch.finfo(torch.float32).eps / 2


def tracked(readout):
    """The same readout under running error analysis, its scores and values taken as exact."""
    return freeze(track(readout.scores), track(readout.values), mask=readout.attended)


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
    scores = increments(layer, bank).scores
    keys = track(layer.keys.double().repeat_interleave(3, 0))
    query = layer.query.double().unsqueeze(-2)
    exact = key_shift_scores(layer.rotary, track(query), keys, 5.0, scaling=layer.scaling)
    # The executed key is rounded to float32, half a unit of every coordinate; each float64 path adds
    # what the tracked one does.
    moved = (query.abs() * bank.keys.double().abs().repeat_interleave(3, 0)).sum(-1)
    bound = UNIT * moved * layer.scaling + 2 * error_of(exact)
    assert bool(((scores - value_of(exact)).abs()[:, 3:5] <= bound[:, 3:5]).all())
    assert bool((scores[:, [0, 1, 2, *range(5, 20)]] == 0).all())


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
    here, there = track(layer.keys[:, 3]), track(donor.keys[:, 3])
    middle = (layer.keys[:, 3].double() + donor.keys[:, 3].double()) / 2
    bound = error_of(here + 0.5 * (there - here))
    assert bool(((half.keys[:, 3].double() - middle).abs() <= bound).all())


def test_odds_are_multiplied(layer):
    base, bank = tracked(layer.readout()), edited_bank(layer, Odds(1, (3,), 3.0, heads=(2,)))
    after = tracked(layer.readout(bank))
    odds = [r.probs[:, 3] / (1 - r.probs[:, 3]) for r in (base, after)]
    ratio = odds[1] / odds[0]
    # log 3 is rounded to float32 before it is added to a score.
    rounded = torch.tensor(math.log(3), dtype=torch.float32).double().exp()
    assert abs(float(rounded) - 3) <= 4 * UNIT * 3
    expected = torch.ones(6, dtype=torch.float64).index_fill(0, torch.tensor([2]), float(rounded))
    assert bool(((value_of(ratio) - expected).abs() <= error_of(ratio)).all())


def test_a_deleted_token_has_no_attention(layer):
    after = layer.readout(edited_bank(layer, Delete(1, (3, 5))))
    assert bool((after.probs[:, [3, 5]] == 0).all())
    prediction = predict(layer, Delete(1, (3, 5)))
    assert prediction.parts is None
    base, removed = tracked(layer.readout()), torch.zeros(1, 20, dtype=torch.bool)
    removed[0, [3, 5]] = True
    apart = tracked(after).output - base.output
    bound = error_of(apart) + error_of(deletion_response(base, removed)).squeeze(-2)
    assert bool(((prediction.response - value_of(apart)).abs() <= bound).all())


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
    added = track(torch.zeros(())) + math.log(2) + math.log(3)
    logarithms = 4 * torch.finfo(torch.float64).eps
    assert abs(float(twice.bias[0, 3]) - math.log(6)) <= float(error_of(added)) + logarithms


def test_a_predicted_response_splits_into_key_value_and_interaction(layer, donor):
    prediction = predict(layer, Replace(1, (3, 4, 5), donor))
    assert prediction.parts is not None
    split = prediction.parts.key + prediction.parts.value + prediction.parts.interaction
    change = increments(layer, edited_bank(layer, Replace(1, (3, 4, 5), donor)))
    parts = decompose(tracked(layer.readout()), track(change.scores), track(change.values))
    bound = error_of(parts.total) + error_of(parts.key + parts.value + parts.interaction)
    assert bool(((prediction.response - split).abs() <= bound).all())


def test_the_effect_is_the_response_contracted_with_the_gradient_at_y(layer, donor):
    prediction = predict(layer, Replace(1, (3, 4, 5), donor))
    dotted = float((prediction.response * layer.gradient_output.double()).sum())
    # The model rounded its gradient at y = W_o g once, over the model width; float64 sums come on top.
    gradient = head_gradient(track(layer.output_projection), track(layer.gradient_write))
    sizes = head_gradient(layer.output_projection.abs(), layer.gradient_write.abs()).double()
    wide = 2 * (layer.output_projection.numel()) * torch.finfo(torch.float64).eps
    bound = (prediction.response.abs() * (error_of(gradient) + wide * sizes)).sum()
    assert abs(prediction.effect - dotted) <= float(bound)


def test_score_increments_under_a_softcap_are_those_of_capped_scores(tiny, ids):
    with attach(tiny("gemma2")) as instrument:
        layer = instrument.capture(ids, answer=3, versus=5, layers=[1]).layer(1)
    bank = edited_bank(layer, KeyShift(1, (3, 4), 5))
    apart = increments(layer, bank).scores - (layer.scores(bank) - layer.scores())
    # tanh does not expand the rounding of its argument, a sum over the width; the cap adds a few units.
    sizes = head_products(bank.query.abs().double(), (bank.keys.abs() + layer.keys.abs()).double())
    bound = 8 * sizes * layer.scaling + 8 * layer.softcap
    assert bool((apart.abs() <= torch.finfo(torch.float64).eps * bound).all())


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


def test_a_band_given_by_name_is_that_third_and_others_are_refused(layer) -> None:
    by_name = edited_bank(layer, KeyShift(1, (3,), 5, "slow"))
    by_mask = edited_bank(layer, KeyShift(1, (3,), 5, third(layer.rotary, "slow")))
    assert torch.equal(by_name.keys, by_mask.keys)
    assert not torch.equal(by_name.keys, layer.keys)
    with pytest.raises(ValueError, match=r"`band` must be one of .*got 'quick'.*frequency_bands"):
        KeyShift(1, (3,), 5, "quick")


def test_an_edit_without_an_action_is_refused(layer):
    with pytest.raises(NotImplementedError, match="Edit must define apply"):
        predict(layer, Edit(1, (3,)))
