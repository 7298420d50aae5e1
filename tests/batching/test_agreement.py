"""The comparison refuses what it should."""

import pytest
import torch

import finite_calculus as fc
from tests.batching.agreement import assert_agree
from tests.batching.cases import CASES
from tests.helpers.tensors import draw


def test_assert_agree_refuses_a_wrong_digit_a_wrong_shape_and_an_empty_bound():
    case, x = CASES["phi1"], fc.track(draw(3))
    assert_agree(case, {"": x}, {"": x})
    for other in (
        fc.track(fc.value_of(x) * (1 + 1e-15)),
        fc.track(draw(1, 3)),
        fc.track(draw(3).float()),
        fc.track(draw(3), torch.ones(3).double()),
        fc.track(draw(3) * float("nan")),
    ):
        with pytest.raises(AssertionError):
            assert_agree(case, {"": x}, {"": other})
