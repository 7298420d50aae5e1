"""The switches of single keys and of groups: on both sides the project's promise holds."""

import math
import re
from dataclasses import replace

import pytest
import torch

import finite_calculus as fc
from finite_calculus import sparse
from proofs.references import bank
from tests.helpers.accuracy import PROMISE, relative_error
from tests.helpers.tensors import draw

KEYS = 8


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_single_keys_use_the_quotient_as_far_as_it_is_as_good_as_it_gets(dtype: torch.dtype):
    singles = fc.prepare_singles(fc.freeze(torch.zeros(3, dtype=dtype), torch.ones(3, 1).to(dtype)))
    reach = below(-math.log(torch.finfo(dtype).eps), dtype)
    beyond = next_float32(reach) if dtype is torch.float32 else math.nextafter(reach, math.inf)
    accepted = [[0.0, 0.0, 0.0], [-1e4, -1e4, -1e4], [reach, reach, reach], [-1e4], [reach]]
    refused = [
        [0.0, 0.0, beyond],
        [0.0, math.nan, 0.0],
        [math.inf, 0.0, 0.0],
        [0.0, 0.0],
        [beyond],
        [],
    ]
    for increments in accepted:
        assert singles._quotient_suffices(torch.tensor(increments, dtype=dtype)) is True
        assert (
            singles._quotient_suffices(torch.tensor([[increments], [increments]], dtype=dtype))
            is True
        )
    for increments in refused:
        assert singles._quotient_suffices(torch.tensor(increments, dtype=dtype)) is False
    zeros = torch.zeros(3, dtype=dtype)
    assert singles._quotient_suffices(zeros.requires_grad_()) is True
    assert singles._quotient_suffices(torch.zeros(0, 3, dtype=dtype)) is False
    assert replace(singles, direct=False)._quotient_suffices(zeros) is False
    other = torch.float64 if dtype is torch.float32 else torch.float32
    assert singles._quotient_suffices(zeros.to(other)) is False


def below(x: float, dtype: torch.dtype) -> float:
    """The largest number of a type that is not above x."""
    near = torch.tensor(x, dtype=dtype)
    low = near if float(near) <= x else torch.nextafter(near, near - 1)
    return float(low)


def next_float32(x: float) -> float:
    near = torch.tensor(x)
    return float(torch.nextafter(near, near + 1))


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("lead", [0.0, 30.0, 690.0])
@pytest.mark.parametrize("size", [0.5, 60.0, 5000.0])
def test_an_increment_of_single_keys_may_be_given_once_for_all(lead: float, size: float):
    scores, values = draw(2, 3, KEYS, seed=1), draw(2, 3, KEYS, 2, seed=2)
    scores[..., 3] += lead
    singles = fc.prepare_singles(fc.freeze(scores, values))
    for shape in ((1,), (3, 1), (2, 1, 1), (4, 1, 1, 1), (3, KEYS)):
        shared = size * draw(*shape, seed=3)
        whole = shared.expand(torch.broadcast_shapes(shape, scores.shape))
        for edit in (None, draw(KEYS, 2, seed=4)):
            responses = singles.response(shared, edit)
            assert responses.shape == (*whole.shape, 2)
            assert torch.equal(responses, singles.response(whole.contiguous(), edit))


def groups_of(members: int, dtype: torch.dtype) -> fc.PreparedGroups:
    """Two groups among eight keys of equal probability."""
    readout = fc.freeze(torch.zeros(KEYS, dtype=dtype), torch.ones(KEYS, 1, dtype=dtype))
    return fc.prepare(readout, torch.stack([torch.arange(members), torch.arange(members) + 1]))


