"""What computes nothing costs nothing: errors go where their numbers go; a narrower type costs a rounding."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from finite_calculus import _structure_rules
from tests.helpers.exact_bounds import (
    F32,
    F64,
    INF,
    assert_bounds,
    both,
    each,
    errors_like,
    ulp,
)
from tests.helpers.tensors import draw


@both
def test_absolute_values_keep_the_error(dtype):
    x, e = draw(20, dtype=dtype), errors_like(draw(20), 1)
    for call in (torch.abs, abs):
        result = call(fc.track(x, e))
        assert torch.equal(fc.value_of(result), call(x))
        assert torch.equal(fc.error_of(result), e)


@both
def test_clamping_keeps_the_error_but_for_what_surely_lies_beyond_a_limit(dtype):
    x, e = draw(200, dtype=dtype), errors_like(draw(200), 1)
    for lowest, highest in ((0.0, INF), (-0.5, 0.5), (-INF, 0.25)):
        result = fc.track(x, e).clamp(lowest, highest)
        assert torch.equal(fc.value_of(result), x.clamp(lowest, highest))
        beyond = 0
        for number, error, value, bound in each(x, e, fc.value_of(result), fc.error_of(result)):
            limits = [Fraction(limit) for limit in (lowest, highest) if math.isfinite(limit)]
            ends = [sorted([number + side * error, *limits]) for side in (-1, 1)]
            place = 0 if lowest == -INF else 1
            moved = max(abs(end[place] - value) for end in ends)
            # The ends are rounded outwards by a unit of the number and 2^-40 of the error.
            assert moved <= bound <= min(error, moved + error / 2**38 + abs(number) / 2**50)
            beyond += bound < error
        assert beyond > 20


def test_only_a_conversion_to_a_narrower_type_costs_a_rounding():
    x, e = draw(20), errors_like(draw(20), 1)
    narrow = x.float()
    for call in (Tensor.double, lambda x: x.to(F64)):
        for tracked in (fc.track(x, e), fc.track(narrow, e)):
            result = call(tracked)
            assert result.dtype is F64
            assert torch.equal(fc.error_of(result), e)
    assert torch.equal(fc.error_of(fc.track(narrow, e).float()), e)
    for call in (Tensor.float, lambda x: x.to(F32)):
        result = call(fc.track(x, e))
        assert torch.equal(fc.value_of(result), narrow)
        assert_bounds(result, [e + ulp(z, F32) / 2 for e, z in each(e, narrow)])


@both
def test_upper_is_the_next_number_above_the_bound(dtype):
    x, e = draw(200, dtype=dtype), errors_like(draw(200), 1)
    e[:50] = 0.0
    raised = fc.upper(fc.track(x, e))
    assert raised.dtype is dtype
    assert not isinstance(raised, fc.Tracked)
    for value, error, upper in zip(x.tolist(), e.tolist(), raised.tolist(), strict=True):
        needed = math.nextafter(value + error, INF)
        below = torch.nextafter(torch.tensor(upper, dtype=dtype), torch.tensor(-INF, dtype=dtype))
        assert below.item() < needed <= upper


INDEX = torch.tensor([[2, 0], [1, 1], [0, 2]])
STRUCTURAL: dict[str, Callable[[Tensor], Any]] = {
    "getitem": lambda x: x[1:, ::2],
    "reshape": lambda x: x.reshape(6, 2),
    "view": lambda x: x.view(2, 6),
    "expand": lambda x: x.expand(2, 3, 4),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x[:1].squeeze(0),
    "flatten": lambda x: x.flatten(),
    "movedim": lambda x: x.movedim(0, -1),
    "transpose": lambda x: x.transpose(0, 1),
    "take_along_dim": lambda x: torch.take_along_dim(x, INDEX, dim=-1),
    "gather": lambda x: x.gather(1, INDEX),
    "stack": lambda x: torch.stack([x, x[:1].expand(3, 4)], -2),
    "cat": lambda x: torch.cat([x, x[:, :2]], -1),
    "broadcast_to": lambda x: x.broadcast_to(2, 3, 4),
    "clone": lambda x: x.clone(),
    "contiguous": lambda x: x.mT.contiguous(),
    "flip": lambda x: x.flip(0),
    "index_select": lambda x: x.index_select(1, INDEX[0]),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "unbind": lambda x: x.unbind(0),
    "split": lambda x: x.split([1, 2]),
    "detach": lambda x: x.detach(),
    "mT": lambda x: x.mT,
}


@both
@pytest.mark.parametrize("name", STRUCTURAL)
def test_errors_go_where_their_numbers_go(name: str, dtype):
    x, e = draw(3, 4, dtype=dtype), errors_like(draw(3, 4), 1)
    move = STRUCTURAL[name]
    results, values, errors = move(fc.track(x, e)), move(x), move(e)
    assert type(results) is (fc.Tracked if isinstance(values, Tensor) else type(values))
    parts = (results, values, errors)
    columns = parts if isinstance(values, tuple) else ((part,) for part in parts)
    for result, value, error in zip(*columns, strict=True):
        assert torch.equal(fc.value_of(result), value)
        assert torch.equal(fc.error_of(result), error)


@both
def test_a_choice_takes_the_error_of_what_is_chosen(dtype):
    x, e = draw(3, 4, dtype=dtype), errors_like(draw(3, 4), 1)
    y, f = draw(3, 4, seed=2, dtype=dtype), errors_like(draw(3, 4), 3)
    chosen = draw(3, 4, seed=5) > 0
    for other, value, error in ((fc.track(y, f), y, f), (y, y, 0 * f), (2.5, 2.5, 0 * f)):
        result = torch.where(chosen, fc.track(x, e), other)
        assert torch.equal(fc.value_of(result), torch.where(chosen, x, value))
        assert torch.equal(fc.error_of(result), torch.where(chosen, e, error))
    assert torch.equal(fc.error_of(-fc.track(x, e)), e)
    assert torch.equal(fc.error_of(torch.neg(fc.track(x, e))), e)
    for blank in (torch.zeros_like, torch.ones_like):
        result = blank(fc.track(x, e))
        assert torch.equal(fc.value_of(result), blank(x))
        assert torch.equal(fc.error_of(result), 0 * e)
        assert isinstance(result, fc.Tracked)
        assert not isinstance(blank(fc.track(x, e), dtype=torch.bool), fc.Tracked)


DISCRETE: dict[str, Callable[[Tensor], Any]] = {
    "lt": lambda x: x < 0.1,
    "le": lambda x: x <= 0.1,
    "gt": lambda x: x > x.flip(0),
    "ge": lambda x: x >= x.flip(0),
    "eq": lambda x: x == x,
    "ne": lambda x: x != x,
    "isfinite": torch.isfinite,
    "isnan": torch.isnan,
    "all": lambda x: x.all(-1),
    "any": lambda x: x.any(),
    "argmax": lambda x: x.argmax(-1),
    "argmin": lambda x: x.argmin(-1, keepdim=True),
    "is_floating_point": lambda x: x.is_floating_point(),
    "is_complex": lambda x: x.is_complex(),
    "size": lambda x: x.size(),
    "dim": lambda x: x.dim(),
    "numel": lambda x: x.numel(),
    "len": len,
    "bool": lambda x: bool(x[0, 0]),
    "ndimension": lambda x: x.ndimension(),
    "stride": lambda x: x.stride(),
    "is_contiguous": lambda x: x.mT.is_contiguous(),
    "tolist": lambda x: x.tolist(),
    "item": lambda x: (x[0, 0].item(), float(x[0, 0]), int(x[0, 0])),
    "equal": lambda x: torch.equal(x, x.clone()),
    "repr": repr,
    "format": lambda x: f"{x[0, 0]:.3f}",
    "shape": lambda x: (x.shape, x.ndim, x.dtype, x.device),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_what_is_no_floating_tensor_carries_no_error(name: str):
    x, e = draw(3, 4), errors_like(draw(3, 4), 1)
    result, plain = DISCRETE[name](fc.track(x, e)), DISCRETE[name](x)
    assert not isinstance(result, fc.Tracked)
    assert type(result) is type(plain)
    assert torch.equal(result, plain) if isinstance(plain, Tensor) else result == plain


def test_every_operation_without_arithmetic_is_tried():
    named = {*STRUCTURAL, "neg", "zeros_like", "ones_like"} - {"mT"}
    assert named == _structure_rules.STRUCTURAL
    assert set(DISCRETE) - {"shape"} == _structure_rules.DISCRETE


def test_a_plain_tensor_has_no_error_and_a_tracked_one_no_graph():
    x = draw(3).requires_grad_()
    assert torch.equal(fc.error_of(x), torch.zeros(3, dtype=F64))
    assert torch.equal(fc.error_of(draw(3).float()), torch.zeros(3, dtype=F64))
    assert fc.error_of(fc.track(draw(3).float())).dtype is F64
    assert not fc.track(x).requires_grad
    assert type(fc.value_of(fc.track(x))) is Tensor
