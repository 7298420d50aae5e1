"""Comparing two evaluations of one function.

Torch may sum in another order for another layout, so they are compared within the sum of their running
error bounds (`finite_calculus.rounding`); where only exactly rounded operations occur, bit by bit.
"""

from typing import Any, Protocol

import torch
from torch import Tensor

import finite_calculus as fc
from tests.batching.cases import BATCH, Case
from tests.helpers.tensors import draw


class Comparison(Protocol):
    """How two evaluations are compared: see `Case.units`."""

    @property
    def units(self) -> int | None: ...


def parts_of(result: Any) -> dict[str, Tensor]:
    """The tensors of a result, by name."""
    return {"": result} if isinstance(result, Tensor) else dict(vars(result))


def evaluate(case: Case, inputs: list[Tensor]) -> dict[str, Tensor]:
    """The parts of a result, tracked where the case has error rules."""
    arguments = inputs if case.units is not None else [fc.track(x) for x in inputs]
    return parts_of(case.call(*arguments))


def assert_agree(case: Comparison, result: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Equal within the two error bounds, which must say something."""
    assert result.keys() == expected.keys()
    for name, one in result.items():
        other = expected[name]
        a, b = fc.value_of(one), fc.value_of(other)
        assert a.shape == b.shape, name
        assert a.dtype == b.dtype, name
        if case.units == 0:
            assert torch.equal(a, b), name
            continue
        eps, size = torch.finfo(a.dtype).eps, b.double().abs().amax().clamp(min=1)
        slack = fc.error_of(one) + fc.error_of(other)
        if case.units is not None:
            slack = case.units * eps * size
        worst = float(((a.double() - b.double()).abs() - slack).max())
        assert worst <= 0, f"{name} differs by {worst} more than rounding allows"
        # A bound of half the digits would let a wrong formula pass.
        assert float(torch.as_tensor(slack).max()) <= eps**0.5 * float(size), name


def batch_of(case: Case, *, lead: tuple[int, ...] = BATCH, dtype: torch.dtype = torch.float64):
    shapes = enumerate(case.shapes)
    return [draw(*lead, *shape, seed=seed).to(dtype) for seed, shape in shapes]
