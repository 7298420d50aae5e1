"""What used to run and mean nothing, or to end in an error of Python's own: each is refused by name."""

import numpy as np
import pytest
import torch

from finite_calculus.cache import evict, generate_with
from finite_calculus.models import (
    Delete,
    KeyShift,
    Odds,
    QueryEdit,
    Replace,
    ScaleValues,
    attach,
)
from finite_calculus.models.edits import registered_edits
from finite_calculus.models.tiny import tiny_model
from finite_calculus.search import Family, score


@pytest.fixture(scope="module")
def model():
    return tiny_model("qwen2")


@pytest.fixture
def instrument(model):
    with attach(model) as instrument:
        yield instrument


@pytest.fixture
def capture(instrument, ids):
    return instrument.capture(ids, answer=3, versus=5, layers=[1, 2])


def logits_of(model, ids):
    with torch.no_grad():
        return model(input_ids=ids.unsqueeze(0)).logits[0]


def stepwise(model, ids):
    """Logits of the tokens from 20 on, each computed alone from the cache of those before."""
    with torch.no_grad():
        cache = model(input_ids=ids[None, :20], use_cache=True).past_key_values
        steps = [
            model(input_ids=token.reshape(1, 1), past_key_values=cache).logits[0, -1]
            for token in ids[20:]
        ]
    return torch.stack(steps)


def test_installed_edits_act_on_every_query_from_the_last_prompt_token_on(
    model, instrument, capture, ids
) -> None:
    longer = torch.cat([ids, torch.tensor([7, 8, 9])])
    edit = ScaleValues(1, tuple(range(20)), 0.0)
    before, unedited = logits_of(model, longer), stepwise(model, longer)
    with instrument.installed(capture, edit):
        at_once, steps = logits_of(model, longer), stepwise(model, longer)
    assert torch.equal(at_once[:19], before[:19])
    changes, errors = (at_once - before)[20:].abs(), (at_once[20:] - steps).abs()
    # One pass over three tokens and three passes over one differ by rounding alone, of which the unedited
    # model shows how much there is; roundings of 288 logits are within some times of 288 others.
    rounding = float((before[20:] - unedited).abs().max())
    assert float(errors.max()) < 16 * rounding
    assert float(changes.amax(-1).min()) > 100 * rounding


@pytest.mark.parametrize("place", [0, 19], ids=["first", "last"])
def test_edits_of_one_prompt_are_refused_for_another_one_that_is_longer(
    model, instrument, capture, ids, place
) -> None:
    other = torch.cat([ids, torch.tensor([7, 8, 9])])
    other[place] = (other[place] + 1) % 96
    with (
        instrument.installed(capture, [Delete(1, (3,)), Delete(2, (3,))]),
        pytest.raises(ValueError, match="must continue the captured prompt"),
    ):
        logits_of(model, other)


def test_a_prompt_beyond_the_context_is_refused(instrument, capture) -> None:
    with pytest.raises(ValueError, match=r"context of 128 tokens .* it has 129"):
        instrument.capture([5] * 129, answer=3, versus=5)
    with pytest.raises(ValueError, match="context of 128 after the prompt's 20; got 109"):
        generate_with(instrument, capture, [], tokens=109)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda: ScaleValues(1, (3,), float("nan")), "`factor` of ScaleValues must be a finite"),
        (lambda: KeyShift(1, (3,), float("inf")), "`shift` of KeyShift must be a finite"),
        (lambda: Odds(1, (3,), "4"), "`multiplier` must be positive and finite; got '4'"),
        (lambda: Delete(1, 3), r"`tokens` of Delete must be token indices, as in \(3,\).*got 3"),
        (lambda: Delete(1, "3"), "`tokens` of Delete must be token indices.*got '3'"),
        (lambda: Delete(1, (3.0,)), "`tokens` of Delete must be token indices"),
        (lambda: Delete(1.0, (3,)), "`layer` of Delete must be the number of a layer; got 1.0"),
        (lambda: Delete(True, (3,)), "`layer` of Delete must be the number of a layer; got True"),
        (lambda: Replace(1, (3,), "a prompt"), "`donor` must be a capture, or a captured layer"),
    ],
)
def test_an_edit_that_means_nothing_cannot_be_made(edit, words) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        edit()


@pytest.mark.usefixtures("unchecked_shapes")
def test_tokens_may_be_any_sequence_of_indices() -> None:
    for tokens in ([3, 4], range(3, 5), (np.int64(3), 4)):
        edit = Delete(np.int64(1), tokens)
        assert edit.tokens == (3, 4)
        assert all(type(token) is int for token in edit.tokens)


