"""Every function keeps more than half of the digits that its inputs determine, and what cancels does not."""

import dataclasses
import math

import numpy as np
import pytest

from finite_calculus import response
from proofs.numeric.comparison import DTYPES, CasePlace, run
from proofs.numeric.comparisons import COMPARISONS
from proofs.numeric.stability import Stability, allowed_bits, lost_bits, sample
from tests.helpers.seeded_errors import PLAIN, under_its_own_bound

CASES = 96
pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", COMPARISONS)
def test_more_than_half_of_the_digits_are_kept(name: str, dtype: str) -> None:
    stability = sample(COMPARISONS[name], dtype, CASES)
    assert stability.cases == CASES
    assert stability.holds, f"{name} in {dtype}: {stability}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["probability_change", "key_response"])
def test_a_cancelling_form_is_seen_although_its_own_bound_excuses_it(
    monkeypatch, name: str, dtype: str
) -> None:
    monkeypatch.setattr(response, "reallocate", under_its_own_bound)
    check = COMPARISONS[name]
    assert run(check, dtype, 40).violations == 0
    stability = sample(check, dtype, CASES)
    assert not stability.holds
    assert stability.worst is not None
    place = stability.worst
    batch = check.batch(dtype, place.seed, place.count)
    assert lost_bits(check, dtype, batch, seed=place.seed)[place.index] == stability.bits


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PLAIN)
def test_plain_forms_are_within_their_bounds_and_not_stable(name: str, dtype: str) -> None:
    plain = dataclasses.replace(COMPARISONS[name], compute=PLAIN[name])
    assert run(plain, dtype, 40).worst_over_bound <= 1
    assert not sample(plain, dtype, 4 * CASES).holds


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_relative_error_is_measured_in_bits(dtype: str) -> None:
    sound = COMPARISONS["augment"]  # which copies its inputs
    eps = float(np.finfo(DTYPES[dtype]).eps)
    for bits in (6, 16):
        worse = dataclasses.replace(
            sound, compute=lambda case, by=2**bits * eps: sound.compute(case) * (1 + by)
        )
        # Beside the half unit of the result stands what a rounding of the inputs does, no larger.
        assert bits <= sample(worse, dtype, CASES).bits <= bits + 1
    assert sample(sound, dtype, CASES) == Stability(allowed_bits(dtype), CASES, 0.0, None)


def test_samples_of_pieces_merge_into_the_sample_of_the_whole() -> None:
    whole, left, right = (Stability(26.0) for _ in range(3))
    for index, bits in enumerate((-3.0, 4.0, 30.0, 2.0)):
        whole.add(bits, CasePlace(0, 4, index))
        (left if index < 2 else right).add(bits, CasePlace(0, 4, index))
    assert (left.bits, left.worst, left.holds) == (4.0, CasePlace(0, 4, 1), True)
    left.merge(right)
    assert left == whole == Stability(26.0, 4, 30.0, CasePlace(0, 4, 2))
    assert not whole.holds


@pytest.mark.parametrize("bits", [math.inf, math.nan])
def test_a_result_that_is_no_number_is_not_stable(bits: float) -> None:
    stability = Stability(26.0)
    stability.add(bits, CasePlace(0, 1, 0))
    assert not stability.holds
