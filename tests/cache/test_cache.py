"""Evictions keep their budget on the model; restorations reduce the error by their exact benefit."""

import pytest
import torch

from finite_calculus.cache import (
    evict,
    execute_evictions,
    execute_repairs,
    generate_with,
    restore,
)
from finite_calculus.models import predict


def test_evictions_keep_the_budget_and_the_model_agrees(embedded) -> None:
    plans = execute_evictions(
        embedded.instrument,
        embedded.capture,
        evict(embedded.capture, 0.05, layers=[1, 3], relative=True, protect=(0, 5)),
    )
    for plan in plans:
        assert plan.tokens
        assert not {0, 5, len(embedded.capture.ids) - 1} & set(plan.tokens)
        assert plan.figure <= plan.budget == 0.05
        allowed = 0.05 * plan.writes[0]
        assert plan.distortions[0] <= allowed
        assert plan.local.within_bound
        assert plan.local.predicted == pytest.approx(plan.distortions[0], rel=1e-4, abs=1e-6)
        # The bound on rounding is far below the budget, so the check can fail.
        assert plan.local.bound < allowed
        assert plan.local.executed <= allowed + plan.local.bound
        assert 0 < plan.divergence < 1
        # One more of what is left would break the budget.
        assert _smallest_next(embedded.capture, plan) > allowed


def _smallest_next(capture, plan) -> float:
    from finite_calculus.models import Delete

    layer = capture.layer(plan.layer)
    candidates = set(layer.tokens) - set(plan.tokens) - {0, 5, layer.tokens[-1]}
    sizes = [
        float(predict(layer, Delete(plan.layer, (*plan.tokens, token))).write.norm())
        for token in candidates
    ]
    return min(sizes, default=torch.inf)


def test_no_budget_evicts_nothing_of_weight_and_groups_go_together(family) -> None:
    capture = family.capture
    last = len(capture.ids) - 1
    layer = capture.layers[-1].layer
    assert evict(capture, 0.0, layers=[layer])[0].tokens == ()
    groups = [(last - 2, last - 1), (last - 4, last - 3)]
    (plan,) = evict(capture, 1e9, layers=[layer], groups=groups)
    assert sorted(plan.tokens) == [last - 4, last - 3, last - 2, last - 1]
    (empty,) = evict(capture, 1.0, layers=[layer], protect=range(last + 1))
    assert empty.edit is None
    assert execute_evictions(family.instrument, capture, [empty]) == (empty,)


def test_restoration_reduces_the_error_by_its_benefit_and_the_model_agrees(family) -> None:
    layer = family.capture.layers[0].layer
    repairs = restore(family.capture, 3, 4, layers=[layer])
    (repair,) = execute_repairs(family.instrument, family.capture, repairs)
    assert len(set(repair.restored)) == 4
    for before, after, benefit in zip(
        repair.errors, repair.errors[1:], repair.benefits, strict=False
    ):
        assert before**2 - after**2 == pytest.approx(benefit, rel=1e-9, abs=1e-12)
    assert repair.relative_error == repair.errors[-1] / repair.errors[0] < 1
    assert repair.local.within_bound
    assert repair.local.predicted == pytest.approx(repair.errors[-1], rel=1e-6, abs=1e-9)
    assert repair.local.bound < repair.errors[0]


def test_restoring_everything_leaves_nothing_and_nothing_is_left_alone(llama) -> None:
    count = len(llama.capture.ids) - 1
    (everything,) = restore(llama.capture, 2, count, layers=[0])
    assert everything.errors[-1] == 0.0
    (nothing,) = restore(llama.capture, 2, 0, layers=[0])
    assert len(nothing.edits) == 1
    assert nothing.relative_error == 1
    with pytest.raises(ValueError, match="`count` must be between"):
        restore(llama.capture, 2, count + 1, layers=[0])


def test_the_first_generated_token_is_that_of_execution(embedded) -> None:
    plans = evict(embedded.capture, 0.02, layers=[1, 2], relative=True)
    edits = [plan.edit for plan in plans if plan.edit is not None]
    continuations = generate_with(embedded.instrument, embedded.capture, edits, tokens=2)
    assert continuations.ordinary == "B"
    assert continuations.edited.startswith("B")
    assert generate_with(embedded.instrument, embedded.capture, [], tokens=1).same
    with pytest.raises(ValueError, match="`tokens` must be at least 1"):
        generate_with(embedded.instrument, embedded.capture, edits, tokens=0)


def test_an_edit_that_reverses_the_answer_reverses_the_generated_text(embedded) -> None:
    from finite_calculus.search import score

    table = score(embedded.capture)
    best = table.edit(table.order(1, towards="answer")[0])
    outcome = embedded.instrument.execute(embedded.capture, [best]).outcomes[0]
    assert outcome.margin > 0 > embedded.capture.baseline
    continuations = generate_with(embedded.instrument, embedded.capture, [best], tokens=1)
    assert (continuations.ordinary, continuations.edited) == ("B", "A")
