"""Scores of a search are those of the dense definition, candidate by candidate."""

import pytest
import torch

import finite_calculus as fc
from finite_calculus.models import (
    Delete,
    Edit,
    KeyShift,
    LayerBank,
    LayerCapture,
    Odds,
    Quantise,
    QueryEdit,
    Replace,
    ScaleValues,
    edited_bank,
)
from finite_calculus.search import (
    Family,
    combine,
    donor_family,
    score,
    span_family,
    sweep_family,
    token_family,
)
from tests.search.dense import (
    assert_near,
    dense_effect,
    dense_prediction,
    one_layer,
    sample,
    tracked_effects,
)


def _families(pair) -> dict[str, Family]:
    last = len(pair.capture.ids) - 1
    places = ((last - 3, last - 1), (last - 2,), (last - 4, last - 2, last - 1))
    return {
        "tokens": token_family(),
        "spans": span_family(3),
        "sweep": sweep_family([0.5, 8.0], width=2),
        "donor": donor_family(pair.donor, strengths=(0.5, 1.0)),
        "donor spans": donor_family(pair.donor, width=2),
        "bits": Family((Quantise.anywhere(3),), places=places),
        "turned": Family((KeyShift.anywhere(3), KeyShift.anywhere(-2, "slow")), width=2),
    }


@pytest.mark.parametrize("name", ["embedded", "llama"])
def test_scores_equal_the_dense_definition_within_the_bounds_of_both(name, request) -> None:
    pair = request.getfixturevalue(name)
    families = _families(pair)
    capture = one_layer(pair.capture, 1)
    for family in (families[name] for name in ("tokens", "spans", "donor")):
        table, effects = score(capture, family), tracked_effects(capture, family)["total"]
        assert torch.equal(fc.value_of(effects), table.effect)
        for index in sample(4, len(table)):
            assert_near(effects[index], dense_effect(capture.layers[0], table.edit(index)))


def test_every_family_of_models_gives_the_scores_of_predict(family) -> None:
    for candidates in _families(family).values():
        if all(isinstance(k, KeyShift) for k in candidates.kinds) and not any(
            layer.rotary for layer in family.capture.layers
        ):
            continue  # nothing to turn: refused, and tested as such below
        table = score(family.capture, candidates)
        effects = tracked_effects(family.capture, candidates)["total"]
        assert torch.equal(fc.value_of(effects), table.effect)
        for index in sample(8, len(table)):
            edit = table.edit(index)
            dense = dense_effect(family.capture.layer(edit.layer), edit)
            assert float(dense) == family.capture.predict(edit).effect
            assert_near(effects[index], dense)


def test_the_instrument_has_fifteen_candidates_per_token_and_layer(embedded) -> None:
    table = score(embedded.capture)
    layers, tokens = len(embedded.capture.layers), len(embedded.capture.ids)
    assert len(table) == 15 * layers * tokens
    assert torch.bincount(table.layer).tolist() == [15 * tokens] * layers
    names = {row.kind for row in table.rows(sample(400, len(table)))}
    assert len(names) == 15


def test_parts_add_up_and_only_joint_edits_interact(embedded) -> None:
    family = donor_family(embedded.donor, strengths=(1.0,))
    table, effects = score(embedded.capture, family), tracked_effects(embedded.capture, family)
    assert_near(effects["total"], effects["key"] + effects["value"] + effects["interaction"])
    keys, values, both = table.interaction.reshape(3, -1)
    assert not keys.any()
    assert not values.any()
    # What interacts is no rounding error.
    largest = both.abs().argmax()
    bounds = fc.error_of(effects["interaction"]).reshape(3, -1)[2]
    assert float(both.abs()[largest]) > float(bounds[largest])
    for index in sample(10, len(table)):
        edit = table.edit(index)
        layer = embedded.capture.layer(edit.layer)
        parts = dense_prediction(layer, edit).parts
        slope = fc.head_gradient(
            *(fc.track(x.double()) for x in (layer.output_projection, layer.gradient_write))
        )
        for part in ("key", "value", "interaction"):
            assert float(fc.value_of(effects[part])[index]) == getattr(table, part)[index]
            assert_near(effects[part][index], (getattr(parts, part) * slope).sum())


def test_float32_scores_differ_by_their_own_rounding(embedded) -> None:
    exact = tracked_effects(embedded.capture)["total"]
    coarse = tracked_effects(embedded.capture, dtype=torch.float32)["total"]
    assert coarse.dtype == torch.float32
    assert not torch.equal(fc.value_of(coarse).double(), fc.value_of(exact))
    assert_near(coarse, exact)


