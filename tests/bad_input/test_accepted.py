"""What looks like a mistake and is none: it is answered."""

import torch

import finite_calculus as fc
from tests.bad_input.inputs import (
    INF,
    KEYS,
    MODEL,
    control,
    false,
    heads,
    low_scores,
    projection,
    true,
)
from tests.helpers.tensors import draw


def test_an_infeasible_request_is_answered_with_its_true_residual():
    # Keys 0, 1 and 2 on a line: a₁ is the middle, so log p₀/p₁ and log p₁/p₂ are always equal.
    features = torch.zeros(3, MODEL, dtype=torch.float64)
    features[:, 0] = torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64)
    query, pairs = draw(MODEL), torch.tensor([[0, 1], [1, 2]])
    requested = torch.tensor([1.0, 3.0], dtype=torch.float64)
    answer = fc.control_query(query, features, pairs, requested)
    edited = query + torch.cat([answer.edit, torch.zeros(1, dtype=torch.float64)])
    probs = torch.softmax(features @ edited, -1)
    achieved = torch.log(probs[:-1] / probs[1:])
    # Two logarithms of quotients of probabilities near 1/3 differ by a few units of rounding.
    slack = 64 * torch.finfo(torch.float64).eps
    assert answer.feasible is False
    assert answer.rank == 1
    assert bool(((answer.residual - (requested - achieved)).abs() <= slack).all())
    # Least squares meets the two equal ratios half way: 2 and 2, residual −1 and +1.
    halfway = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    assert bool(((answer.residual - halfway).abs() <= slack).all())


def test_a_feasible_request_is_answered_as_feasible():
    answer = control([[0, 1], [1, 2], [0, 2]], [1.0, -2.0, -1.0])
    assert answer.feasible is True
    assert float(answer.residual.abs().max()) <= answer.accuracy


def test_consistent_repetitions_and_closed_cycles_are_not_refused():
    twice = control([[0, 1], [0, 1]], [1.0, 1.0])
    reverse = control([[0, 1], [1, 0]], [1.0, -1.0])
    cycle = control([[0, 1], [1, 2], [2, 0]], [0.1, 0.2, -(0.1 + 0.2)])
    assert twice.feasible
    assert reverse.feasible
    assert cycle.feasible


def test_the_reference_key_gauge_cures_the_overflow_of_the_original_gauge():
    query, features, values = low_scores()
    gauge = fc.reference_key_gauge(features, 0)
    cured = fc.effective_weights(query, features, values, gauge=gauge)
    expected = fc.freeze(features.squeeze(-1), values).output
    # Three terms of size at most max|v|, each with a handful of roundings.
    slack = 32 * torch.finfo(torch.float64).eps * float(values.abs().max())
    assert bool(torch.isfinite(cured.matrix).all())
    assert bool(((cured.output - expected).abs() <= slack).all())


def test_no_budget_pays_for_an_eviction_that_would_leave_a_head_nothing():
    singles = torch.eye(KEYS, dtype=torch.bool)
    for budget in (1e300, INF):
        assert fc.select_evictions(heads(), true(1, KEYS), projection(), budget).evicted == ()
        plan = fc.select_evictions(heads(), singles, projection(), budget)
        assert len(plan.evicted) == KEYS - 1
        assert all(distortion < INF for distortion in plan.distortions)


def test_no_groups_make_an_empty_plan():
    plan = fc.select_evictions(heads(), false(0, KEYS), projection(), 1.0)
    assert plan == fc.EvictionPlan((), (), 1.0)
