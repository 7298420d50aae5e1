"""Checks: the comparison that comes closest is shown, and whatever is not a number fails."""

import math

import pytest

from finite_calculus.harness import compare, count
from finite_calculus.harness.checks import totals

NAN = math.nan


def test_a_check_shows_the_closest_comparison_and_counts_all() -> None:
    check = compare("c", [(1.0, 10.0), (0.9, 1.0), (5.0, 100.0)])
    assert (check.figure, check.bound, check.cases, check.failed) == (0.9, 1.0, 3, 0)
    row = check.row("unit")
    assert (row.unit, row.check, row.passed) == ("unit", "c", True)


@pytest.mark.parametrize(
    "pair", [(2.0, 1.0), (NAN, 1.0), (1.0, NAN), (1e-300, 0.0), (math.inf, 1.0)]
)
def test_a_figure_beyond_its_bound_fails_and_is_the_one_shown(pair: tuple[float, float]) -> None:
    check = compare("c", [(0.5, 1.0), pair])
    assert check.failed == 1
    assert not check.row("u").passed
    assert (check.figure, check.bound) == pytest.approx(pair, nan_ok=True)


def test_no_comparison_is_no_check() -> None:
    with pytest.raises(ValueError, match="must hold a comparison; got none"):
        compare("c", [])


def test_counts_and_totals() -> None:
    rows = [count("n", [False, True, False]).row("u"), compare("c", [(0.0, 0.0)]).row("u")]
    assert rows[0].figure == 1.0
    assert totals(rows) == (4, 1)
