"""Values, increments, strengths and masks with more or fewer leading dimensions than the scores."""

import pytest
import torch

import finite_calculus as fc
from tests.batching.agreement import assert_agree, batch_of, evaluate
from tests.batching.cases import BATCH, EDITED, GROUPS, HEADS, KEYS, READOUT_CASES, WIDTH, unchecked
from tests.helpers.tensors import draw


@unchecked
@pytest.mark.parametrize("name", READOUT_CASES)
def test_values_shared_by_heads_act_as_their_copies(name: str):
    case = READOUT_CASES[name]
    scores, values, score_delta, value_delta = batch_of(case)
    shared = [scores, values[0, 0], score_delta, value_delta]
    copied = [scores, values[0, 0].expand_as(values).contiguous(), score_delta, value_delta]
    assert_agree(case, evaluate(case, shared), evaluate(case, copied))


SIZED = [name for name in EDITED if name not in ("output", "centred", "restoration_response")]


@unchecked
@pytest.mark.parametrize("name", SIZED)
def test_increments_may_have_further_leading_dimensions(name: str):
    case = READOUT_CASES[name]
    scores, values, score_delta, value_delta = batch_of(case, lead=(HEADS,))
    strengths = torch.tensor([0.5, -1.0, 2.0]).double()
    lifted = [
        scores,
        values,
        strengths.reshape(3, 1, 1) * score_delta,
        strengths.reshape(3, 1, 1, 1) * value_delta,
    ]
    whole = evaluate(case, lifted)
    for index in range(3):
        single = evaluate(case, [scores, values, lifted[2][index], lifted[3][index]])
        assert_agree(case, {part: x[index] for part, x in whole.items()}, single)


@unchecked
@pytest.mark.parametrize("name", SIZED)
def test_increments_may_have_fewer_leading_dimensions(name: str):
    case = READOUT_CASES[name]
    scores, values, score_delta, value_delta = batch_of(case)
    fewer = [scores, values, score_delta[0, 0], value_delta[0, 0]]
    full = [
        scores,
        values,
        score_delta[0, 0].expand_as(score_delta).contiguous(),
        value_delta[0, 0].expand_as(value_delta).contiguous(),
    ]
    assert_agree(case, evaluate(case, fewer), evaluate(case, full))


@pytest.mark.parametrize("name", ["finite_response", "interaction"])
def test_score_and_value_increments_broadcast_with_each_other(name: str):
    case = READOUT_CASES[name]
    scores, values, score_delta, value_delta = batch_of(case, lead=(HEADS,))
    candidates = torch.stack([score_delta, -score_delta, 2 * score_delta])
    whole = evaluate(case, [scores, values, candidates, value_delta[0]])
    for index in range(3):
        value_edit = value_delta[0].expand_as(value_delta).contiguous()
        single = evaluate(case, [scores, values, candidates[index], value_edit])
        assert_agree(case, {part: x[index] for part, x in whole.items()}, single)


def test_prepared_groups_take_further_leading_dimensions_for_strengths():
    scores, values, score_delta, value_delta = batch_of(READOUT_CASES["finite_response"])
    groups = fc.prepare(fc.freeze(fc.track(scores), fc.track(values)), GROUPS)
    score_edit, value_edit = score_delta[..., GROUPS], value_delta[..., GROUPS, :]
    strengths = torch.tensor([0.0, 1.0, -3.0]).double()
    lifted = groups.response(
        fc.track(strengths.reshape(3, 1, 1, 1, 1) * score_edit),
        fc.track(strengths.reshape(3, 1, 1, 1, 1, 1) * value_edit),
    )
    assert lifted.shape == (3, *BATCH, len(GROUPS), WIDTH)
    for index, strength in enumerate(strengths):
        single = groups.response(fc.track(strength * score_edit), fc.track(strength * value_edit))
        assert_agree(READOUT_CASES["prepared response"], {"": lifted[index]}, {"": single})


def test_a_mask_may_have_further_leading_dimensions():
    scores, values = draw(KEYS), draw(KEYS, WIDTH, seed=1)
    masks = torch.tensor([[True] * KEYS, [True, False, True, False, True], [False] * 4 + [True]])
    readout = fc.freeze(scores, values, mask=masks)
    assert readout.batch == (3,)
    for index, mask in enumerate(masks):
        attended = fc.freeze(fc.track(scores[mask]), fc.track(values[mask]))
        whole = fc.freeze(fc.track(scores), fc.track(values), mask=mask)
        case = READOUT_CASES["output"]
        assert_agree(case, {"": whole.output}, {"": attended.output})
        assert_agree(case, {"": fc.track(readout.output[index])}, {"": whole.output})
