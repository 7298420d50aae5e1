"""An audit of the paper's arithmetic: every figure derived from other printed figures.

A printed number stands for all numbers that round to it, an interval of half a unit of
its last digit either way; a whole number without a power of ten is a count and exact.
Each formula is evaluated over exact rational intervals, and a figure is consistent when
the derived interval meets the printed one. The rotary angles of tab:angles are the only
irrational figures; they are enclosed in Arb balls. The audit compares the paper with
itself: it cannot tell whether a measured number is right, and it reruns no experiment.

`python -m proofs.printed.arithmetic` prints every figure and exits with 1 if one is unexpected.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, prod

import flint

from proofs.printed import FIGURES, KNOWN_INCONSISTENT, Figure

_NUMBER = re.compile(
    r"(?P<sign>-?)(?P<whole>0|[1-9][0-9]{0,2}(?:,[0-9]{3})+|[1-9][0-9]*)"
    r"(?:\.(?P<decimals>[0-9]+))?(?:e(?P<power>-?[0-9]{1,3}))?(?P<percent>%?)"
)


@dataclass(frozen=True)
class Enclosure:
    """All rationals from `low` to `high`, both included."""

    low: Fraction
    high: Fraction

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"`low` must not exceed `high`; got {self.low} and {self.high}.")

    def __add__(self, other: "Enclosure") -> "Enclosure":
        return Enclosure(self.low + other.low, self.high + other.high)

    def __neg__(self) -> "Enclosure":
        return Enclosure(-self.high, -self.low)

    def __sub__(self, other: "Enclosure") -> "Enclosure":
        return self + -other

    def __mul__(self, other: "Enclosure") -> "Enclosure":
        corners = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Enclosure(min(corners), max(corners))

    def __truediv__(self, other: "Enclosure") -> "Enclosure":
        if other.low <= 0 <= other.high:
            raise ValueError(f"a divisor must exclude zero; got [{other.low}, {other.high}].")
        return self * Enclosure(1 / other.high, 1 / other.low)

    def __abs__(self) -> "Enclosure":
        ends = sorted((abs(self.low), abs(self.high)))
        return Enclosure(Fraction(0) if self.low <= 0 <= self.high else ends[0], ends[1])

    def meets(self, other: "Enclosure") -> bool:
        """Whether the two share a number."""
        return self.low <= other.high and other.low <= self.high


@dataclass(frozen=True)
class FigureResult:
    """The verdict on one figure."""

    figure: Figure
    derived: Enclosure
    printed: Enclosure
    consistent: bool


def audit(figures: Sequence[Figure] = FIGURES) -> tuple[FigureResult, ...]:
    """Judge every figure; refuses a repeated id."""
    repeats = {f.id for f in figures if sum(g.id == f.id for g in figures) > 1}
    if repeats:
        raise ValueError(f"`figures` must have distinct ids; got repeats of {sorted(repeats)}.")
    return tuple(judge(figure) for figure in figures)


def judge(figure: Figure) -> FigureResult:
    """Derive one figure from its inputs and compare it with its printed digits."""
    formula = _named(FORMULAS, figure.formula, "formula")
    across = _named(ACROSS, figure.across, "across")
    relation = _named(RELATIONS, figure.relation, "relation")
    derived = across([formula(*map(read, row)) for row in figure.inputs])
    printed = read(figure.printed)
    return FigureResult(figure, derived, printed, relation(derived, printed))


def unexpected(
    results: Sequence[FigureResult], *, known: Mapping[str, str] = KNOWN_INCONSISTENT
) -> list[str]:
    """Ids whose verdict contradicts `known`: new inconsistencies and excuses out of date."""
    inconsistent = {result.figure.id for result in results if not result.consistent}
    return sorted(inconsistent ^ set(known))


def read(text: str) -> Enclosure:
    """The numbers that round to `text`, such as 0.02808, 50.9%, 4.37e-6, or exactly 92,160."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(
            f"`text` must be a printed number like 0.02808, 50.9%, 4.37e-6 or 92,160; got {text!r}."
        )
    decimals, power = match["decimals"] or "", match["power"]
    exact = not decimals and power is None
    unit = Fraction(10) ** (int(power or 0) - len(decimals)) / (100 if match["percent"] else 1)
    digits = int(match["sign"] + match["whole"].replace(",", "") + decimals)
    half = Fraction(0) if exact else unit / 2
    return Enclosure(digits * unit - half, digits * unit + half)


def _named(table: Mapping[str, Callable], name: str, field: str) -> Callable:
    if name not in table:
        raise ValueError(f"`{field}` must be one of {sorted(table)}; got {name!r}.")
    return table[name]


_ONE = Enclosure(Fraction(1), Fraction(1))
_ZERO = Enclosure(Fraction(0), Fraction(0))


def _reduction(part: Enclosure, whole: Enclosure) -> Enclosure:
    return _ONE - part / whole


def _mean(*terms: Enclosure) -> Enclosure:
    return sum(terms, _ZERO) / _count(len(terms))


