"""torch.func.grad, jacrev and jvp agree with autograd and with differences; what has none says so."""

import math
import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.func import grad, jacfwd, jacrev, jvp, vmap

import finite_calculus as fc
from tests.autograd.functions import leaf
from tests.transforms.case import NO_DERIVATIVE, Case, floating_parts
from tests.transforms.table import PROJECTION, TABLE

# Torch's own, in forward mode.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")

EPS = torch.finfo(torch.float64).eps
# Derivatives are sums of some dozens of products, in another order each way.
UNITS = 256


def cases(transform: str) -> list:
    return [
        pytest.param(case, id=name) for name, case in TABLE.items() if transform not in case.refused
    ]


def refused(transform: str) -> list:
    return [
        pytest.param(case, id=name) for name, case in TABLE.items() if transform in case.refused
    ]


def function_of(case: Case) -> Callable[..., tuple[Tensor, ...]]:
    return lambda *arguments: floating_parts(case.call(*arguments))


def scalar_of(case: Case) -> Callable[..., Tensor]:
    """All results in one number, with unequal weights: probability changes would sum to zero."""

    def function(*arguments: Tensor) -> Tensor:
        flat = torch.cat([part.flatten() for part in function_of(case)(*arguments)])
        return (flat * torch.arange(1, len(flat) + 1, dtype=flat.dtype).cos()).sum()

    return function


def every(case: Case) -> tuple[int, ...]:
    return tuple(range(len(case.shapes)))


