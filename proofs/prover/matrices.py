"""Proofs about matrices of any compatible size: non-commuting letters, and sums of words over keys.

An expression becomes a finite sum of coefficient·word, or coefficient·Σ_j (monomial·word) when a
letter carries the index j; a letter free of j may be moved in and out of the sum from the side on
which it stands. Hypotheses rewrite words (H·n → 0, uᵀ·a → s). Two expressions are equal when every
word of their difference has a coefficient that the sum kernel proves to be zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sympy as sp

from proofs.prover.sums import Hypothesis, Index, ProofCertificate, S, is_indexed, prove, substitute

Word = tuple["Letter", ...]
# (the commuting monomial under the sum, the word); the monomial is None outside a sum.
Key = tuple[sp.Expr | None, Word]
Words = dict[Key, sp.Expr]


class Letter(sp.Symbol):
    """A matrix of the named shape; an indexed letter is one matrix for every j."""

    __slots__ = ("indexed", "shape")

    def __new__(cls, name: str, rows: str, cols: str, *, indexed: bool = False) -> Letter:
        self = sp.Symbol.__xnew__(cls, name, commutative=False)  # type: ignore[attr-defined]
        self.shape, self.indexed = (rows, cols), indexed
        return self

    def _hashable_content(self) -> tuple[Any, ...]:
        return (*super()._hashable_content(), self.shape, self.indexed)

    def __getnewargs_ex__(self) -> tuple[Any, dict[str, bool]]:
        return (self.name, *self.shape), {"indexed": self.indexed}


def shape(expr: sp.Basic) -> tuple[str, str] | None:
    """The shape of an expression, None for a number; matrices that do not fit are an error."""
    if isinstance(expr, Letter):
        dimensions = expr.shape
    elif isinstance(expr, sp.Add):
        shapes = [shape(arg) for arg in expr.args]
        dimensions, *others = {each for each in shapes if each} or {None}
        # A number beside a square matrix is a multiple of the identity.
        if others or (None in shapes and dimensions and dimensions[0] != dimensions[1]):
            raise ValueError(f"matrices of different shapes are added in {expr}")
    elif isinstance(expr, sp.Mul):
        dimensions = None
        for step in (shape(arg) for arg in expr.args):
            if dimensions and step and dimensions[1] != step[0]:
                raise ValueError(f"matrices that do not fit are multiplied in {expr}")
            dimensions = (dimensions[0], step[1]) if dimensions and step else dimensions or step
    elif isinstance(expr, S):
        dimensions = shape(expr.args[0])
    else:
        dimensions = None
    return None if dimensions == ("1", "1") else dimensions


def prove_matrices(
    name: str,
    lhs: sp.Expr,
    rhs: sp.Expr,
    hypotheses: Sequence[Hypothesis] = (),
    nonzero: Iterable[sp.Expr] = (),
) -> ProofCertificate:
    """A certificate of lhs = rhs; the first word whose coefficient is not zero is its refusal."""
    rules, commuting = _split(hypotheses)
    for pivot, value in commuting:
        if isinstance(pivot, Index):
            lhs, rhs = substitute(lhs, {pivot: value}), substitute(rhs, {pivot: value})
    words = _rewrite(_add(_words(lhs), _words(rhs), sign=-1), rules)
    notes = [f"{sp.sstr(pivot)} = {sp.sstr(value)}" for pivot, value in hypotheses]
    for key, coefficient in words.items():
        part = prove(name, coefficient, sp.Integer(0), commuting, nonzero)
        notes += [
            f"{_show(key)}: [{sp.sstr(cofactor)}] · ({sp.sstr(condition)} = 0)"
            for cofactor, condition in part.terms
            if cofactor != 0
        ]
        if not part.ok:
            return ProofCertificate(
                name,
                part.residual,
                (),
                notes=tuple(notes),
                refusal=f"the coefficient of {_show(key)} is not zero: {part.refusal}",
            )
    return ProofCertificate(name, sp.Integer(0), notes=tuple(notes))


def _split(hypotheses: Sequence[Hypothesis]) -> tuple[dict[Key, Words], list[Hypothesis]]:
    rules: dict[Key, Words] = {}
    commuting: list[Hypothesis] = []
    for pivot, value in hypotheses:
        if pivot.is_commutative:
            commuting.append((pivot, value))
            continue
        pattern = _words(pivot)
        if len(pattern) != 1 or next(iter(pattern.values())) != 1:
            raise ValueError(f"a matrix hypothesis must rewrite a single word; got {pivot}")
        rules[next(iter(pattern))] = _words(value)
    return rules, commuting


def _words(expr: Any) -> Words:
    if expr.is_commutative:
        return {(None, ()): expr} if expr != 0 else {}
    if isinstance(expr, Letter):
        return {(None, (expr,)): sp.Integer(1)}
    if isinstance(expr, sp.Add):
        total: Words = {}
        for arg in expr.args:
            total = _add(total, _words(arg))
        return total
    if isinstance(expr, sp.Mul):
        product: Words = {(None, ()): sp.Integer(1)}
        for arg in expr.args:
            product = _multiply(product, _words(arg))
        return product
    if isinstance(expr, sp.Pow) and expr.exp.is_Integer and expr.exp.is_positive:
        return _words(sp.Mul(*[expr.base] * int(expr.exp), evaluate=False))
    if isinstance(expr, S):
        return _sum(_words(expr.args[0]))
    raise ValueError(f"not a polynomial in matrices: {expr}")


def _add(left: Words, right: Words, *, sign: int = 1) -> Words:
    total = dict(left)
    for key, coefficient in right.items():
        total[key] = sp.expand(total.get(key, sp.Integer(0)) + sign * coefficient)
    return {key: coefficient for key, coefficient in total.items() if coefficient != 0}


def _multiply(left: Words, right: Words) -> Words:
    total: Words = {}
    for (first, word), a in left.items():
        for (second, tail), b in right.items():
            if first is not None and second is not None:
                raise ValueError("a product of two sums of matrices is outside this method")
            monomial = second if first is None else first
            total = _add(total, {(monomial, word + tail): a * b})
    return total


def _sum(words: Words) -> Words:
    """Σ_j of coefficient·word: index-free coefficients leave the sum, the rest is its monomial."""
    total: Words = {}
    for (monomial, word), coefficient in words.items():
        if monomial is not None:
            total = _add(total, {(monomial, word): coefficient})
            continue
        for term in sp.Add.make_args(sp.expand(coefficient)):
            factors = sp.Mul.make_args(term)
            inside = sp.Mul(*(factor for factor in factors if is_indexed(factor)))
            outside = sp.Mul(*(factor for factor in factors if not is_indexed(factor)))
            if any(letter.indexed for letter in word):
                total = _add(total, {(inside, word): outside})
            else:
                total = _add(total, {(None, word): outside * S(inside)})
    return total


def _rewrite(words: Words, rules: dict[Key, Words]) -> Words:
    """Apply the rules until none matches; every rule shortens a word or removes a letter."""
    for _ in range(20):
        for pattern, replacement in rules.items():
            rewritten: Words = {}
            for key, coefficient in words.items():
                part = _replace(key, pattern, replacement)
                for word, factor in part.items():
                    rewritten = _add(rewritten, {word: factor * coefficient})
            if rewritten != words:
                words = rewritten
                break
        else:
            return words
    raise ValueError("the matrix hypotheses do not terminate")


def _replace(key: Key, pattern: Key, replacement: Words) -> Words:
    (monomial, word), (under, letters) = key, pattern
    size = len(letters)
    for start in range(len(word) - size + 1):
        if word[start : start + size] != letters:
            continue
        before, after = word[:start], word[start + size :]
        # A whole sum, such as Σ_j v_j = N·μ: what stands beside it must be free of the index.
        whole = under is not None
        if whole and (monomial != under or any(letter.indexed for letter in before + after)):
            continue
        rewritten = _multiply(
            {(None, before): sp.Integer(1)},
            _multiply(replacement, {(None, after): sp.Integer(1)}),
        )
        if whole or monomial is None:
            return rewritten
        return _sum({(None, new): monomial * factor for (_, new), factor in rewritten.items()})
    return {key: sp.Integer(1)}


def _show(key: Key) -> str:
    monomial, word = key
    text = "·".join(letter.name for letter in word) or "1"
    return text if monomial is None else f"Σ_j {monomial}·{text}"
