"""The parts of a reordering, by name."""

import pytest
import torch

import finite_calculus as fc


def test_each_part_is_the_difference_its_name_says():
    original, moved, rewritten, reordered = torch.tensor(
        [[1.0, 2.0], [2.0, 4.0], [5.0, 2.0], [9.0, 16.0]], dtype=torch.float64
    )
    parts = fc.phase_context(original, moved, rewritten, reordered)
    assert parts.phase.tolist() == [1.0, 2.0]
    assert parts.context.tolist() == [4.0, 0.0]
    assert parts.interaction.tolist() == [3.0, 12.0]
    assert parts.total.tolist() == [8.0, 14.0]
    shares = {name: float(share) for name, share in fc.signed_projections(parts).items()}
    # ⟨part, total⟩ over ‖total‖² = 260, each a quotient of small integers.
    assert shares == {"phase": 36 / 260, "context": 32 / 260, "interaction": 192 / 260}


@pytest.mark.parametrize("shape", [(3, 2), (2, 1, 2)])
def test_shares_are_pooled_over_all_readouts(shape: tuple[int, ...]):
    cells = [torch.full(shape, float(number), dtype=torch.float64) for number in (0, 1, 3, 8)]
    shares = fc.signed_projections(fc.phase_context(*cells))
    assert {name: float(share) for name, share in shares.items()} == {
        "phase": 1 / 8,
        "context": 3 / 8,
        "interaction": 4 / 8,
    }
