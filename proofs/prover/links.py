"""Lemmas that a proof uses: each is a proved statement, and the kernel checks that it says what is used."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy as sp

from proofs.prover.syntax import Hypothesis, Letter, RefusalError, is_indexed


@dataclass(frozen=True)
class Link:
    """A hypothesis pivot = value, or a fact ≥ 0, that is a lemma once its symbols are given their meaning.

    Under `meaning` the hypothesis is `factor` times the lemma: pivot − value = factor·(lhs − rhs).
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
        for symbol, expr in self.meaning.items():
            if is_indexed(expr) and not is_indexed(symbol):
                return f"{symbol} is one number and cannot mean {expr}, one for every key"
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
        if self.lemma.relation != "=" or sp.expand(gap - lemma) != 0:
            return f"{self.lemma.name} does not say that {hypothesis[0]} = {hypothesis[1]}"
        return self._premises(statement)

    def _premises(self, statement: Any) -> str:
        """A lemma holds under its own hypotheses, which the statement must have if it knows their symbols."""
        known: set[Any] = set().union(
            *(side.free_symbols for side in (statement.lhs, statement.rhs))
        )
        for premise in self.lemma.hypotheses:
            symbols: set[Any] = premise[0].free_symbols | premise[1].free_symbols
            if symbols & known and premise not in statement.hypotheses:
                return f"{self.lemma.name} needs {premise[0]} = {premise[1]}"
            if _is_said_by(premise, self.lemma):
                return f"{self.lemma.name} assumes what it says"
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
            if first.shape != second.shape[::-1]:
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


def _is_said_by(premise: Hypothesis, lemma: Any) -> bool:
    assumed, said = premise[0] - premise[1], lemma.lhs - lemma.rhs
    return sp.expand(assumed - said) == 0 or sp.expand(assumed + said) == 0


@functools.cache
def _is_proved(lemma: Any) -> bool:
    return lemma.prove().ok