def gradient(result: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    if not result.requires_grad:
        return [torch.zeros_like(x) for x in leaves]
    parts = torch.autograd.grad(result, leaves, retain_graph=True, allow_unused=True)
    return [
        torch.zeros_like(x) if part is None else part for x, part in zip(leaves, parts, strict=True)
    ]


def jacobian(case: Case) -> list[list[Tensor]]:
    """By autograd, one entry of one result at a time: part, argument, (entries of part, argument)."""
    leaves = [leaf(x) for x in case.rows()]
    rows = [
        [gradient(entry, leaves) for entry in part.flatten()] for part in function_of(case)(*leaves)
    ]
    return [[torch.stack([row[k] for row in part]) for k in range(len(leaves))] for part in rows]


def assert_near(result: Tensor, expected: Tensor, scale: float) -> None:
    assert result.shape == expected.shape
    slack = UNITS * EPS * max(scale, 1.0)
    assert float((result - expected).abs().max()) <= slack


# What is constant nearly everywhere, or carries no gradient by design.
FLAT = {"restore_greedily"}


@pytest.mark.parametrize("case", cases("grad"))
def test_grad_is_that_of_autograd(case: Case):
    rows = case.rows()
    result = grad(scalar_of(case), argnums=every(case))(*rows)
    leaves = [leaf(x) for x in rows]
    expected = gradient(scalar_of(case)(*leaves), leaves)
    scale = max(float(part.abs().max()) for part in expected)
    flat = any(case is TABLE[name] for name in FLAT)
    assert (scale == 0) == flat
    assert math.isfinite(scale)
    for part, other in zip(result, expected, strict=True):
        assert_near(part, other, scale)


@pytest.mark.parametrize("case", cases("jacrev"))
def test_jacrev_is_the_jacobian_of_autograd(case: Case):
    result = jacrev(function_of(case), argnums=every(case))(*case.rows())
    expected = jacobian(case)
    for part, others in zip(result, expected, strict=True):
        for block, other in zip(part, others, strict=True):
            scale = float(other.abs().max())
            assert_near(block.reshape(other.shape), other, scale)


@pytest.mark.parametrize("case", cases("jvp"))
def test_jvp_is_the_jacobian_times_the_tangent(case: Case):
    rows, tangents = case.rows(), [x.cos() for x in case.rows()]
    values, result, *_ = jvp(function_of(case), tuple(rows), tuple(tangents))
    for part, other in zip(values, function_of(case)(*rows), strict=True):
        assert_near(part, other, float(other.abs().max()))
    for part, blocks in zip(result, jacobian(case), strict=True):
        flat = torch.cat([block.reshape(len(block), -1) for block in blocks], -1)
        terms = flat * torch.cat([tangent.flatten() for tangent in tangents])
        assert_near(part.flatten(), terms.sum(-1), float(terms.abs().sum(-1).max()))


# Where a difference quotient across the steps of a rounding, or of a choice, says nothing.
STEPPED = {"quantise", "restore_greedily"}


@pytest.mark.parametrize(
    "name",
    [name for name, case in TABLE.items() if "jvp" not in case.refused and name not in STEPPED],
)
def test_jvp_agrees_with_differences(name: str):
    case = TABLE[name]
    leaves = [leaf(x) for x in case.rows()]
    assert gradcheck(function_of(case), leaves, check_forward_ad=True, check_backward_ad=False)


@pytest.mark.parametrize(
    "case", [param for param in cases("grad") if "vmap" not in param.values[0].refused]
)
def test_gradients_of_each_row_are_those_of_a_loop(case: Case):
    rows = case.rows(3)
    result = vmap(grad(scalar_of(case), argnums=every(case)))(*rows)
    for index in range(3):
        leaves = [leaf(x[index]) for x in rows]
        expected = gradient(scalar_of(case)(*leaves), leaves)
        scale = max(float(part.abs().max()) for part in expected)
        for part, other in zip(result, expected, strict=True):
            assert_near(part[index], other, scale)


@pytest.mark.parametrize(
    "name", ["phi1", "phi2", "finite_response", "remainder_weights", "PreparedGroups.response"]
)
def test_second_derivatives_are_the_same_in_both_modes(name: str):
    case = TABLE[name]
    rows = case.rows()
    first = jacfwd(jacrev(scalar_of(case)))(*rows)
    second = jacrev(jacfwd(scalar_of(case)))(*rows)
    x = leaf(rows[0])
    (slope,) = torch.autograd.grad(scalar_of(case)(x, *rows[1:]), x, create_graph=True)
    expected = torch.stack([torch.autograd.grad(s, x, retain_graph=True)[0] for s in slope])
    scale = float(expected.abs().max())
    assert scale > 0
    assert_near(first, expected, scale)
    assert_near(second, expected, scale)


def transformed(case: Case, transform: str) -> object:
    rows = tuple(case.rows())
    if transform == "grad":
        return grad(scalar_of(case))(*rows)
    if transform == "jacrev":
        return jacrev(function_of(case))(*rows)
    return jvp(function_of(case), rows, tuple(map(torch.ones_like, rows)))


@pytest.mark.parametrize(
    ("transform", "case"),
    [
        pytest.param(transform, *param.values, id=f"{transform}, {param.id}")
        for transform in ("grad", "jacrev", "jvp")
        for param in refused(transform)
    ],
)
def test_what_has_no_derivative_is_refused_or_holds_no_number_to_derive(transform: str, case: Case):
    reason = case.refused[transform]
    if reason == NO_DERIVATIVE:
        assert floating_parts(case.call(*case.rows())) == ()
        return
    with pytest.raises(RuntimeError, match=re.escape(reason)) as caught:
        transformed(case, transform)
    assert "tensor.detach()" in str(caught.value)


def test_detached_tensors_may_be_tracked_inside_a_derivative():
    def function(x: Tensor) -> Tensor:
        bound = fc.error_of(fc.track(x.detach()) / 3)
        return (x * x).sum() + bound.sum()

    x = TABLE["phi1"].rows()[0]
    assert torch.equal(grad(function)(x), 2 * x)
    assert torch.equal(jvp(function, (x,), (x,))[1], (2 * x * x).sum())


def test_choices_may_be_made_inside_a_derivative():
    scores, values = TABLE["select_evictions"].rows()

    def function(scores: Tensor) -> Tensor:
        readout = fc.freeze(scores, values)
        plan = fc.select_evictions(readout, torch.eye(5).bool(), PROJECTION, 1.0)
        removed = torch.zeros(1, 5, dtype=torch.bool)
        removed[:, list(plan.evicted)] = True
        return fc.deletion_response(readout, removed).cos().sum()

    x = leaf(scores)
    (expected,) = torch.autograd.grad(function(x), x)
    assert torch.equal(grad(function)(scores), expected)
    assert int(expected.count_nonzero()) > 0
