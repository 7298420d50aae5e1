"""Weights below the normal numbers keep their digits, and sums of large weights do not cancel.

Each case lost more than half of its digits, most of them all, in an earlier form that kept to its bound.
"""

from typing import Any

import pytest
import torch

import finite_calculus as fc
from proofs.references import bank
from tests.helpers.accuracy import relative_error

DTYPES = [torch.float32, torch.float64]
# A probability without digits of its own, and values that make up for it.
FAR = {torch.float32: -95.0, torch.float64: -735.0}
HUGE = {torch.float32: 1e38, torch.float64: 1e307}
# A relative error of e^x comes from the rounding of x, at most 735 here, a few times over.
ROUNDINGS = 1 << 12
EDITS = {
    "finite_response": 2,
    "key_response": 1,
    "interaction": 2,
    "linear_response": 1,
    "quadratic_interaction": 2,
}


def error_of(name: str, dtype: torch.dtype, edits: int, *numbers: list[float]) -> float:
    """Relative error of a function of a bank of scores, values, score and value increments.

    The running bound is held to cover it.
    """
    scores, values, score_delta, value_delta = (torch.tensor(x, dtype=dtype) for x in numbers)
    inputs = scores, values.unsqueeze(-1), score_delta, value_delta.unsqueeze(-1)
    names = ("scores", "values", "score_delta", "value_delta")
    case: dict[str, Any] = dict(zip(names, inputs, strict=True)) | {"mask": [True] * len(scores)}
    result, tracked = (
        getattr(fc, name)(fc.freeze(*part[:2]), *part[2 : 2 + edits])
        for part in (inputs, [fc.track(x) for x in inputs])
    )
    error = relative_error(result, getattr(bank, name), **case)
    assert torch.equal(result, fc.value_of(tracked))
    size = float(result.double().abs().max())
    assert error * size <= float(fc.error_of(tracked).max()) * (1 + 1e-9)
    return error / torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("increment", [-3.0, 1e-6, 2.0])
@pytest.mark.parametrize("name", EDITS)
def test_a_faint_weight_keeps_its_digits_beside_huge_values(
    name: str, increment: float, dtype: torch.dtype
) -> None:
    huge, here = HUGE[dtype], [0.0, FAR[dtype], -1.0]
    values, increments, edits = [0.0, huge, 0.0], [0.0, increment, 0.0], [0.0, -0.3 * huge, 0.0]
    assert error_of(name, dtype, EDITS[name], here, values, increments, edits) <= ROUNDINGS


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_faint_weight_times_a_huge_increment_keeps_its_digits(dtype: torch.dtype) -> None:
    numbers = [0.0, FAR[dtype], -1.0], [0.0, 1.0, 0.0], [0.0, -0.5 * HUGE[dtype], 0.0], [0.0] * 3
    for name in ("linear_response", "softmax_remainder", "remainder_weights"):
        assert error_of(name, dtype, 1, *numbers) <= ROUNDINGS


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("increment", [60.0, 1e15, 1e30])
def test_a_remainder_is_exact_where_attention_goes_to_a_key_of_equal_value(
    increment: float, dtype: torch.dtype
) -> None:
    numbers = [0.0, -50.0, -69.0], [2.0, 2.0, 3.0], [0.0, increment, 0.0], [0.0] * 3
    assert error_of("softmax_remainder", dtype, 1, *numbers) <= ROUNDINGS


@pytest.mark.parametrize("dtype", DTYPES)
def test_value_edits_of_both_signs_of_the_largest_number_interact_finitely(
    dtype: torch.dtype,
) -> None:
    most = torch.finfo(dtype).max
    base = fc.freeze(torch.zeros(2, dtype=dtype), torch.zeros(2, 1, dtype=dtype))
    edits = torch.tensor([[most], [-most]], dtype=dtype)
    increments = torch.tensor([0.5, 0.0], dtype=dtype)
    for part in (
        fc.interaction(base, increments, edits),
        fc.decompose(base, increments, edits).interaction,
    ):
        # p' − p is ± tanh(1/4)/2.
        assert abs(float(part / most) - float(torch.tanh(torch.tensor(0.25)))) < 1e-6


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_light_group_beside_a_heavy_one_has_no_common_part(dtype: torch.dtype) -> None:
    scores = torch.tensor([-29.0, -29.0, 0.0], dtype=dtype)
    values = torch.tensor([[-1e-5], [4e3], [3.6e-4]], dtype=dtype)
    groups = torch.tensor([[0, 1], [0, 2]])
    prepared = fc.prepare(fc.freeze(scores, values), groups)
    assert prepared.heavy is not None
    increments = torch.tensor([[15.0, -8e-9], [-0.1, 0.1]], dtype=dtype)
    responses = prepared.response(increments)
    for number, keys in enumerate(groups):
        spread = torch.zeros(3, dtype=dtype).index_copy(0, keys, increments[number])
        parts = {"scores": scores, "values": values, "score_delta": spread}
        nothing = torch.zeros_like(values)
        mask = [True] * 3
        error = relative_error(
            responses[number], bank.finite_response, mask=mask, value_delta=nothing, **parts
        )
        assert error <= 64 * torch.finfo(dtype).eps