@pytest.mark.parametrize("path", ["resumed", "shared"])
@pytest.mark.parametrize(
    "edit",
    [
        ScaleValues(1, (3,), 1e39),
        QueryEdit(1, (), torch.full((6, 8), torch.nan)),
        (ScaleValues(1, (3, 4), 1e30), ScaleValues(1, (3,), 1e30)),
    ],
    ids=["overflow", "nan", "twice"],
)
def test_an_edit_that_overflows_is_refused_on_every_path(instrument, capture, edit, path) -> None:
    with pytest.raises(ValueError, match="must leave finite float32 numbers; at layer 1"):
        capture.predict(edit)
    with pytest.raises(ValueError, match="must leave finite float32 numbers; at layer 1"):
        instrument.execute(capture, [Delete(1, (2,)), edit, edit], path=path)


@pytest.mark.usefixtures("unchecked_shapes")
def test_a_counterfactual_is_an_edit_or_a_tuple_and_executions_take_a_list(
    instrument, capture
) -> None:
    edit = Delete(1, (3,))
    with pytest.raises(TypeError, match=r"an edit or a tuple of edits.*got a list of Delete"):
        capture.predict([edit])
    with pytest.raises(TypeError, match=r"an edit or a tuple of edits.*got a list of Delete"):
        instrument.execute(capture, [[edit]])
    with pytest.raises(TypeError, match=r"`edits` must be a list of counterfactuals.*got a Delete"):
        instrument.execute(capture, edit)
    with pytest.raises(TypeError, match=r"`edits` must be a list of counterfactuals.*got a str"):
        instrument.execute(capture, "delete")


@pytest.mark.usefixtures("unchecked_shapes")
def test_layers_and_answers_of_another_kind_are_refused(instrument, ids) -> None:
    with pytest.raises(TypeError, match=r"`layers` must be a sequence of layers, as in \[1\]"):
        instrument.capture(ids, answer=3, versus=5, layers=1)
    with pytest.raises(ValueError, match=r"`layers` must name layers in 0\.\.2; got \['a'\]"):
        instrument.capture(ids, answer=3, versus=5, layers=["a"])
    for answer in ([3, 4], 3.0, torch.tensor(3)):
        with pytest.raises(ValueError, match="`answer` must be a token id"):
            instrument.capture(ids, answer=answer, versus=5)


def test_places_and_protected_tokens_outside_the_prompt_are_refused(capture) -> None:
    for place in ((3, 20), (-1,)):
        with pytest.raises(ValueError, match=r"`places` must name tokens in 0\.\.19"):
            score(capture, Family(places=((1, 2), place)))
        with pytest.raises(ValueError, match=r"`groups` must name tokens in 0\.\.19"):
            evict(capture, 1.0, groups=[place])
    with pytest.raises(ValueError, match=r"`protect` must name tokens in 0\.\.19.*got 99"):
        evict(capture, 1.0, protect=[99])


@pytest.mark.parametrize(
    "name", ["model.layers.1.mlp.up_proj.weight", "model.layers.0.self_attn.k_proj.bias"]
)
def test_weights_that_are_not_numbers_are_named(ids, name) -> None:
    broken = tiny_model("qwen2")
    with torch.no_grad():
        broken.get_parameter(name).view(-1)[0] = torch.nan
    with attach(broken) as instrument, pytest.raises(ValueError, match=f"{name} holds NaN"):
        instrument.capture(ids, answer=3, versus=5)


def test_a_model_that_overflows_says_so(ids) -> None:
    large = tiny_model("qwen2")
    with torch.no_grad():
        large.lm_head.weight.mul_(3e38)
    with attach(large) as instrument, pytest.raises(ValueError, match="it overflows on the way"):
        instrument.capture(ids, answer=3, versus=5)


@pytest.mark.parametrize("kind", registered_edits(), ids=lambda kind: kind.__name__)
def test_every_edit_checks_its_place(kind) -> None:
    edit = object.__new__(kind)
    for name in ("layer", "tokens"):
        object.__setattr__(edit, name, "one")
    with pytest.raises(TypeError, match=f"`layer` of {kind.__name__} must be the number"):
        edit.__post_init__()


def test_a_batch_has_one_row_for_each_of_the_edits(model, instrument, capture, ids) -> None:
    rows = [(), (ScaleValues(1, (3,), 0.0),)]
    with (
        instrument.installed_rows(capture, rows),
        pytest.raises(ValueError, match="must have one row for each of `rows`, 2; it has 1"),
    ):
        logits_of(model, ids)
