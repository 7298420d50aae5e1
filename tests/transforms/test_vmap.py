"""torch.func.vmap gives what a loop over the rows gives, whichever arguments are batched."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import vmap

import finite_calculus as fc
from tests.batching.agreement import assert_agree
from tests.transforms.case import Case, parts_of
from tests.transforms.table import PROJECTION, TABLE, cached

ROWS = 3


def evaluate(case: Case) -> Callable[..., dict[str, tuple[Tensor, Tensor]]]:
    """The case as a function to values and errors; these are zero where they are not tracked."""

    def function(*arguments: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
        tracked = case.units is None
        result = case.call(*(fc.track(x) if tracked else x for x in arguments))
        return {name: pair(part) for name, part in parts_of(result).items()}

    return function


def pair(part: Tensor) -> tuple[Tensor, Tensor]:
    return fc.value_of(part), fc.error_of(part)


def joined(pairs: dict[str, tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    """Values with their errors; integers, which have none, are compared as they are."""
    return {
        name: fc.track(value, error) if value.is_floating_point() else value.double()
        for name, (value, error) in pairs.items()
    }


def batched_arguments(count: int) -> list[tuple[int | None, ...]]:
    """All arguments batched, and each alone."""
    alone = [tuple(0 if i == k else None for i in range(count)) for k in range(count)]
    return [(0,) * count, *alone] if count > 1 else [(0,)]


COMBINATIONS = [
    pytest.param(case, dims, id=f"{name}, {''.join('-0'[d == 0] for d in dims)}")
    for name, case in TABLE.items()
    if "vmap" not in case.refused
    for dims in batched_arguments(len(case.shapes))
]


@pytest.mark.parametrize(("case", "dims"), COMBINATIONS)
def test_vmap_gives_what_a_loop_gives(case: Case, dims: tuple[int | None, ...]):
    arguments = [
        rows if dim == 0 else rows[0] for rows, dim in zip(case.rows(ROWS), dims, strict=True)
    ]
    plain = vmap(lambda *x: parts_of(case.call(*x)), in_dims=dims)(*arguments)
    result = vmap(evaluate(case), in_dims=dims)(*arguments)
    assert result
    for index in range(ROWS):
        row = [x[index] if dim == 0 else x for x, dim in zip(arguments, dims, strict=True)]
        single = {k: (v[index], e[index]) for k, (v, e) in result.items()}
        assert_agree(case, joined(single), joined(evaluate(case)(*row)))
        # Tracking an error changes no value.
        assert all(torch.equal(plain[k][index], v) for k, (v, _) in single.items())


REFUSED = {name: case for name, case in TABLE.items() if "vmap" in case.refused}


@pytest.mark.parametrize("name", REFUSED)
def test_what_vmap_cannot_do_is_refused_by_name(name: str):
    case = REFUSED[name]
    with pytest.raises(RuntimeError, match=case.refused["vmap"]) as caught:
        vmap(lambda *x: parts_of(case.call(*x)))(*case.rows(ROWS))
    assert "inside torch.func.vmap" in str(caught.value)
    assert "once for each row of a batch" in str(caught.value)


def test_random_scores_under_vmap_are_those_of_a_loop():
    case = cached(lambda c, w: c)
    rows = case.rows(ROWS)

    def scores(seed: int) -> Callable[..., Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return lambda *c: fc.restoration_scores(
            fc.CachePair(*c), PROJECTION, "random", generator=generator
        )

    lifted = vmap(scores(1), randomness="different")(*rows)
    single = scores(1)
    assert torch.equal(lifted, torch.stack([single(*row) for row in zip(*rows, strict=True)]))


@pytest.mark.parametrize("name", ["groups", "starts", "removed", "mask"])
def test_choices_of_keys_may_be_batched_too(name: str):
    scores, values, delta = (TABLE["freeze"].rows()[k] for k in (0, 1, 2))
    readout = fc.freeze(scores, values)
    calls: dict[str, tuple[Callable[[Tensor], Any], Tensor]] = {
        "groups": (
            lambda g: fc.prepare(readout, g).response(delta[g]),
            torch.tensor([[[0, 1], [2, 3]], [[4, 2], [1, 0]]]),
        ),
        "starts": (
            lambda s: fc.prepare_spans(fc.read_bank(scores, values), s, 2).deletion(),
            torch.tensor([[0, 1], [3, 2]]),
        ),
        "removed": (
            lambda r: fc.deletion_response(readout, r),
            torch.eye(5, dtype=torch.bool)[:4].reshape(2, 2, 5),
        ),
        "mask": (
            lambda m: fc.finite_response(fc.freeze(scores, values, mask=m), delta),
            torch.tensor([[True, True, False, True, True], [False, False, True, True, False]]),
        ),
    }
    call, rows = calls[name]
    result = vmap(call)(rows)
    # A few dozen roundings of quantities no larger than the values.
    slack = 64 * torch.finfo(torch.float64).eps * float(values.abs().max())
    for single, row in zip(result, rows, strict=True):
        assert float((single - call(row)).abs().max()) <= slack


def test_nested_batches_are_lifted_twice():
    case = TABLE["PreparedGroups.response"]
    rows = case.rows(2, ROWS)
    result = vmap(vmap(evaluate(case)))(*rows)
    for index in itertools.product(range(2), range(ROWS)):
        single = {k: (v[index], e[index]) for k, (v, e) in result.items()}
        assert_agree(case, joined(single), joined(evaluate(case)(*[x[index] for x in rows])))


def test_a_tensor_tracked_outside_is_refused_where_its_error_would_be_lost():
    tracked = fc.track(TABLE["freeze"].rows(ROWS)[0])
    calls: list[Callable[..., Any]] = [
        fc.phi1,
        fc.error_of,
        fc.track,
        lambda x: fc.freeze(x, x.unsqueeze(-1)).probs,
    ]
    for call in calls:
        with pytest.raises(TypeError, match="must be tracked inside a function"):
            vmap(call)(tracked)


def test_a_tracked_tensor_that_is_not_batched_keeps_its_error():
    fixed = fc.track(TABLE["phi1"].rows()[0], 1e-9)

    def function(x: Tensor) -> Tensor:
        return fc.error_of(fc.track(x) * fixed)

    x = TABLE["phi1"].rows(ROWS)[0]
    assert torch.equal(vmap(function)(x), torch.stack([function(row) for row in x]))
