"""Scores of a search are those of the dense definition, candidate by candidate."""

import pytest
import torch

import finite_calculus as fc
from finite_calculus.models import Delete, Edit, LayerCapture, Odds, ScaleValues, edited_bank
from finite_calculus.search import (
    Family,
    Kind,
    MultiplyOdds,
    Remove,
    Round,
    ScaleValue,
    Shift,
    Towards,
    combine,
    donor_family,
    prepare_search,
    score,
    span_family,
    sweep_family,
    token_family,
)
from finite_calculus.search.block import effects_of
from tests.search.dense import dense_effect, one_layer, sample

# Dense and sparse sums of a dozen terms of size one, in float64.
ROUNDING = 1e-12


def _families(asked) -> dict[str, Family]:
    last = len(asked.capture.ids) - 1
    places = ((last - 3, last - 1), (last - 2,), (last - 4, last - 2, last - 1))
    return {
        "tokens": token_family(),
        "spans": span_family(3),
        "sweep": sweep_family([0.5, 8.0], width=2),
        "donor": donor_family(asked.donor, strengths=(0.5, 1.0)),
        "donor spans": donor_family(asked.donor, width=2),
        "bits": Family((Round(3),), places=places),
        "turned": Family((Shift(3), Shift(-2, "slow")), width=2),
    }


@pytest.mark.parametrize("name", ["embedded", "llama"])
def test_scores_equal_the_dense_definition_within_the_bounds_of_both(name, request) -> None:
    asked = request.getfixturevalue(name)
    families = _families(asked)
    capture = one_layer(asked.capture, 1)
    for family in (families[name] for name in ("tokens", "spans", "donor")):
        tracked = prepare_search(capture, family, wrap=fc.track)
        plain = score(capture, family)
        found = torch.cat([effects_of(block).total.flatten() for block in tracked.blocks])
        assert torch.equal(fc.value_of(found), plain.effect)
        for index in sample(4, len(plain)):
            edit = plain.edit(index)
            if type(edit) is Delete:
                continue
            exact = dense_effect(capture.layers[0], edit)
            gap = abs(float(exact) - float(plain.effect[index]))
            assert gap <= float(fc.error_of(exact)) + float(fc.error_of(found)[index])


def test_every_family_of_models_gives_the_scores_of_predict(family) -> None:
    for candidates in _families(family).values():
        if all(isinstance(k, Shift) for k in candidates.kinds) and not any(
            layer.rotary for layer in family.capture.layers
        ):
            continue  # nothing to turn: refused, and tested as such below
        table = score(family.capture, candidates)
        size = max(1.0, float(table.effect.abs().max()))
        for index in sample(8, len(table)):
            predicted = family.capture.predict(table.edit(index)).effect
            assert abs(predicted - float(table.effect[index])) <= ROUNDING * size


def test_the_instrument_has_fifteen_candidates_per_token_and_layer(embedded) -> None:
    table = score(embedded.capture)
    layers, tokens = len(embedded.capture.layers), len(embedded.capture.ids)
    assert len(table) == 15 * layers * tokens
    assert torch.bincount(table.layer).tolist() == [15 * tokens] * layers
    names = {row.kind for row in table.rows(sample(400, len(table)))}
    assert len(names) == 15


def test_parts_add_up_and_only_joint_edits_interact(embedded) -> None:
    table = score(embedded.capture, donor_family(embedded.donor, strengths=(1.0,)))
    gap = table.effect - table.key - table.value - table.interaction
    assert float(gap.abs().max()) <= 1e-14 * float(table.effect.abs().max())
    keys, values, both = table.interaction.reshape(3, -1)
    assert not keys.any()
    assert not values.any()
    assert float(both.abs().max()) > 1e-6
    for index in sample(10, len(table)):
        row, edit = table.row(index), table.edit(index)
        parts = embedded.capture.predict(edit).parts
        layer = embedded.capture.layer(row.layer)
        slope = layer.output_projection.double() @ layer.gradient_write.double()
        for mine, theirs in zip(
            (row.key, row.value, row.interaction),
            (parts.key, parts.value, parts.interaction),
            strict=True,
        ):
            assert abs(mine - float((theirs * slope).sum())) <= ROUNDING