def test_a_group_is_heavy_if_it_holds_more_than_half_of_the_mass():
    assert groups_of(4, torch.float64).heavy is None  # half of it
    heavy = groups_of(5, torch.float64).heavy
    assert heavy is not None
    assert heavy.place.tolist() == [2, 3]
    readout = fc.freeze(torch.tensor([0.0, 0, 1, 0, 0, 0]).double(), draw(6, 2, seed=0))
    mixed = fc.prepare(readout, torch.tensor([[0, 1, 3], [2, 3, 4], [3, 4, 5]]))
    assert mixed.heavy is not None
    assert mixed.heavy.place.tolist() == [0, 3, 2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("members", [2, 5])
def test_groups_use_the_quotient_as_far_as_it_is_as_good_as_it_gets(
    members: int, dtype: torch.dtype
):
    groups, heavy = groups_of(members, dtype), members > KEYS / 2
    assert (groups.heavy is not None) == heavy
    reach = below(-math.log(torch.finfo(dtype).eps), dtype)
    beyond = next_float32(reach) if dtype is torch.float32 else math.nextafter(reach, math.inf)
    zeros, edit = torch.zeros(2, members, dtype=dtype), torch.zeros(2, members, 1, dtype=dtype)
    for increment, expected in (
        (0.0, True),
        (reach, True),
        (beyond, False),
        (-reach, True),
        (-beyond, not heavy),
        (-1e4, not heavy),
        (math.inf, False),
        (-math.inf, False),
        (math.nan, False),
    ):
        score_delta = zeros.clone()
        score_delta[1, 0] = increment
        assert groups._quotient_suffices(score_delta, None) is expected
        assert groups._quotient_suffices(score_delta.expand(3, 2, members), edit) is expected
        assert groups._quotient_suffices(torch.full_like(zeros, increment), None) is expected
    assert (
        groups._quotient_suffices(zeros.clone().requires_grad_(), edit.clone().requires_grad_())
        is True
    )
    assert groups._quotient_suffices(zeros, edit.expand(3, 2, members, 1)) is True
    other = torch.float64 if dtype is torch.float32 else torch.float32
    for score_delta in (zeros[0], zeros[:1], zeros[:, :1], zeros.to(other), zeros.expand(0, 2, -1)):
        assert groups._quotient_suffices(score_delta, None) is False
    for value_delta in (edit[0], edit[:1], edit.to(other), edit + math.nan, edit - math.inf):
        assert groups._quotient_suffices(zeros, value_delta) is False
    assert replace(groups, direct=False)._quotient_suffices(zeros, None) is False


def test_heavy_groups_lose_no_digits_to_a_common_part_of_their_increments():
    scores, values = draw(2, KEYS, seed=1) - 30, draw(2, KEYS, 3, seed=2)
    scores[:, :2] = torch.tensor([[0.0, 0.3], [0.4, 0.1]])
    members = torch.tensor([[0, 1, 2], [1, 0, 3]])
    score_delta = torch.tensor([[5.0] * 3, [-7.0] * 3]).double().expand(2, 2, 3)
    responses = fc.prepare(fc.freeze(scores, values), members).response(score_delta)
    for row in range(2):
        for candidate, keys in enumerate(members):
            spread = torch.zeros(KEYS).double().index_copy(0, keys, score_delta[row, candidate])
            case = {"scores": scores[row], "values": values[row], "score_delta": spread}
            nothing = torch.zeros(KEYS, 3).double()
            error = relative_error(
                responses[row, candidate],
                bank.finite_response,
                mask=[True] * KEYS,
                value_delta=nothing,
                **case,
            )
            assert error <= PROMISE


def test_groups_that_hold_everything_have_finite_gradients():
    scores, values = draw(3, seed=1).requires_grad_(), draw(3, 2, seed=2)
    groups = fc.prepare(fc.freeze(scores, values), torch.tensor([[0, 1, 2], [2, 1, 0]]))
    result = groups.divergence(draw(2, 3, seed=3)) + groups.total_variation(draw(2, 3, seed=4))
    (gradient,) = torch.autograd.grad(result.sum(), scores)
    assert bool(torch.isfinite(gradient).all())
    assert bool(gradient.any())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_single_keys_are_divided_by_their_rest_while_that_has_all_its_digits(dtype: torch.dtype):
    info = torch.finfo(dtype)
    readout = fc.freeze(torch.tensor([0.0, -1.0], dtype=dtype), torch.ones(2, 1, dtype=dtype))
    least = info.smallest_normal / info.eps
    for rest, expected in ((least, True), (least * (1 - info.eps), False), (least / 2, False)):
        probs = torch.tensor([1.0, rest], dtype=dtype)
        assert fc.prepare_singles(replace(readout, probs=probs)).direct is expected


def test_single_keys_are_deleted_if_another_is_left():
    scores, values = draw(2, 3, seed=1), draw(2, 3, 2, seed=2)
    two = torch.tensor([[True, False, True], [True, True, False]])
    deletions = fc.prepare_singles(fc.freeze(scores, values, mask=two)).deletion()
    for row, mask in enumerate(two):
        first, second = values[row, mask]
        alone = fc.prepare_singles(fc.freeze(scores[row, mask], torch.stack([first, second])))
        assert torch.equal(deletions[row, mask], alone.deletion())
    one = torch.tensor([[True, True, True], [False, True, False]])
    for mask in (one, one[:, :2], one.flip(0)):
        size = mask.shape[-1]
        singles = fc.prepare_singles(fc.freeze(scores[:, :size], values[:, :size], mask=mask))
        with pytest.raises(ValueError, match="`readout` must leave at least one attended key"):
            singles.deletion()
    with pytest.raises(ValueError, match="`readout` must leave at least one attended key"):
        fc.prepare_singles(fc.freeze(scores[:, :1], values[:, :1])).deletion()


def test_members_that_are_not_attended_leave_the_quotient_and_groups_need_one_that_is():
    whole, part = torch.ones(2, 3, 2, dtype=torch.bool), torch.ones(2, 3, 2, dtype=torch.bool)
    part[0, 1, 0] = part[1, 2, 1] = False
    assert sparse.require_attended("groups", None) is True
    assert sparse.require_attended("groups", whole) is True
    assert sparse.require_attended("groups", part) is False
    part[0, 1] = False
    with pytest.raises(ValueError, match="`groups` must each contain an attended key"):
        sparse.require_attended("groups", part)


def test_a_group_with_half_of_the_mass_stays_light_beside_a_heavy_one():
    prepared = groups_of(5, torch.float64)
    halves = replace(prepared, rest=torch.tensor([[0.5], [0.5 - 2.0**-54]], dtype=torch.float64))
    heavy = sparse._with_rest(halves).heavy
    assert heavy is not None
    assert heavy.place.tolist() == [0, 2]


@pytest.mark.parametrize("row", [[0, 1, 1], [1, 0, 1], [2, 2, 0], [0, 3, 0]])
def test_a_repeated_member_is_found_wherever_it_stands(row: list[int]):
    readout = fc.freeze(draw(KEYS, seed=1), draw(KEYS, 2, seed=2))
    with pytest.raises(ValueError, match="distinct keys in every row"):
        fc.prepare(readout, torch.tensor([[0, 1, 2], row]))


@pytest.mark.usefixtures("unchecked_shapes")
def test_increments_of_groups_must_be_tensors():
    with pytest.raises(TypeError, match=re.escape("`score_delta` must be a torch.Tensor")):
        groups_of(2, torch.float64).divergence([0.0, 1.0])  # type: ignore[arg-type]
