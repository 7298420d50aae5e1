"""Executing the top of a search: numbers side by side, local errors within bounds, a budget that is kept."""

import pytest
import torch

from finite_calculus.certificate import Certificate
from finite_calculus.search import (
    certified_top,
    certify_table,
    execute_rows,
    score,
    verify_top,
)


def test_execution_agrees_locally_and_is_the_models_own(embedded) -> None:
    table = score(embedded.capture)
    order = table.order(6)
    executed = execute_rows(embedded.instrument, table, order)
    again = embedded.instrument.execute(embedded.capture, [table.edit(i) for i in order])
    assert [item.effect for item in executed] == again.effects.tolist()
    assert [item.row.index for item in executed] == order
    for item in executed:
        assert item.local.within_bound
        assert item.local.error <= 1e-4 * max(1.0, item.local.predicted)
        assert item.local.bound < 0.1 * max(0.1, item.local.predicted)
    assert execute_rows(embedded.instrument, table, []) == ()


def test_verification_stops_when_a_round_changes_nothing(embedded) -> None:
    table = score(embedded.capture)
    verification = verify_top(embedded.instrument, table, 3, budget=30)
    assert verification.stopped == "settled"
    assert len(verification.executed) < 30
    effects = [abs(item.effect) for item in verification.executed]
    assert [abs(item.effect) for item in verification.top] == sorted(effects, reverse=True)[:3]
    # The last round did not enter the top.
    last = {item.row.index for item in verification.executed[-3:]}
    assert not last & {item.row.index for item in verification.top}


def test_verification_keeps_its_budget(embedded) -> None:
    table = score(embedded.capture)
    verification = verify_top(embedded.instrument, table, 5, budget=7, towards="versus")
    assert verification.stopped == "budget"
    assert len(verification.executed) == 7
    assert verification.top[0].effect == min(item.effect for item in verification.executed)
    with pytest.raises(ValueError, match="`budget` must be at least `count`"):
        verify_top(embedded.instrument, table, 5, budget=4)


def test_a_short_list_is_exhausted(embedded) -> None:
    table = score(embedded.capture)
    few = score(embedded.capture, [table.edit(i) for i in table.order(3)])
    assert verify_top(embedded.instrument, few, 2, budget=10).stopped in ("settled", "exhausted")
    assert verify_top(embedded.instrument, few, 3, budget=10).stopped == "exhausted"


def test_a_certified_top_needs_one_round(embedded) -> None:
    table = score(embedded.capture)
    order = table.order(4)
    few = score(embedded.capture, [table.edit(i) for i in order])
    sharp = Certificate(few.effect, few.effect.abs() * 1e-9, few.effect, few.effect)
    loose = Certificate(few.effect, few.effect.abs() * 10, few.effect, few.effect)
    assert certified_top(few.certified(sharp), 2)
    assert not certified_top(few.certified(loose), 2)
    assert not certified_top(few, 2)
    verification = verify_top(embedded.instrument, few.certified(sharp), 2, budget=4)
    assert verification.stopped == "certified"
    assert len(verification.executed) == 2


def test_the_certified_top_is_that_of_all_comparisons(embedded) -> None:
    table = score(embedded.capture, [score(embedded.capture).edit(i) for i in (0, 500, 2500, 4000)])
    certified = certify_table(table)
    for towards in ("answer", "versus", "either"):
        order = certified.order(len(table), towards=towards)
        lower = certified.certificate.first_order - certified.certificate.bound
        above = certified.certificate.first_order + certified.certificate.bound
        if towards == "versus":
            lower, above = -above, -lower
        if towards == "either":
            near = torch.minimum(lower.abs(), above.abs())
            far = torch.maximum(lower.abs(), above.abs())
            lower, above = torch.where(lower * above > 0, near, 0.0), far
        for count in (1, 2, len(table)):
            expected = all(
                float(lower[a]) > float(above[b])
                for place, a in enumerate(order[:count])
                for b in order[place + 1 :]
            )
            assert certified_top(certified, count, towards=towards) == expected
