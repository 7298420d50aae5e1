"""Native execution: two paths to the same bits, isolated rows, exact local agreement, generation."""

import pytest
import torch

from finite_calculus.models import (
    Delete,
    KeyShift,
    Odds,
    QueryEdit,
    Replace,
    ScaleValues,
    attach,
    edited_bank,
    output_error,
    predict,
)
from finite_calculus.models.baseline import batch_baseline
from finite_calculus.models.execute import apply_bank
from finite_calculus.models.noise import margin_budget
from finite_calculus.models.prefix import SharedLayer, prepare_prefix
from finite_calculus.models.session import AttentionCall
from finite_calculus.models.tiny import tiny_model
from native_checks.bench import battery
from native_checks.records import CEILING_ABSOLUTE, CEILING_RELATIVE


@pytest.mark.parametrize("rows", [2, 3, 5, 8, 32])
def test_resumption_and_the_whole_model_agree_bit_for_bit(tiny, ids, rows):
    with attach(tiny("qwen2")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        edits = [e for layer in capture.layers for e in battery(layer, layer)]
        resumed = instrument.execute(capture, edits, batch=rows, keep_logits=True)
        whole = instrument.execute(capture, edits, batch=rows, path="whole", keep_logits=True)
    for a, b in zip(resumed.outcomes, whole.outcomes, strict=True):
        assert torch.equal(a.logits, b.logits)
        assert torch.equal(a.output, b.output)
        assert torch.equal(a.write, b.write)
        assert a.control == b.control
        assert a.drift == b.drift == 0


@pytest.mark.parametrize("family", ["qwen2", "gemma3_text", "gpt_oss"])
def test_executed_responses_are_predicted_within_the_derived_bound(tiny, ids, family):
    with attach(tiny(family)) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        edits = [e for layer in capture.layers for e in battery(layer, layer)]
        executed = instrument.execute(capture, edits)
    for edit, outcome in zip(edits, executed.outcomes, strict=True):
        bank = edited_bank(outcome.layer, edit)
        bound = output_error(outcome.layer) + output_error(outcome.layer, bank)
        apart = (predict(outcome.layer, edit).response - outcome.response).abs()
        assert bool((apart <= bound).all())


def test_the_bound_is_not_so_wide_that_a_wrong_prediction_fits(tiny, ids):
    with attach(tiny("qwen2")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        (outcome,) = instrument.execute(capture, [KeyShift(1, (3, 4), 5)]).outcomes
    bound = output_error(outcome.layer) * 2
    for wrong in (KeyShift(1, (3, 4), 5.01), KeyShift(1, (3, 5), 5), ScaleValues(1, (3,))):
        apart = (predict(outcome.layer, wrong).response - outcome.response).abs()
        assert bool((apart > bound).any())


def test_what_a_prediction_omits_downstream_is_of_second_order(tiny, ids):
    with attach(tiny("qwen2")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        noise = 4 * margin_budget(instrument.model, instrument.support.sites, ids, capture.margin)
        for layer in capture.layers:
            tokens = tuple(layer.tokens[:-1])
            edits = [ScaleValues(layer.layer, tokens, 1 - 2.0**-k) for k in (4, 5, 6)]
            predicted = torch.tensor([predict(layer, edit).effect for edit in edits])
            omitted = (instrument.execute(capture, edits).effects - predicted).abs()
            # Half the edit leaves a quarter; a half would be an error of first order.
            assert bool((omitted[1:] < omitted[:-1] / 2 + noise).all())
            assert float(predicted.abs().min()) > 10 * float(omitted[-1])


def test_results_keep_the_order_of_the_edits(tiny, ids):
    with attach(tiny("qwen2")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        edits = [Odds(2, (3,), 4.0), Odds(0, (3,), 4.0), Odds(1, (3,), 4.0), Odds(0, (9,), 4.0)]
        together = instrument.execute(capture, edits, batch=2)
        alone = [instrument.execute(capture, [edit], batch=2).outcomes[0] for edit in edits]
    assert [o.layer.layer for o in together.outcomes] == [2, 0, 1, 0]
    assert together.margins.tolist() == [o.margin for o in alone]
    assert torch.equal(together.effects, together.margins - together.controls)


def test_a_row_does_not_see_the_edits_of_another(tiny, ids):
    with attach(tiny("qwen2")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        edits = [Odds(1, (j,), 3.0) for j in range(7)]
        others = [Delete(1, (j,)) for j in range(7, 14)]
        others[3] = edits[3]
        mine = instrument.execute(capture, edits).outcomes[3]
        theirs = instrument.execute(capture, others).outcomes[3]
    assert mine.margin == theirs.margin
    assert torch.equal(mine.write, theirs.write)


def test_edits_of_sliding_layers_use_token_indices(tiny, ids):
    with attach(tiny("mistral")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        layer = capture.layer(1)
        assert list(layer.tokens) == list(range(12, 20))
        assert layer.window == 8
        (outcome,) = instrument.execute(capture, [Delete(1, (13,))]).outcomes
        bank = edited_bank(outcome.layer, Delete(1, (13,)))
        after = outcome.layer.readout(bank)
        assert float(after.probs[:, 1].abs().max()) == 0
        apart = (after.output - outcome.output.double()).abs()
        assert bool((apart <= output_error(outcome.layer, bank)).all())
        with pytest.raises(ValueError, match=r"must lie in 12..19"):
            instrument.execute(capture, [Delete(1, (11,))])


def test_a_query_edit_changes_only_the_query(tiny, ids):
    with attach(tiny("qwen2")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        delta = 0.3 * torch.randn(6, 8, generator=torch.Generator().manual_seed(2))
        (outcome,) = instrument.execute(capture, [QueryEdit(1, (), delta)]).outcomes
    prediction = predict(outcome.layer, QueryEdit(1, (), delta))
    bank = edited_bank(outcome.layer, QueryEdit(1, (), delta))
    bound = output_error(outcome.layer) + output_error(outcome.layer, bank)
    assert bool(((prediction.response - outcome.response).abs() <= bound).all())
    assert bool((outcome.response.abs() > bound).any())


def test_donor_tensors_are_executed_as_they_are(tiny, ids):
    other = ids.clone()
    other[5] = 50
    with attach(tiny("llama")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        donor = instrument.capture(other, answer=3, versus=5)
        edit = Replace(0, tuple(range(19)), donor.layer(0))
        (outcome,) = instrument.execute(capture, [edit]).outcomes
        unedited = batch_baseline(instrument.prompt(other), 2).layers[0]
    # At layer 0 the last token's own features are the same, so the donor's write is reached.
    assert torch.equal(outcome.write, unedited.write[1])


def test_batches_need_room_for_a_control(tiny, ids):
    with attach(tiny("qwen2")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5, layers=[1])
        with pytest.raises(ValueError, match="`batch` must be at least 2"):
            instrument.execute(capture, [Delete(1, (3,))], batch=1)


def test_resumption_refuses_a_block_with_a_forward_of_its_own(ids):
    model = tiny_model("qwen2")
    with attach(model) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        block = model.model.layers[0]
        block.forward = block.forward
        with pytest.raises(ValueError, match="Block 0 must not have a forward of its own instance"):
            instrument.execute(capture, [Delete(1, (3,))])
        del block.forward


def test_prefixes_are_kept_for_a_few_prompts_only(tiny, ids):
    with attach(tiny("qwen2")) as instrument:
        first = instrument.prefix(ids)
        assert instrument.prefix(ids) is first
        for shift in range(1, 5):
            instrument.prefix(ids.roll(shift))
        assert instrument.prefix(ids) is not first


def test_an_empty_prefix_and_a_missing_mask_are_refused(tiny, ids):
    from transformers.cache_utils import DynamicLayer

    zeros = torch.zeros(1, 2, 1, 8)
    with pytest.raises(ValueError, match="prefix must be filled before it is read"):
        SharedLayer(DynamicLayer()).update(zeros, zeros)
    with attach(tiny("qwen2")) as instrument:
        layer = instrument.capture(ids, answer=3, versus=5, layers=[1]).layer(1)
    call = AttentionCall(zeros, zeros.clone(), zeros.clone(), None, {})
    with pytest.raises(ValueError, match="mask of an edited call must be present"):
        apply_bank(call, 0, layer, layer.bank())


def test_a_cache_layer_without_keys_is_refused(tiny, ids, monkeypatch):
    from transformers.cache_utils import DynamicCache

    model = tiny("qwen2")
    monkeypatch.setattr(DynamicCache, "layers", [object()], raising=False)
    monkeypatch.setattr(DynamicCache, "__init__", lambda self, **kw: None)
    monkeypatch.setattr(type(model.base_model), "forward", lambda self, **kw: None)
    with pytest.raises(ValueError, match="cache layer must hold keys and values; got object"):
        prepare_prefix(model, ids)


def generate(model, ids, tokens=4):
    generated = model.generate(
        ids.unsqueeze(0),
        attention_mask=torch.ones_like(ids).unsqueeze(0),
        max_new_tokens=tokens,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
        eos_token_id=None,
        pad_token_id=0,
    )
    return generated.sequences[0, len(ids) :].tolist(), generated.logits


def ceiling(logits):
    """The paper's tolerance for native float32: prefill and cached last token round differently."""
    return CEILING_ABSOLUTE + CEILING_RELATIVE * logits.abs()


def test_an_installed_edit_acts_on_the_first_generated_token_as_execution_does(tiny, ids):
    model = tiny("qwen2")
    edits = [ScaleValues(1, tuple(range(19)), 0.0)]
    with attach(model) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        (outcome,) = instrument.execute(capture, edits, keep_logits=True).outcomes
        unedited, before = generate(model, ids)
        with instrument.installed(capture, edits):
            with torch.no_grad():
                last = instrument.prompt(ids).run_last(rows=2)
            edited, logits = generate(model, ids)
        again, after = generate(model, ids)
    assert torch.equal(last[1], outcome.logits)
    assert bool(((logits[0][0] - outcome.logits).abs() <= ceiling(outcome.logits)).all())
    assert bool(((logits[0] - before[0]).abs() > ceiling(before[0])).any())
    assert bool(((logits[2] - before[2]).abs() > ceiling(before[2])).any())
    assert again == unedited
    assert torch.equal(after[0], before[0])
    assert len(edited) == 4


def test_an_installed_idle_edit_changes_nothing(tiny, ids):
    model = tiny("qwen2")
    with attach(model) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        unedited, before = generate(model, ids)
        with instrument.installed(capture, Odds(1, (3,), 1.0)):
            same, logits = generate(model, ids)
    assert same == unedited
    assert bool(((logits[0] - before[0]).abs() <= ceiling(before[0])).all())


def test_edits_that_cannot_stay_installed_are_refused(tiny, ids):
    with attach(tiny("qwen2")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        edit = QueryEdit(1, (), torch.zeros(6, 8))
        with (
            pytest.raises(ValueError, match="must not edit queries"),
            instrument.installed(capture, edit),
        ):
            pass
        with (
            instrument.installed(capture, Odds(2, (3,), 2.0)),
            pytest.raises(ValueError, match="must continue the captured prompt; its keys differ"),
        ):
            generate(tiny("qwen2"), ids.roll(3))
    with attach(tiny("mistral")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        with (
            pytest.raises(ValueError, match="layer 1 has a sliding window"),
            instrument.installed(capture, Odds(1, (15,), 2.0)),
        ):
            pass
