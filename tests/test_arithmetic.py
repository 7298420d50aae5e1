"""The audit of the paper's printed arithmetic: it accepts the paper and refuses near misses."""

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from proofs.printed import FIGURES, KNOWN_INCONSISTENT, Figure, arithmetic
from proofs.printed.arithmetic import Enclosure, audit, judge, read, unexpected
from proofs.printed.tables import table

VALUED = tuple(f for f in FIGURES if f.relation in {"meets", "identical", "multiple"})
BOUNDS = tuple(f for f in FIGURES if f.relation in {"above", "below"})


def interval(low: int | str, high: int | str) -> Enclosure:
    return Enclosure(Fraction(low), Fraction(high))


def nudge(text: str, steps: int) -> str:
    """The printed number `steps` units of its last digit away, in the same notation."""
    number = Decimal(text.rstrip("%").replace(",", ""))
    moved = number + steps * Decimal((0, (1,), int(number.as_tuple().exponent)))
    return f"{moved:f}" + "%" * text.endswith("%")


def detected(figures: tuple[Figure, ...], steps: int) -> list[bool]:
    """For each figure and either direction, whether the audit refuses the moved output."""
    return [
        not judge(replace(figure, printed=nudge(figure.printed, way * steps))).consistent
        for figure in figures
        for way in (-1, 1)
    ]


def test_every_derived_figure_of_the_paper_is_consistent():
    results = audit()
    assert [o.figure.id for o in results if not o.consistent] == sorted(KNOWN_INCONSISTENT)
    assert unexpected(results) == []


def test_no_figure_is_lost_from_the_audit():
    assert Counter(figure.relation for figure in FIGURES) == {
        "meets": 104,
        "identical": 147,
        "multiple": 18,
        "above": 49,
        "below": 23,
    }


@pytest.mark.parametrize(("steps", "refused"), [(1, 465), (2, 526), (3, 534)])
def test_most_outputs_with_a_wrong_last_digit_are_refused(steps: int, refused: int):
    # Not all: the inputs' own rounding covers a unit of a sum or difference with as many
    # digits, and more where an input has only two. The counts are measured.
    verdicts = detected(VALUED, steps)
    assert (sum(verdicts), len(verdicts)) == (refused, 538)


def test_copies_and_counts_with_a_wrong_last_digit_are_always_refused():
    assert all(detected(tuple(f for f in VALUED if f.relation == "identical"), 1))


def test_percentages_of_a_count_are_refused_except_for_rounding_a_half():
    passed = {f.printed for f in VALUED if f.relation == "multiple" and not all(detected((f,), 1))}
    # 15, 19 and 31 of 32 and 42 of 64 end in a half, which may be rounded either way.
    assert passed == {"46.88%", "59.38%", "96.88%", "65.63%"}
    assert all(detected(tuple(f for f in VALUED if f.relation == "multiple"), 2))


@pytest.mark.parametrize("figure", VALUED, ids=lambda f: f.id)
def test_outputs_beyond_their_interval_are_refused(figure: Figure):
    derived = judge(figure).derived
    unit = read(nudge(figure.printed, 1)).low - read(figure.printed).low
    # Half a unit on either side of the output, and the width of what the inputs allow.
    assert all(detected((figure,), 2 + int((derived.high - derived.low) / unit)))


@pytest.mark.parametrize("figure", BOUNDS, ids=lambda f: f.id)
def test_bounds_are_refused_when_turned_round(figure: Figure):
    turned = {"above": "below", "below": "above"}[figure.relation]
    # Here the estimate, 5.31, prints like an end of its bracket, so either side is possible.
    undecided = figure.id == "band interaction: ordered 0 16: in bracket"
    assert judge(replace(figure, relation=turned)).consistent == undecided


def test_the_factor_of_nine_holds_for_every_number_that_rounds_to_the_inputs():
    (figure,) = (f for f in FIGURES if f.id == "factor of nine")
    assert judge(figure).derived.low > 9


def test_angles_are_enclosed_far_below_the_printed_digits():
    for figure in (f for f in FIGURES if f.formula == "angle"):
        derived = judge(figure).derived
        assert derived.high - derived.low < Fraction(1, 10**30)
        assert read(figure.printed).low < derived.low
        assert derived.high < read(figure.printed).high


def test_angle_is_exact_where_the_power_is_rational():
    shift, base, width, plane = map(read, ("3", "16", "8", "2"))
    derived = arithmetic.angle(shift, base, width, plane)
    assert derived.low <= Fraction(3, 4) <= derived.high


