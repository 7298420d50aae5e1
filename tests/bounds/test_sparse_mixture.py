"""Sparse evaluators refuse what is tracked in part, as the dense ones do: the rest would count as exact."""

import pytest
import torch

import finite_calculus as fc
from tests.helpers.tensors import draw

SCORES, VALUES = draw(6, seed=1), draw(6, 2, seed=2)
GROUPS, STARTS = torch.tensor([[1, 2], [4, 5]]), torch.tensor([0, 3])


def prepared(follow) -> dict[str, object]:
    """Every evaluator on inputs that are followed or not."""
    readout = fc.freeze(follow(SCORES), follow(VALUES))
    bank = fc.read_bank(follow(SCORES), follow(VALUES))
    return {
        "groups": fc.prepare(readout, GROUPS),
        "spans": fc.prepare_spans(bank, STARTS, 2),
        "singles": fc.prepare_singles(readout),
    }


@pytest.mark.parametrize("name", ["groups", "spans", "singles"])
def test_increments_are_tracked_if_and_only_if_the_readout_is(name: str) -> None:
    increments = draw(6, seed=3) if name == "singles" else draw(2, 2, seed=3)
    plain, tracked = prepared(lambda x: x)[name], prepared(fc.track)[name]
    with pytest.raises(TypeError, match="tracked"):
        plain.response(fc.track(increments))
    with pytest.raises(TypeError, match="tracked"):
        tracked.response(increments)
    result = tracked.response(fc.track(increments))
    assert float(fc.error_of(result).min()) > 0
    assert torch.equal(fc.value_of(result), plain.response(increments))


def test_a_bank_is_tracked_whole_or_not_at_all() -> None:
    with pytest.raises(TypeError, match="tracked"):
        fc.read_bank(fc.track(SCORES), VALUES)
