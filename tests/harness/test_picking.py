"""Picking units: in order when alone, elsewhere in a crowd, few listings, and waits that are not hasty."""

import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from finite_calculus.harness import claims
from finite_calculus.harness.picking import CROWD, LOOKS, Picking


def units(count: int) -> list[str]:
    return [f"unit-{n:06d}" for n in range(count)]


def asked(gone: set[str]) -> tuple[list[int], Callable[[list[str]], list[str]]]:
    """A directory in which some units are finished, and how long every list was that it was asked about."""
    sizes: list[int] = []

    def refresh(missing: list[str]) -> list[str]:
        sizes.append(len(missing))
        return [unit for unit in missing if unit not in gone]

    return sizes, refresh


def test_alone_it_goes_in_order_and_asks_once_for_a_thousandth_of_the_units() -> None:
    gone: set[str] = set()
    sizes, refresh = asked(gone)
    picking, order = Picking(units(5000), refresh), []
    while picking.missing:
        order.append(picking.next())
        gone.add(order[-1])
        picking.ran()
    assert order == units(5000)
    assert sizes == list(range(5000, 0, -5))


def test_units_that_others_finished_are_dropped_and_none_is_forgotten() -> None:
    every, draw = units(3000), random.Random(7)
    others = set(draw.sample(every, 2500))
    gone, ran = set(others), []
    _, refresh = asked(gone)
    picking = Picking(list(every), refresh)
    while picking.missing:
        unit = picking.next()
        if unit in gone:
            assert picking.was_refused(True) == 0
            continue
        ran.append(unit)
        gone.add(unit)
        picking.ran()
    assert sorted(ran) == sorted(set(every) - others)


def test_where_all_is_in_other_hands_it_watches_some_claims_for_a_lease_and_then_others() -> None:
    sizes, refresh = asked(set())
    picking, clock = Picking(units(100_000), refresh), 0.0
    looks: dict[float, list[str]] = {}
    while clock < 300.0:
        looks.setdefault(clock, []).append(picking.next())
        clock += picking.was_refused(False)
    times, blocks = list(looks), list(looks.values())
    assert len(blocks[0]) == LOOKS
    assert [len(block) for block in blocks].count(CROWD) >= len(blocks) - 300 / claims.LEASE
    assert times[1] == claims.POLL
    watched = [clock for clock, block in looks.items() if block == blocks[1]]
    # At most a beat between two looks, for longer than a lease: what is dead there is taken over.
    assert watched == times[1 : len(watched) + 1]
    assert watched[-1] - watched[0] >= claims.LEASE
    assert max(b - a for a, b in pairwise(watched)) <= claims.BEAT
    assert len({tuple(block) for block in blocks[1:]}) >= 3
    # All units are listed once for each place that is watched, not for each look.
    assert len(sizes) <= 300 / claims.LEASE


@pytest.mark.parametrize("left", [1, 2, 5, 20])
def test_the_last_units_in_other_hands_are_waited_for(left: int) -> None:
    gone: set[str] = set()
    _, refresh = asked(gone)
    picking, clock = Picking(units(left), refresh), 0.0
    while picking.missing:
        if clock > 3.0:
            gone.update(units(left))
        clock += picking.was_refused(picking.next() in gone)
    # A wait is a quarter of what was waited, or the shortest there is.
    assert 3.0 < clock <= 3.0 + max(claims.POLL, 3.0 / 4) + 1e-9