@pytest.mark.parametrize("text", ["0.5", "50%", "1e3"])
def test_angle_refuses_inexact_or_fractional_numbers(text: str):
    with pytest.raises(ValueError, match="whole numbers; got"):
        arithmetic.angle(read(text), read("16"), read("8"), read("2"))


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("92,160", "92160", "92160"),
        ("0", "0", "0"),
        ("-7", "-7", "-7"),
        ("0.336", "0.3355", "0.3365"),
        ("-0.034", "-0.0345", "-0.0335"),
        ("-0.000", "-0.0005", "0.0005"),
        ("50.9%", "0.5085", "0.5095"),
        ("100%", "1", "1"),
        ("4.37e-6", "0.000004365", "0.000004375"),
        ("4e-6", "0.0000035", "0.0000045"),
        ("1e3", "500", "1500"),
        ("1,234.5", "1234.45", "1234.55"),
    ],
)
def test_a_printed_number_is_half_a_unit_wide_either_way(text: str, low: str, high: str):
    assert read(text) == interval(low, high)


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1\n", "1.", ".5", "1.2.3", "1,23", "12,3456", "0,336", "007", "+1", "--1", "nan",
     "inf", "1e", "e-6", "1e-6e", "1e9999", "%", "5%%", "1/2", "1_000", "٣", "0x1", "4*10"],
)  # fmt: skip
def test_malformed_numbers_are_refused(text: str):
    with pytest.raises(ValueError, match="must be a printed number like"):
        read(text)


def test_intervals_enclose_every_result_of_their_members():
    ends = [interval(a, b) for a, b in ((-2, -1), (-1, 2), (0, 3), (1, 1), (2, 5))]
    for x in ends:
        for y in ends:
            for a in (x.low, (x.low + x.high) / 2, x.high):
                for b in (y.low, (y.low + 3 * y.high) / 4, y.high):
                    for result, exact in ((x + y, a + b), (x - y, a - b), (x * y, a * b)):
                        assert result.low <= exact <= result.high
                    if not y.low <= 0 <= y.high:
                        assert (x / y).low <= a / b <= (x / y).high
                    assert abs(x).low <= abs(a) <= abs(x).high


def test_interval_results_are_no_wider_than_needed():
    assert interval(1, 2) - interval(3, 5) == interval(-4, -1)
    assert interval(-1, 2) * interval(-3, 4) == interval(-6, 8)
    assert interval(1, 2) / interval(-4, -2) == interval(-1, "-1/4")
    assert abs(interval(-3, 2)) == interval(0, 3)
    assert abs(interval(-3, -2)) == interval(2, 3)


def test_meeting_includes_a_shared_end_and_excludes_a_gap():
    assert interval(0, 1).meets(interval(1, 2))
    assert interval(1, 2).meets(interval(0, 1))
    assert not interval(0, 1).meets(interval("1000001/1000000", 2))


def test_an_interval_the_wrong_way_round_is_refused():
    with pytest.raises(ValueError, match="`low` must not exceed `high`; got 2 and 1"):
        interval(2, 1)


def test_division_by_an_interval_that_holds_zero_is_refused():
    with pytest.raises(ValueError, match="a divisor must exclude zero"):
        _ = interval(1, 2) / interval(-1, 1)


@pytest.mark.parametrize("field", ["formula", "across", "relation"])
def test_unknown_operations_are_refused(field: str):
    figure = replace(Figure("x", "nowhere", "1", (("1",),)), **{field: "guess"})
    with pytest.raises(ValueError, match=f"`{field}` must be one of .*; got 'guess'"):
        judge(figure)


def test_several_rows_need_a_way_to_join_them():
    with pytest.raises(ValueError, match="one row unless `across` joins them; got 2"):
        judge(Figure("x", "nowhere", "1", (("1",), ("1",))))


def test_repeated_ids_are_refused():
    with pytest.raises(ValueError, match="distinct ids; got repeats of"):
        audit((FIGURES[0], FIGURES[0]))


def test_tables_refuse_repeated_and_ragged_rows():
    with pytest.raises(ValueError, match="name each row once; got 1 repeats"):
        table("a 1\na 2", names=1)
    with pytest.raises(ValueError, match="equally long rows"):
        table("a 1\nb 2 3", names=1)


def test_known_inconsistencies_are_expected_and_stale_excuses_are_not():
    wrong = judge(Figure("wrong", "nowhere", "5", (("2", "2"),), "total"))
    right = judge(Figure("right", "nowhere", "4", (("2", "2"),), "total"))
    assert unexpected((wrong, right), known={}) == ["wrong"]
    assert unexpected((wrong, right), known={"wrong": "misprint"}) == []
    assert unexpected((wrong, right), known={"wrong": "misprint", "right": "?"}) == ["right"]


def test_the_command_prints_the_tally_and_succeeds():
    root = Path(__file__).parents[1]
    command = [sys.executable, "-m", "proofs.printed.arithmetic"]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == f"{len(FIGURES)} consistent, 0 inconsistent"


def test_the_command_fails_on_an_unexpected_inconsistency(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(arithmetic, "audit", lambda: audit((replace(FIGURES[0], printed="7"),)))
    assert arithmetic.main() == 1
    captured = capsys.readouterr()
    assert "0 consistent, 1 inconsistent" in captured.out
    assert f"unexpected: {FIGURES[0].id}" in captured.err
