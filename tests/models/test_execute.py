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
from finite_calculus.models.execute import apply_bank
from finite_calculus.models.prefix import SharedLayer
from finite_calculus.models.session import AttentionCall
from finite_calculus.models.tiny import tiny_model
from native_checks.bench import battery


@pytest.mark.parametrize("rows", [2, 3, 5, 8, 32])
def test_resumption_and_the_whole_model_agree_bit_for_bit(tiny, ids, rows):
    with attach(tiny("qwen2")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        edits = [e for layer in capture.layers for e in battery(layer, layer)]
        resumed = instrument.execute(capture, edits, batch=rows, keep_logits=True)
        whole = instrument.execute(capture, edits, batch=rows, resume=False, keep_logits=True)
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


def test_small_edits_have_the_predicted_effect_downstream(tiny, ids):
    with attach(tiny("qwen2")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        for layer in capture.layers:
            edit = ScaleValues(layer.layer, tuple(layer.tokens[:-1]), 0.99)
            effect = float(instrument.execute(capture, [edit]).effects[0])
            # A hundredth of the write: what is left out is of second order in it.
            assert effect == pytest.approx(predict(layer, edit).effect, rel=0.05, abs=1e-4)


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
        after = layer.readout(edited_bank(layer, Delete(1, (13,))))
        assert float(after.probs[:, 1].abs().max()) == 0
        apart = (after.output - outcome.output.double()).abs()
        assert float(apart.max()) < 1e-4
        with pytest.raises(ValueError, match=r"must lie in 12..19"):
            instrument.execute(capture, [Delete(1, (11,))])


def test_a_query_edit_changes_only_the_query(tiny, ids):
    with attach(tiny("qwen2")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        delta = 0.3 * torch.randn(6, 8, generator=torch.Generator().manual_seed(2))
        (outcome,) = instrument.execute(capture, [QueryEdit(1, (), delta)]).outcomes
    found = predict(outcome.layer, QueryEdit(1, (), delta))
    assert float((found.response - outcome.response).abs().max()) < 1e-5
    assert float(outcome.response.abs().max()) > 1e-3


def test_donor_tensors_are_executed_as_they_are(tiny, ids):
    other = ids.clone()
    other[5] = 50
    with attach(tiny("llama")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        donor = instrument.capture(other, answer=3, versus=5)
        edit = Replace(0, tuple(range(19)), donor.layer(0))
        (outcome,) = instrument.execute(capture, [edit]).outcomes
    # At layer 0 the last token's own features are the same, so the donor's write is reached.
    apart = (outcome.write - donor.layer(0).write).abs()
    assert float(apart.max()) < 1e-5


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


def generate(model, ids, tokens=4):
    found = model.generate(
        ids.unsqueeze(0),
        attention_mask=torch.ones_like(ids).unsqueeze(0),
        max_new_tokens=tokens,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
        eos_token_id=None,
        pad_token_id=0,
    )
    return found.sequences[0, len(ids) :].tolist(), found.logits


def test_an_installed_edit_acts_on_the_first_generated_token_as_execution_does(tiny, ids):
    model = tiny("qwen2")
    edits = [ScaleValues(1, tuple(range(19)), 0.0)]
    with attach(model) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        (outcome,) = instrument.execute(capture, edits, keep_logits=True).outcomes
        plain, before = generate(model, ids)
        with instrument.installed(capture, edits):
            edited, logits = generate(model, ids)
        again, after = generate(model, ids)
    torch.testing.assert_close(logits[0][0], outcome.logits, atol=1e-4, rtol=1e-4)
    assert float((logits[0] - before[0]).abs().max()) > 1e-2
    assert float((logits[2] - before[2]).abs().max()) > 1e-2
    assert again == plain
    assert torch.equal(after[0], before[0])
    assert len(edited) == 4


def test_an_installed_idle_edit_changes_nothing(tiny, ids):
    model = tiny("qwen2")
    with attach(model) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        plain, before = generate(model, ids)
        with instrument.installed(capture, Odds(1, (3,), 1.0)):
            same, logits = generate(model, ids)
    assert same == plain
    torch.testing.assert_close(logits[0], before[0], atol=1e-4, rtol=1e-4)


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