def test_float32_scores_differ_by_their_own_rounding(embedded) -> None:
    exact = score(embedded.capture).effect
    narrow = prepare_search(embedded.capture, dtype=torch.float32, wrap=fc.track)
    found = torch.cat([effects_of(block).total.flatten() for block in narrow.blocks])
    gap = (fc.value_of(found).double() - exact).abs()
    assert found.dtype == torch.float32
    assert float(gap.max()) > 0
    assert bool((gap <= fc.error_of(found) + 1e-12).all())


@pytest.mark.parametrize(
    "kind", [MultiplyOdds(3.0), ScaleValue(0.5), Shift(5, "fast"), Shift(-4), Round(4), Remove()]
)
def test_a_kind_acts_on_each_token_and_layer_by_itself(embedded, kind: Kind) -> None:
    layer = embedded.capture.layers[1]
    alone, both = (edited_bank(layer, kind.edit(layer, tokens)) for tokens in ((4,), (4, 9)))
    for name in ("keys", "values", "bias"):
        assert torch.equal(getattr(alone, name)[:, 4], getattr(both, name)[:, 4])
    folded = score(embedded.capture, Family((kind,)))
    loose = type("Loose", (type(kind),), {"folds": False})(**vars(kind))
    assert torch.equal(folded.effect, score(embedded.capture, Family((loose,))).effect)


class Halve(Kind):
    """A kind as a user would write it: half the odds of one head, and half the value."""

    name = "halve"

    def edit(self, layer: LayerCapture, tokens: tuple[int, ...]) -> Edit:
        return Odds(layer.layer, tokens, 0.5, heads=(0,))


def test_a_kind_of_ones_own_is_scored_like_the_others(embedded) -> None:
    table = score(embedded.capture, Family((Halve(),)))
    for index in sample(10, len(table)):
        predicted = embedded.capture.predict(table.edit(index)).effect
        assert abs(predicted - float(table.effect[index])) <= ROUNDING
    assert table.row(0).kind == "halve"


def test_listed_edits_and_combinations_are_scored_by_predict(embedded) -> None:
    table = score(embedded.capture)
    pairs = combine(table, table.order(12))
    assert pairs
    assert all(len({part.layer for part in pair}) == 1 for pair in pairs)
    assert all(not set(a.tokens) & set(b.tokens) for a, b in pairs)
    found = score(embedded.capture, pairs)
    assert [float(x) for x in found.effect] == [embedded.capture.predict(p).effect for p in pairs]
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
    with pytest.raises(ValueError, match="must have a candidate"):
        score(embedded.capture, Family(places=((10_000,),)))
    with pytest.raises(ValueError, match="at least one edit"):
        score(embedded.capture, [])
    with pytest.raises(ValueError, match="`band` must be one of"):
        Shift(3, "quick")
    with pytest.raises(ValueError, match="`size` must be at least 2"):
        combine(score(llama.capture), [0, 1], size=1)
    with pytest.raises(ValueError, match="`dtype` must be"):
        score(llama.capture, dtype=torch.float16)
    with pytest.raises(ValueError, match="`donor` must be a capture"):
        score(llama.capture, Family((Towards(_longer(llama)),)))
    with pytest.raises(NotImplementedError, match="must define name"):
        score(llama.capture, Family((Unnamed(),))).row(0)


class Unnamed(Kind):
    def edit(self, layer: LayerCapture, tokens: tuple[int, ...]) -> Edit:
        return ScaleValues(layer.layer, tokens)


def _longer(asked):
    ids = torch.cat([asked.capture.ids, asked.capture.ids[-1:]])
    return asked.instrument.capture(ids, answer=5, versus=9)


def test_a_model_without_rotary_positions_has_no_shifts() -> None:
    from finite_calculus.models import attach
    from finite_calculus.models.tiny import tiny_model

    with attach(tiny_model("gpt2")) as instrument:
        capture = instrument.capture(range(3, 12), answer=5, versus=9)
    assert len(score(capture)) == 9 * 9 * 3
    with pytest.raises(ValueError, match="positional kinds need rotary layers"):
        score(capture, Family((Shift(3),)))