def _clearance(value: Enclosure, low: Enclosure, high: Enclosure) -> Enclosure:
    """How far inside [low, high] the value lies; positive when it does."""
    return _least([value - low, high - value])


def _slack(left: Enclosure, right: Enclosure, *allowance: Enclosure) -> Enclosure:
    return sum(allowance, _ZERO) - abs(left - right)


def angle(
    shift: Enclosure,
    base: Enclosure,
    width: Enclosure,
    plane: Enclosure,
) -> Enclosure:
    """shift · base^(-2·plane/width), tab:angles; all four must be exact whole numbers."""
    whole = [_whole(x) for x in (shift, base, width, plane)]
    with flint.ctx.workprec(128):
        ball = whole[0] * flint.arb(whole[1]) ** (flint.arb(-2 * whole[3]) / whole[2])
        return Enclosure(*(_rational(end) for end in (ball.lower(), ball.upper())))


def _whole(value: Enclosure) -> int:
    if value.low != value.high or value.low.denominator != 1:
        raise ValueError(f"an angle needs whole numbers; got [{value.low}, {value.high}].")
    return value.low.numerator


def _rational(end: flint.arb) -> Fraction:
    mantissa, exponent = end.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def _count(number: int) -> Enclosure:
    return Enclosure(Fraction(number), Fraction(number))


def _only(rows: Sequence[Enclosure]) -> Enclosure:
    if len(rows) != 1:
        raise ValueError(f"`inputs` must be one row unless `across` joins them; got {len(rows)}.")
    return rows[0]


def _least(rows: Sequence[Enclosure]) -> Enclosure:
    return Enclosure(min(x.low for x in rows), min(x.high for x in rows))


def _most(rows: Sequence[Enclosure]) -> Enclosure:
    return Enclosure(max(x.low for x in rows), max(x.high for x in rows))


def _middle_sign(value: Enclosure) -> int:
    """The sign that the printed digits show, which is that of the interval's middle."""
    middle = value.low + value.high
    return (middle > 0) - (middle < 0)


def _multiple(derived: Enclosure, printed: Enclosure) -> bool:
    """Whether some whole multiple of the exact `derived` rounds to `printed`."""
    return ceil(printed.low / derived.low) <= floor(printed.high / derived.low)


FORMULAS: Mapping[str, Callable[..., Enclosure]] = {
    "value": lambda value: value,
    "reduction": _reduction,
    "excess": lambda part, whole: part / whole - _ONE,
    "ratio": lambda part, whole: part / whole,
    "difference": lambda left, right: left - right,
    "product": lambda *factors: prod(factors, start=_ONE),
    "total": lambda *terms: sum(terms, _ZERO),
    "mean": _mean,
    "rest": lambda *terms: _ONE - sum(terms, _ZERO),
    "clearance": _clearance,
    "difference clearance": lambda left, right, *ends: _clearance(left - right, *ends),
    "difference gap": lambda a, b, c, d: (a - b) - (c - d),
    "reduction gap": lambda a, b, c, d: _reduction(a, b) - _reduction(c, d),
    "slack": _slack,
    "angle": angle,
}

ACROSS: Mapping[str, Callable[[Sequence[Enclosure]], Enclosure]] = {
    "only": _only,
    "minimum": _least,
    "maximum": _most,
    "negatives": lambda rows: _count(sum(_middle_sign(x) < 0 for x in rows)),
    "zeros": lambda rows: _count(sum(_middle_sign(x) == 0 for x in rows)),
}

# `identical` is for figures copied or counted, where a neighbouring last digit is an error
# although its interval touches; the other relations allow for rounding on both sides.
RELATIONS: Mapping[str, Callable[[Enclosure, Enclosure], bool]] = {
    "meets": Enclosure.meets,
    "identical": lambda derived, printed: derived == printed,
    "above": lambda derived, printed: derived.high > printed.low,
    "below": lambda derived, printed: derived.low < printed.high,
    "multiple": _multiple,
}


def _line(result: FigureResult) -> str:
    figure = result.figure
    verdict = "ok" if result.consistent else "INCONSISTENT"
    ends = f"[{float(result.derived.low):.7g}, {float(result.derived.high):.7g}]"
    claim = f"{figure.relation} {figure.printed}"
    return f"{verdict:3} {figure.id:48} {claim:22} {ends:32} {figure.where}"


def main() -> int:
    """Print the audit; 1 when a verdict is unexpected."""
    results = audit()
    print("\n".join(map(_line, results)))
    for name, reason in KNOWN_INCONSISTENT.items():
        print(f"known: {name}: {reason}")
    consistent = sum(result.consistent for result in results)
    print(f"{consistent} consistent, {len(results) - consistent} inconsistent")
    for name in unexpected(results):
        print(f"unexpected: {name}", file=sys.stderr)
    return int(bool(unexpected(results)))


if __name__ == "__main__":
    sys.exit(main())
