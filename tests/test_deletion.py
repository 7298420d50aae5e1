"""Evictions by the smallest distortion, against readouts computed anew over the keys that are left."""

import math

import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from tests.helpers.accuracy import PROMISE
from tests.helpers.tensors import draw

HEADS, KEYS, WIDTH, MODEL = 2, 6, 3, 4
# The first head attends to all but one key, the second to three.
MASK = torch.tensor([[True] * 5 + [False], [True, True, False, True, False, False]])
GROUPS = torch.tensor(
    [
        [False, False, True, False, False, False],
        [True, True, False, True, False, False],  # leaves the second head nothing
        [False, True, False, False, True, False],
        [False, False, False, False, False, True],  # attended by none
        [True, False, False, False, False, False],
        [False, False, False, True, False, False],  # and together with others nothing either
    ]
)


def heads() -> tuple[Tensor, Tensor, Tensor]:
    return (
        draw(HEADS, KEYS, seed=1),
        draw(HEADS, KEYS, WIDTH, seed=2),
        draw(HEADS, WIDTH, MODEL, seed=3),
    )


def distortion(removed: Tensor) -> float:
    """‖Σ_h (y'_h − y_h) W_h‖, from the readouts before and after; infinite if a head has no key left."""
    scores, values, projection = heads()
    write = torch.zeros(MODEL, dtype=torch.float64)
    for head in range(HEADS):
        remaining = MASK[head] & ~removed
        if not remaining.any():
            return math.inf
        before = torch.softmax(scores[head, MASK[head]], -1) @ values[head, MASK[head]]
        after = torch.softmax(scores[head, remaining], -1) @ values[head, remaining]
        write += (after - before) @ projection[head]
    return float(write.norm())


def greedily(budget: float) -> tuple[list[int], list[float]]:
    removed, candidates = torch.zeros(KEYS, dtype=torch.bool), list(range(len(GROUPS)))
    evicted, distortions = [], []
    while candidates:
        costs = {index: distortion(removed | GROUPS[index]) for index in candidates}
        best = min(candidates, key=costs.__getitem__)
        if costs[best] > budget or costs[best] == math.inf:
            break
        candidates.remove(best)
        evicted.append(best)
        distortions.append(costs[best])
        removed = removed | GROUPS[best]
    return evicted, distortions


def plan_of(budget: float) -> fc.EvictionPlan:
    scores, values, projection = heads()
    return fc.select_evictions(fc.freeze(scores, values, mask=MASK), GROUPS, projection, budget)


@pytest.mark.parametrize("budget", [0.0, 0.5, 1.0, 2.0, 1e6, math.inf])
def test_groups_are_evicted_while_the_smallest_distortion_fits(budget: float):
    evicted, distortions = greedily(budget)
    plan = plan_of(budget)
    assert list(plan.evicted) == evicted
    for distortion, expected in zip(plan.distortions, distortions, strict=True):
        assert abs(distortion - expected) <= PROMISE * max(distortions)


def test_some_budgets_allow_some_groups_and_none_allows_all():
    sizes = [len(greedily(budget)[0]) for budget in (0.0, 0.5, 1e6)]
    assert sizes == sorted(sizes)
    assert 0 < sizes[0] < sizes[-1] < len(GROUPS)


def test_a_budget_may_be_used_up_to_the_last_bit():
    whole = plan_of(math.inf)
    for steps, distortion in enumerate(whole.distortions, 1):
        if distortion == max(whole.distortions[:steps]):
            assert len(plan_of(distortion).evicted) >= steps
            assert len(plan_of(math.nextafter(distortion, 0)).evicted) < steps or distortion == 0


def test_deleting_a_group_without_attended_keys_changes_nothing():
    scores, values, _ = heads()
    response = fc.deletion_response(fc.freeze(scores, values, mask=MASK), GROUPS[3:4])
    assert not response.any()
