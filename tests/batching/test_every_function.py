"""Leading dimensions lift every function as a loop would, and nothing else of a tensor matters.

Not its layout in memory, nor whether its error is tracked.
"""

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from tests.batching.agreement import assert_agree, batch_of, evaluate, parts_of
from tests.batching.cases import BATCH, Case, every_case, unchecked


@unchecked
@every_case
def test_leading_dimensions_lift_as_a_loop_does(case: Case):
    inputs = batch_of(case)
    lifted = evaluate(case, inputs)
    for index in itertools.product(*map(range, BATCH)):
        single = evaluate(case, [x[index] for x in inputs])
        assert_agree(case, {name: part[index] for name, part in lifted.items()}, single)


@every_case
def test_a_batch_of_size_zero_gives_results_of_size_zero(case: Case):
    full = parts_of(case.call(*batch_of(case)))
    empty = parts_of(case.call(*batch_of(case, lead=(0, 3))))
    for name, part in empty.items():
        assert part.shape == (0, *full[name].shape[1:]), name
        assert part.dtype == full[name].dtype, name


def transposed(x: Tensor) -> Tensor:
    return x.transpose(0, -1).contiguous().transpose(0, -1)


def strided(x: Tensor) -> Tensor:
    spaced = torch.full((*x.shape[:-1], 2 * x.shape[-1]), torch.nan, dtype=x.dtype)
    spaced[..., ::2] = x
    return spaced[..., ::2]


@unchecked
@every_case
@pytest.mark.parametrize("layout", [transposed, strided])
def test_layout_in_memory_does_not_matter(case: Case, layout: Callable[[Tensor], Tensor]):
    inputs = batch_of(case)
    scattered = [layout(x) for x in inputs]
    assert any(not x.is_contiguous() for x in scattered)
    assert all(torch.equal(x, y) for x, y in zip(inputs, scattered, strict=True))
    assert_agree(case, evaluate(case, scattered), evaluate(case, inputs))


@unchecked
@every_case
def test_expanded_inputs_act_as_their_copies(case: Case):
    expanded = [x.expand(4, *x.shape[1:]) for x in batch_of(case, lead=(1,))]
    copies = [x.contiguous() for x in expanded]
    assert_agree(case, evaluate(case, expanded), evaluate(case, copies))


@every_case
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_results_have_the_dtype_of_the_inputs(case: Case, dtype: torch.dtype):
    expected = dtype if case.keeps_dtype else torch.int64
    for name, part in parts_of(case.call(*batch_of(case, dtype=dtype))).items():
        assert part.dtype == expected, name
        assert bool(torch.isfinite(part).all()), name


@unchecked
@every_case
def test_float32_agrees_with_float64_within_its_own_bound(case: Case):
    narrow = batch_of(case, dtype=torch.float32)
    low, high = evaluate(case, narrow), evaluate(case, [x.double() for x in narrow])
    eps = torch.finfo(torch.float32).eps
    for name, part in low.items():
        value, exact = fc.value_of(part).double(), fc.value_of(high[name]).double()
        slack = fc.error_of(part) + fc.error_of(high[name])
        if case.units is not None:
            # The inputs are exact in both; at most a unit of the result even where none is allowed
            # between two evaluations in one precision.
            slack = max(case.units, 4) * eps * exact.abs().amax().clamp(min=1)
        assert bool(((value - exact).abs() <= slack).all()), name


@unchecked
@every_case
def test_results_require_grad_exactly_if_an_input_does(case: Case):
    inputs = batch_of(case)
    assert not any(part.requires_grad for part in parts_of(case.call(*inputs)).values())
    leaves = [x.requires_grad_() for x in inputs]
    followed = [part.requires_grad for part in parts_of(case.call(*leaves)).values()]
    assert any(followed) == case.differentiable


@unchecked
@every_case
def test_inputs_are_never_modified(case: Case):
    inputs = batch_of(case)
    copies, versions = [x.clone() for x in inputs], [x._version for x in inputs]
    parts = parts_of(case.call(*inputs))
    assert parts
    assert all(torch.equal(x, y) for x, y in zip(inputs, copies, strict=True))
    assert [x._version for x in inputs] == versions


@unchecked
@every_case
def test_tracking_the_error_changes_no_bit_of_the_result(case: Case):
    inputs = batch_of(case)
    plain, tracked = parts_of(case.call(*inputs)), evaluate(case, inputs)
    for name, part in plain.items():
        assert torch.equal(fc.value_of(part), fc.value_of(tracked[name])), name