@pytest.mark.parametrize(
    "kind",
    [
        Odds.anywhere(3.0),
        ScaleValues.anywhere(0.5),
        KeyShift.anywhere(5, "fast"),
        KeyShift.anywhere(-4),
        Quantise.anywhere(4),
        Delete.anywhere(),
    ],
)
def test_a_kind_acts_on_each_token_and_layer_by_itself(embedded, kind: Edit) -> None:
    layer = embedded.capture.layers[1]
    alone, both = (edited_bank(layer, kind.at(1, tokens)) for tokens in ((4,), (4, 9)))
    for name in ("keys", "values", "bias"):
        assert torch.equal(getattr(alone, name)[:, 4], getattr(both, name)[:, 4])
    folded = score(embedded.capture, Family((kind,)))
    loose = type("Loose", (type(kind),), {"folds": False})(**vars(kind))
    assert torch.equal(folded.effect, score(embedded.capture, Family((loose,))).effect)


class Halve(Edit):
    """An edit as a user would write it: half the odds of one head."""

    by_column = True
    name = "halve"

    def apply(self, layer: LayerCapture, bank: LayerBank) -> LayerBank:
        return Odds(layer.layer, self.tokens, 0.5, heads=(0,)).apply(layer, bank)


def test_a_kind_of_ones_own_is_scored_like_the_others(embedded) -> None:
    table = score(embedded.capture, Family((Halve.anywhere(),)))
    effects = tracked_effects(embedded.capture, Family((Halve.anywhere(),)))["total"]
    for index in sample(10, len(table)):
        edit = table.edit(index)
        assert_near(effects[index], dense_effect(embedded.capture.layer(edit.layer), edit))
    assert table.row(0).kind == "halve"


def test_listed_edits_and_combinations_are_scored_by_predict(embedded) -> None:
    table = score(embedded.capture)
    pairs = combine(table, table.order(12))
    assert pairs
    assert all(len({part.layer for part in pair}) == 1 for pair in pairs)
    assert all(not set(a.tokens) & set(b.tokens) for a, b in pairs)
    table = score(embedded.capture, pairs)
    assert [float(x) for x in table.effect] == [embedded.capture.predict(p).effect for p in pairs]
    mixed = score(embedded.capture, [(Delete(1, (3,)), ScaleValues(1, (5,)))])
    assert mixed.row(0).kind == "Delete + ScaleValues"
    assert mixed.row(0).tokens == (3, 5)


def test_bad_requests_are_refused_with_what_to_do(embedded, llama) -> None:
    with pytest.raises(ValueError, match="at least one kind"):
        Family(())
    with pytest.raises(ValueError, match="`width` must be at least 1"):
        Family(width=0)
    with pytest.raises(ValueError, match="distinct tokens"):
        Family(places=((3, 3),))
    with pytest.raises(
        ValueError, match=r"`places` must name tokens in 0\.\.\d+, those of the capt"
    ):
        score(embedded.capture, Family(places=((10_000,),)))
    with pytest.raises(ValueError, match="must have a candidate"):
        score(embedded.capture, Family(places=()))
    with pytest.raises(ValueError, match="at least one edit"):
        score(embedded.capture, [])
    with pytest.raises(ValueError, match="`band` must be one of"):
        KeyShift.anywhere(3, "quick")
    with pytest.raises(ValueError, match="`size` must be at least 2"):
        combine(score(llama.capture), [0, 1], size=1)
    with pytest.raises(ValueError, match="`dtype` must be"):
        score(llama.capture, dtype=torch.float16)
    with pytest.raises(ValueError, match="`donor` must be a capture"):
        score(llama.capture, Family((Replace.anywhere(_longer(llama)),)))
    with pytest.raises(ValueError, match=r"each token by itself.*QueryEdit does not"):
        Family((QueryEdit.anywhere(torch.zeros(6, 8)),))


def _longer(pair):
    ids = torch.cat([pair.capture.ids, pair.capture.ids[-1:]])
    return pair.instrument.capture(ids, answer=5, versus=9)


def test_a_model_without_rotary_positions_has_no_shifts() -> None:
    from finite_calculus.models import attach
    from finite_calculus.models.tiny import tiny_model

    with attach(tiny_model("gpt2")) as instrument:
        capture = instrument.capture(range(3, 12), answer=5, versus=9)
    assert len(score(capture)) == 9 * 9 * 3
    with pytest.raises(ValueError, match="positional kinds need rotary layers"):
        score(capture, Family((KeyShift.anywhere(3),)))
