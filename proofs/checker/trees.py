"""Reading a tree of a statement into an exact polynomial over a product of denominators.

exp of a sum of monomials is a product of powers of e^m, and cos and sin of an angle come from e^{im}, so the
addition theorems and sin² + cos² = 1 are plain multiplication here. log takes a product of positive factors
apart. A sum over the index keeps what depends on it and releases the rest, matrices from where they stand.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from proofs.checker.calculus import differentiate, integrate
from proofs.checker.polynomials import (
    IMAGINARY,
    Atom,
    Monomial,
    Polynomial,
    Word,
    add,
    atom,
    freeze,
    is_indicator,
    multiply,
    number,
    power,
    scale,
    set_atom,
)
from proofs.prover.syntax import Index, Letter, S

Frozen = frozenset[Any]


@dataclass
class Fractional:
    """A polynomial over a product of polynomials."""

    top: Polynomial
    below: Counter[Frozen] = field(default_factory=Counter)


class Reader:
    """Reads trees; notes every polynomial by which it divided."""

    def __init__(self) -> None:
        self.divisors: list[Polynomial] = []

    def read(self, node: Any) -> Fractional:
        if isinstance(node, sp.Rational):
            return Fractional(number(Fraction(int(node.p), int(node.q))))
        if isinstance(node, Letter):
            return Fractional({(frozenset(), (("m", node),)): Fraction(1)})
        if isinstance(node, sp.Symbol) and node.is_commutative:
            return Fractional(atom(("x", node)))
        if isinstance(node, sp.Add):
            return self._total([self.read(arg) for arg in node.args])
        if isinstance(node, sp.Mul):
            product = Fractional(number(1))
            for part in map(self.read, node.args):
                below = product.below + part.below
                product = Fractional(multiply(product.top, part.top), below)
            return product
        if isinstance(node, sp.Pow) and node.exp.is_Integer:
            return self._power(self.read(node.base), int(node.exp))
        if isinstance(node, S):
            return self._sum(self.read(node.args[0]))
        if isinstance(node, sp.Derivative):
            tree = node.expr
            for variable in node.variables:
                tree = differentiate(tree, variable)
            return self.read(tree)
        if isinstance(node, sp.Subs):
            tree, variables, points = self._plain(node.expr), node.args[1], node.args[2]
            values = dict(zip(variables.args, points.args, strict=True))
            if any(isinstance(symbol, Index) for tree in node.args[1:] for symbol in tree.atoms()):
                raise ValueError("a point that depends on the index cannot be put under a sum")
            return self.read(tree.xreplace(values))
        if isinstance(node, sp.Integral):
            return self.read(integrate(node))
        return Fractional(self._function(node))

    def _plain(self, node: Any) -> Any:
        """The tree with its derivatives carried out, before a point is put in."""
        if isinstance(node, sp.Derivative):
            tree = self._plain(node.expr)
            for variable in node.variables:
                tree = differentiate(tree, variable)
            return tree
        return node.func(*map(self._plain, node.args)) if node.args else node

    def _total(self, parts: list[Fractional]) -> Fractional:
        below: Counter[Frozen] = Counter()
        for part in parts:
            below |= part.below
        tops = [multiply(part.top, _expand(below - part.below)) for part in parts]
        return Fractional(add(*tops), below)

    def _power(self, base: Fractional, exponent: int) -> Fractional:
        if exponent >= 0:
            below = Counter({key: size * exponent for key, size in base.below.items()})
            return Fractional(power(base.top, exponent), below)
        if any(word for _, word in base.top):
            raise ValueError("a matrix is divided by")
        if not base.top:
            raise ValueError("a division by zero")
        self.divisors.append(base.top)
        lifted = power(_expand(base.below), -exponent)
        if len(base.top) == 1:
            return Fractional(multiply(lifted, power(base.top, exponent)))
        return Fractional(lifted, Counter({freeze(base.top): -exponent}))

    def _sum(self, body: Fractional) -> Fractional:
        if any(_depends(name) for key in body.below for (part, _), _ in key for name, _ in part):
            raise ValueError("a denominator depends on the index of a sum")
        total: Polynomial = {}
        for (monomial, word), value in body.top.items():
            inside = frozenset((name, size) for name, size in monomial if _depends(name))
            left, middle, right = _trim(word)
            moment: Atom = ("S", inside, middle)
            if middle:
                term: Polynomial = {(monomial - inside, (*left, moment, *right)): value}
            else:
                term = multiply({(monomial - inside, left): value}, atom(moment))
            total = add(total, term)
        return Fractional(total, body.below)

    def _function(self, node: Any) -> Polynomial:
        if isinstance(node, AppliedUndef) and all(arg.is_Rational for arg in node.args):
            return atom(("f", node.func.__name__, node.args))
        argument = self._polynomial(node.args[0]) if isinstance(node, sp.Function) else {}
        if isinstance(node, sp.exp):
            return _exponential("e", argument)
        if isinstance(node, sp.cos | sp.sin):
            forth, back = _exponential("w", argument), _exponential("w", scale(-1, argument))
            if isinstance(node, sp.cos):
                return scale(Fraction(1, 2), add(forth, back))
            turned = multiply(atom(IMAGINARY), add(back, scale(-1, forth)))
            return scale(Fraction(1, 2), turned)
        if isinstance(node, sp.log):
            return _logarithm(argument)
        if isinstance(node, sp.Abs):
            return _absolute(argument)
        raise ValueError(f"the checker does not know {type(node).__name__}")

    def _polynomial(self, node: Any) -> Polynomial:
        part = self.read(node)
        if part.below or any(word for _, word in part.top):
            raise ValueError(f"{node} is not a polynomial of numbers")
        return part.top


def _expand(below: Counter[Frozen]) -> Polynomial:
    product = number(1)
    for key, size in below.items():
        product = multiply(product, power(dict(key), size))
    return product


def _depends(name: Atom) -> bool:
    """Whether an atom depends on the index of the sum around it."""
    sort, *rest = name
    if sort in ("x", "m"):
        return isinstance(rest[0], Index) or bool(getattr(rest[0], "indexed", False))
    if sort in ("e", "w"):
        return any(_depends(part) for part, _ in rest[0])
    if sort in ("log", "abs"):
        return any(_depends(part) for (monomial, _), _ in rest[0] for part, _ in monomial)
    return False


def _trim(word: Word) -> tuple[Word, Word, Word]:
    """What stands left of the first matrix that depends on the index, up to the last one, and right of it."""
    places = [i for i, letter in enumerate(word) if _depends(letter)]
    if not places:
        return word, (), ()
    first, last = places[0], places[-1] + 1
    return word[:first], word[first:last], word[last:]


def _exponential(sort: str, argument: Polynomial) -> Polynomial:
    product = number(1)
    for (monomial, _), value in argument.items():
        product = multiply(product, atom((sort, monomial), value))
    return product


def _logarithm(argument: Polynomial) -> Polynomial:
    if not argument:
        raise ValueError("the logarithm of zero")
    if len(argument) > 1:
        return atom(("log", freeze(argument)))
    (((monomial, _), value),) = argument.items()
    if value < 0 or not all(_is_positive(name) for name, _ in monomial):
        raise ValueError("the logarithm of a product whose factors need not be positive")
    total: Polynomial = {} if value == 1 else atom(("log", freeze(number(value))))
    for name, size in monomial:
        if name[0] == "e":
            total = add(total, {(name[1], ()): size})
        else:
            total = add(total, scale(size, atom(("log", freeze(atom(name))))))
    return total


def _is_positive(name: Atom) -> bool:
    return name[0] == "e" or (name[0] == "x" and bool(name[1].is_positive))


def _absolute(argument: Polynomial) -> Polynomial:
    names = {name for monomial, _ in argument for name, _ in monomial}
    for name in sorted((name for name in names if is_indicator(name)), key=repr):
        inside, outside = (_absolute(set_atom(argument, name, value)) for value in (1, 0))
        rest = add(number(1), scale(-1, atom(name)))
        return add(multiply(atom(name), inside), multiply(rest, outside))
    if not argument:
        return {}
    opposite = scale(-1, argument)
    return atom(("abs", max(freeze(argument), freeze(opposite), key=repr_of)))


def repr_of(key: Frozen) -> str:
    return repr(sorted(map(repr, key)))


def monomial_of(term: Polynomial) -> Monomial | None:
    """The monomial of a polynomial that has one term, without matrices."""
    if len(term) != 1:
        return None
    ((monomial, word),) = term
    return None if word else monomial
