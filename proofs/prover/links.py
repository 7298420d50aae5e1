"""Lemmas that a proof uses: each is a proved statement, and the kernel checks that it says what is used."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy as sp

from proofs.prover.grammar import bound, differentiated
from proofs.prover.syntax import Hypothesis, Index, Letter, RefusalError, is_indexed

# What is known of every real number; the rest of a symbol's assumptions says its sign or that it is whole.
REAL = frozenset(("real", "extended_real", "complex", "finite", "commutative", "hermitian"))


@dataclass(frozen=True)
class Link:
    """A hypothesis pivot = value, or a fact ≥ 0, that is a lemma once its symbols are given their meaning.

    Under `meaning` the hypothesis is `factor` times the lemma: pivot − value = factor·(lhs − rhs). A symbol
    means what has its own sort, no more: a positive one means nothing that could be negative.
    """

    lemma: Any
    hypothesis: Hypothesis | None = None
    fact: sp.Expr | None = None
    meaning: Mapping[sp.Expr, sp.Expr] = field(default_factory=dict, hash=False)
    factor: sp.Expr = sp.S.One

    def reason(self, statement: Any) -> str:
        """Why the link does not hold, empty if it does."""
        if self.factor == 0:
            return "a link says nothing if its factor is zero"
        if sp.fraction(sp.together(self.factor))[1] != 1:
            return f"a link may not divide; its factor is {self.factor}"
        moving = bound(statement.lhs) | bound(statement.rhs)
        moving |= differentiated(statement.lhs) | differentiated(statement.rhs)
        for symbol, expr in self.meaning.items():
            if reason := _misfit(symbol, expr):
                return reason
            if moving & (expr.free_symbols | {symbol}):
                return f"{symbol} means {expr}, which is not fixed in {statement.name}"
        if self.hypothesis is not None:
            return self._equation(statement, self.hypothesis)
        if self.fact not in statement.facts:
            return f"{self.fact} is not a fact of {statement.name}"
        gap = self._read(self.fact) - (self.lemma.rhs - self.lemma.lhs)
        if self.lemma.relation != "≤" or sp.expand(gap) != 0:
            return f"{self.lemma.name} does not say that {self.fact} is not negative"
        return self._premises(statement)

    def _equation(self, statement: Any, hypothesis: Hypothesis) -> str:
        if hypothesis not in statement.hypotheses:
            return f"{hypothesis[0]} = {hypothesis[1]} is not a hypothesis of {statement.name}"
        gap = self._read(hypothesis[0]) - self._read(hypothesis[1])
        lemma = self.factor * (self.lemma.lhs - self.lemma.rhs)
        if sp.expand(gap) == 0:
            return (
                f"{hypothesis[0]} = {hypothesis[1]} holds by what its symbols mean, not by a lemma"
            )
        if self.lemma.relation != "=" or sp.expand(gap - lemma) != 0:
            return f"{self.lemma.name} does not say that {hypothesis[0]} = {hypothesis[1]}"
        return self._premises(statement)

    def _premises(self, statement: Any) -> str:
        """A lemma holds under its own premises, which the statement must have if it names their symbols."""
        pairs = (*statement.hypotheses, (statement.lhs, statement.rhs))
        trees = [*(e for pair in pairs for e in pair), *statement.facts, *statement.nonzero]
        trees += self.meaning.values()
        known: set[Any] = set().union(*(sp.sympify(tree).free_symbols for tree in trees))
        for premise in self.lemma.hypotheses:
            symbols: set[Any] = premise[0].free_symbols | sp.sympify(premise[1]).free_symbols
            if _is_said_by(premise, self.lemma):
                return f"{self.lemma.name} assumes what it says"
            is_read_otherwise = symbols & self.meaning.keys()
            if symbols & known and (premise not in statement.hypotheses or is_read_otherwise):
                return f"{self.lemma.name} needs {premise[0]} = {premise[1]}"
        for divisor in self.lemma.nonzero:
            is_read_otherwise = divisor.free_symbols & self.meaning.keys()
            missing = divisor not in statement.nonzero or is_read_otherwise
            if divisor.free_symbols & known and missing:
                return f"{self.lemma.name} needs {divisor} ≠ 0"
        if self.lemma.facts:
            return f"{self.lemma.name} assumes a sign, which a lemma may not"
        return "" if _is_proved(self.lemma) else f"the lemma {self.lemma.name} is not proved"

    def _read(self, expr: Any) -> sp.Expr:
        return sp.sympify(expr).xreplace(dict(self.meaning))


@dataclass(frozen=True)
class Transposed:
    """A matrix hypothesis that is another one with both sides transposed; `pairs` are transposes."""

    hypothesis: Hypothesis
    source: Hypothesis
    pairs: tuple[tuple[Letter, Letter], ...]
    lemma: None = None

    def reason(self, statement: Any) -> str:
        """Why the hypothesis is not the transpose of its source, empty if it is."""
        for pair in (self.hypothesis, self.source):
            if pair not in statement.hypotheses:
                return f"{pair[0]} = {pair[1]} is not a hypothesis of {statement.name}"
        partners: dict[Any, Any] = {}
        letters = [letter for pair in self.pairs for letter in dict.fromkeys(pair)]
        if len(set(letters)) < len(letters):
            return "a matrix has two transposes"
        for first, second in self.pairs:
            if first.shape != second.shape[::-1] or second.name != f"{first.name}^T":
                return f"{first} and {second} cannot be transposes"
            partners |= {first: second, second: first}
        turned = tuple(self._turn(side, partners) for side in self.source)
        return "" if turned == self.hypothesis else f"{self.hypothesis[0]} is not the transpose"

    def _turn(self, side: sp.Expr, partners: dict[Any, Any]) -> sp.Expr:
        letters = [node for node in sp.Mul.make_args(side) if isinstance(node, Letter)]
        numbers = [node for node in sp.Mul.make_args(side) if not isinstance(node, Letter)]
        if any(not node.is_commutative for node in numbers):
            raise ValueError(f"only a product of letters is transposed; got {side}")
        return sp.Mul(*numbers, *(partners[letter] for letter in reversed(letters)))


def refuse_two_meanings(links: Iterable[Link | Transposed]) -> None:
    """A symbol means one thing in all the links of a statement."""
    meanings: dict[sp.Expr, sp.Expr] = {}
    for link in links:
        for symbol, expr in link.meaning.items() if isinstance(link, Link) else ():
            if meanings.setdefault(symbol, expr) != expr:
                raise RefusalError(
                    f"{symbol} means {meanings[symbol]} in one link, {expr} in another"
                )


def _misfit(symbol: Any, expr: Any) -> str:
    """Why a symbol cannot mean an expression, empty if it can: one of every sign, or one for every key."""
    if not isinstance(symbol, sp.Symbol):
        return f"only a symbol has a meaning, and {symbol} is none"
    if is_indexed(expr) and not is_indexed(symbol):
        return f"{symbol} is one number and cannot mean {expr}, one for every key"
    if isinstance(symbol, Letter):
        return ""
    indicators = [i for i in expr.atoms(Index) if i.idempotent]
    choices = itertools.product((0, 1), repeat=len(indicators))
    cases = [expr.xreplace(dict(zip(indicators, map(sp.Integer, c), strict=True))) for c in choices]
    claimed = {name for name, holds in symbol.assumptions0.items() if holds} - REAL
    is_real = all(inner.is_real for inner in expr.free_symbols) and not expr.has(sp.log, sp.I)
    if (
        any(getattr(case, f"is_{name}") is not True for case in cases for name in claimed)
        or (symbol.is_real and not is_real)
        or (getattr(symbol, "idempotent", False) and not set(cases) <= {sp.S.Zero, sp.S.One})
    ):
        return f"nothing says that {expr} is of the sort of {symbol}"
    return ""


def _is_said_by(premise: Hypothesis, lemma: Any) -> bool:
    assumed, said = premise[0] - premise[1], lemma.lhs - lemma.rhs
    return sp.expand(assumed - said) == 0 or sp.expand(assumed + said) == 0


@functools.cache
def _is_proved(lemma: Any) -> bool:
    return lemma.prove().ok
