"""Exact polynomials for the checker: words in matrices with coefficients in monomials of any atoms.

A polynomial maps (monomial, word) to a rational. A monomial is a set of (atom, exponent), exponents may be
negative or fractional; a word is a tuple of matrices. Atoms are tuples that begin with their sort. The atom I
is the imaginary unit, and an indicator equals each of its powers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

Atom = tuple[Any, ...]
Monomial = frozenset[tuple[Atom, Fraction]]
Word = tuple[Atom, ...]
Key = tuple[Monomial, Word]
Polynomial = dict[Key, Fraction]

EMPTY: Monomial = frozenset()
UNIT: Key = (EMPTY, ())
IMAGINARY: Atom = ("i",)


def number(value: Fraction | int) -> Polynomial:
    return {UNIT: Fraction(value)} if value else {}


def atom(name: Atom, exponent: Fraction | int = 1) -> Polynomial:
    return {(frozenset({(name, Fraction(exponent))}), ()): Fraction(1)}


def add(*terms: Polynomial) -> Polynomial:
    total: Polynomial = {}
    for term in terms:
        for key, value in term.items():
            total[key] = total.get(key, Fraction(0)) + value
    return {key: value for key, value in total.items() if value}


def scale(value: Fraction | int, term: Polynomial) -> Polynomial:
    return {key: value * part for key, part in term.items()} if value else {}


def multiply(left: Polynomial, right: Polynomial) -> Polynomial:
    total: Polynomial = {}
    for (first, word), a in left.items():
        for (second, tail), b in right.items():
            sign, monomial = join(first, second)
            key = (monomial, word + tail)
            total[key] = total.get(key, Fraction(0)) + sign * a * b
    return {key: value for key, value in total.items() if value}


def power(base: Polynomial, exponent: int) -> Polynomial:
    """A natural power, or any integer power of a single monomial without matrices."""
    if exponent < 0:
        ((monomial, word), value), *rest = base.items()
        if rest or word:
            raise ValueError("only a monomial has a negative power")
        inverse = frozenset((name, -size) for name, size in monomial)
        return power({(inverse, ()): 1 / value}, -exponent)
    total = number(1)
    for _ in range(exponent):
        total = multiply(total, base)
    return total


def join(left: Monomial, right: Monomial) -> tuple[int, Monomial]:
    """The product of two monomials and its sign."""
    sizes: dict[Atom, Fraction] = dict(left)
    for name, size in right:
        sizes[name] = sizes.get(name, Fraction(0)) + size
    sign = 1
    if IMAGINARY in sizes:
        turns = int(sizes.pop(IMAGINARY)) % 4
        sign = -1 if turns >= 2 else 1
        sizes[IMAGINARY] = Fraction(turns % 2)
    for name, size in sizes.items():
        if is_indicator(name) and size > 0:
            sizes[name] = Fraction(1)
    return sign, frozenset((name, size) for name, size in sizes.items() if size)


def is_indicator(name: Atom) -> bool:
    return name[0] == "x" and bool(getattr(name[1], "idempotent", False))


def freeze(term: Polynomial) -> frozenset[tuple[Key, Fraction]]:
    """A key for a polynomial."""
    return frozenset(term.items())


def set_atom(term: Polynomial, name: Atom, value: int) -> Polynomial:
    """The polynomial with 0 or 1 in place of an indicator."""
    total: Polynomial = {}
    for (monomial, word), part in term.items():
        sizes: Mapping[Atom, Fraction] = dict(monomial)
        if name in sizes and not value:
            continue
        rest = frozenset((other, size) for other, size in monomial if other != name)
        total = add(total, {(rest, word): part})
    return total


def divide(dividend: Polynomial, divisor: Polynomial) -> Polynomial | None:
    """The exact quotient, None if there is none; the leading terms are lexicographic."""
    atoms = sorted({name for key in (*dividend, *divisor) for name, _ in key[0]}, key=repr)

    def leading(keys: Iterable[Key]) -> Key:
        return max(keys, key=lambda key: [dict(key[0]).get(name, Fraction(0)) for name in atoms])

    quotient: Polynomial = {}
    lead = leading(divisor)
    inverse = power({lead: divisor[lead]}, -1)
    for _ in range(200):
        if not dividend:
            return quotient
        key = leading(dividend)
        step = multiply({key: dividend[key]}, inverse)
        quotient = add(quotient, step)
        rest = add(dividend, scale(-1, multiply(step, divisor)))
        if key in rest:
            return None
        dividend = rest
    return None
