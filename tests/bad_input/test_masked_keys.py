"""NaN and infinity at masked keys are no mistake: they are ignored."""

import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from tests.bad_input.edits import SCORE_EDITS, VALUE_EDITS
from tests.bad_input.inputs import INF, KEYS, MODEL, NAN, WIDTH, holding
from tests.helpers.tensors import draw


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_nan_and_infinity_are_ignored_at_masked_keys(bad: float):
    mask = torch.tensor([True, True, False, True, False])
    clean_edit, clean_values = draw(KEYS), draw(KEYS, WIDTH)
    readout = fc.freeze(draw(KEYS), draw(KEYS, WIDTH), mask=mask)
    spoiled = fc.freeze(
        torch.where(mask, draw(KEYS), bad),
        torch.where(mask.unsqueeze(-1), draw(KEYS, WIDTH), bad),
        mask=mask,
    )
    edit = torch.where(mask, clean_edit, bad)
    values = torch.where(mask.unsqueeze(-1), clean_values, bad)
    assert torch.equal(spoiled.output, readout.output)
    for name, call in SCORE_EDITS.items():
        assert_same(call(spoiled, edit), call(readout, clean_edit), name)
    for name, call in VALUE_EDITS.items():
        if name != "restoration_response":  # which refuses masked keys
            assert_same(call(spoiled, values), call(readout, clean_values), name)


def assert_same(result: object, expected: object, name: str) -> None:
    """Equal to the last bit, and finite."""
    if isinstance(result, Tensor) and isinstance(expected, Tensor):
        assert torch.equal(result, expected), name
        assert bool(torch.isfinite(result).all()), name
        return
    assert type(result) is type(expected)
    assert vars(result)
    for field, part in vars(result).items():
        assert_same(part, getattr(expected, field), f"{name}.{field}")


def test_assert_same_refuses_a_last_bit_and_a_nan():
    x = draw(3)
    with pytest.raises(AssertionError):
        assert_same(x, torch.nextafter(x, x.new_tensor(INF)), "bit")
    with pytest.raises(AssertionError):
        assert_same(holding(NAN, 3), holding(NAN, 3), "nan")


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_effective_weights_ignore_nan_and_infinity_at_masked_keys(bad: float):
    mask = torch.tensor([True, True, False, True, False])
    query, features, values = draw(MODEL), draw(KEYS, MODEL), draw(KEYS, WIDTH)
    clean = fc.effective_weights(query, features, values, mask=mask)
    spoiled = fc.effective_weights(
        query,
        torch.where(mask.unsqueeze(-1), features, bad),
        torch.where(mask.unsqueeze(-1), values, bad),
        mask=mask,
    )
    assert_same(spoiled.matrix, clean.matrix, "matrix")
    assert_same(spoiled.output, clean.output, "output")
    assert_same(spoiled.coefficients, clean.coefficients, "coefficients")
