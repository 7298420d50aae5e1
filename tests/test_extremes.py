"""Numbers at the ends of their range: what is finite in the reals is finite here, and right."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from proofs.references import bank as of_bank
from proofs.references.numbers import distance, prove

DTYPES = [torch.float64, torch.float32]


def most(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).max


def bank(dtype: torch.dtype, dominance: float) -> dict[str, Tensor]:
    """Values of either sign at the largest number, so that their differences are beyond it."""
    half = most(dtype) / 2
    values = [[most(dtype), -1.0], [-most(dtype), 2.0], [half, half], [-half, 1e-3], [1.0, -half]]
    return {
        "scores": torch.tensor([dominance, 0.1, -0.4, 0.3, 0.2], dtype=dtype),
        "values": torch.tensor(values, dtype=dtype),
        "score_delta": torch.tensor([-0.2, 0.1, 0.05, -0.1, 0.0], dtype=dtype),
        "second_delta": torch.tensor([0.05, -0.1, 0.1, 0.2, -0.1], dtype=dtype),
        "linear_delta": torch.tensor([-0.1, 0.1, 0.05, -0.1, 0.2], dtype=dtype),
        "mask": torch.ones(5, dtype=torch.bool),
        "removed": torch.eye(5, dtype=torch.bool),
    }


def frozen(case: dict[str, Tensor]) -> fc.Readout:
    return fc.freeze(case["scores"], case["values"])


# What is linear in the values, so that it is finite although differences of values are not.
FUNCTIONS: dict[str, Callable[[dict[str, Tensor]], Tensor]] = {
    "output": lambda case: frozen(case).output,
    "finite_response": lambda case: fc.finite_response(frozen(case), case["score_delta"]),
    "key_response": lambda case: fc.key_response(frozen(case), case["score_delta"]),
    "positional_jacobian": lambda case: fc.positional_jacobian(frozen(case), case["linear_delta"]),
    "band_interaction": lambda case: fc.band_interaction(
        frozen(case), case["score_delta"], case["second_delta"]
    ),
    "mixed_second_derivative": lambda case: fc.mixed_second_derivative(
        frozen(case), case["score_delta"], case["second_delta"]
    ),
    "deletion_response": lambda case: fc.deletion_response(frozen(case), case["removed"]),
    "deletion_jacobian": lambda case: fc.deletion_jacobian(frozen(case), case["removed"]),
    "restoration_response": lambda case: fc.prepare_singles(frozen(case)).response(
        case["score_delta"]
    ),
}


@pytest.mark.parametrize("dominance", [0.0, 3.0, 30.0])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_at_the_largest_number_give_finite_results(
    name: str, dtype: torch.dtype, dominance: float
):
    case = bank(dtype, dominance)
    result = FUNCTIONS[name](case).flatten()
    arguments = {key: item.tolist() for key, item in case.items()}
    arguments["value_delta"] = [[0.0, 0.0]] * 5
    exact, _ = prove(getattr(of_bank, name), arguments)
    # Weights of order one, each within a few roundings, on five values up to the largest number.
    allowed = 16 * torch.finfo(dtype).eps * most(dtype)
    for computed, ball in zip(result.tolist(), exact, strict=True):
        if abs(float(ball.mid())) <= most(dtype):
            assert distance(computed, ball) <= allowed
        else:
            assert abs(computed) == torch.inf


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("keys", [1, 2, 3, 7, 49, 93])
def test_equal_values_at_the_largest_number_are_their_own_readout(keys: int, dtype: torch.dtype):
    scores = torch.linspace(-1, 1, keys, dtype=dtype)
    values = torch.full((keys, 1), most(dtype), dtype=dtype)
    readout = fc.freeze(scores, values)
    assert abs(float(readout.output) / most(dtype) - 1) <= keys * torch.finfo(dtype).eps
    assert not readout.offsets.any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_lowest_score_is_attended_beside_a_masked_one(dtype: torch.dtype):
    lowest = torch.finfo(dtype).min
    scores = torch.tensor([7.0, lowest, lowest], dtype=dtype)
    mask = torch.tensor([False, True, True])
    readout = fc.freeze(scores, torch.tensor([[5.0], [1.0], [2.0]], dtype=dtype), mask=mask)
    assert readout.probs.tolist() == [0.0, 0.5, 0.5]
    assert readout.output.tolist() == [1.5]
    alone = fc.freeze(scores[:2], torch.ones(2, 1, dtype=dtype), mask=mask[:2])
    assert alone.output.tolist() == [1.0]
    assert alone.reference.tolist() == [1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_scores_further_apart_than_the_largest_number_have_finite_logarithms(dtype: torch.dtype):
    scores = torch.tensor([most(dtype), -most(dtype)], dtype=dtype)
    readout = fc.freeze(scores, torch.tensor([[1.0], [2.0]], dtype=dtype))
    assert readout.log_probs.tolist() == [0.0, -most(dtype)]
    assert readout.output.tolist() == [1.0]


def test_a_divergence_has_no_squares_that_overflow():
    readout = fc.freeze(torch.tensor([1.0, 0.0, 0.5]), torch.ones(3, 1))
    share = float(torch.softmax(torch.tensor([1.0, 0.0, 0.5]).double(), -1)[0])
    kl = float(fc.divergence(readout, torch.tensor([-1e20, 0.0, 0.0])))
    # KL = p·1e20 but for terms of order one; a few roundings.
    assert abs(kl / (share * 1e20) - 1) <= 8 * torch.finfo(torch.float32).eps


@pytest.mark.parametrize("size", [1e9, 1e15, 1e300])
def test_the_coupling_of_bands_is_that_of_a_deletion_as_increments_grow(size: float):
    scores = torch.tensor([1.0, 0.0, 0.5, -0.3], dtype=torch.float64)
    values = torch.tensor([[1.0], [3.0], [-2.0], [0.5]], dtype=torch.float64)
    removing = torch.tensor([0.0, size, size, size], dtype=torch.float64)
    second = torch.tensor([0.3, 0.4, -0.7, 0.1], dtype=torch.float64)
    interaction = fc.band_interaction(fc.freeze(scores, values), removing, second)
    without = fc.freeze(scores[1:], values[1:])
    expected = fc.key_response(without, second[1:])
    expected = expected - fc.key_response(fc.freeze(scores, values), second)
    # Both are differences of responses of order one.
    assert abs(float(interaction - expected)) <= 16 * torch.finfo(torch.float64).eps
