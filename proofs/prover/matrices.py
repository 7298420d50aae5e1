"""Proofs about matrices of any compatible size: non-commuting letters, and sums of words over keys.

An expression becomes a finite sum of coefficient·word, or coefficient·Σ_j (monomial·word) when a
letter carries the index j; a letter free of j may be moved in and out of the sum from the side on
which it stands. Hypotheses rewrite words (H·n → 0, uᵀ·a → s). Two expressions are equal when every
word of their difference has a coefficient that the sum kernel proves to be zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import sympy as sp

from proofs.prover.certificates import ProofCertificate, Step
from proofs.prover.grammar import admit
from proofs.prover.sums import prove, substitute
from proofs.prover.syntax import Hypothesis, Index, Letter, RefusalError, S, is_indexed

Word = tuple["Letter", ...]
# (the commuting monomial under the sum, the word); the monomial is None outside a sum.
Key = tuple[sp.Expr | None, Word]
Words = dict[Key, sp.Expr]


def prove_matrices(
    name: str,
    lhs: sp.Expr,
    rhs: sp.Expr,
    hypotheses: Sequence[Hypothesis] = (),
    nonzero: Iterable[sp.Expr] = (),
) -> ProofCertificate:
    """A certificate of lhs = rhs; the first word whose coefficient is not zero is its refusal."""
    nonzero = list(nonzero)
    admit((lhs, rhs), hypotheses, nonzero, letters=True)
    rules = _rules(hypotheses)
    places = [i for i, (pivot, _) in enumerate(hypotheses) if pivot.is_commutative]
    commuting = [hypotheses[i] for i in places]
    for pivot, value in commuting:
        if isinstance(pivot, Index):
            lhs, rhs = substitute(lhs, {pivot: value}), substitute(rhs, {pivot: value})
    words, steps = _rewrite(_add(_words(lhs), _words(rhs), sign=-1), rules)
    notes = [f"{sp.sstr(pivot)} = {sp.sstr(value)}" for pivot, value in hypotheses]
    for (monomial, word), coefficient in words.items():
        part = prove(name, coefficient, sp.Integer(0), commuting, nonzero)
        if not part.ok:
            return ProofCertificate(
                name,
                part.residual,
                notes=tuple(notes),
                refusal=f"the coefficient of {_show((monomial, word))} is not zero: {part.refusal}",
            )
        steps += [
            replace(step, hypothesis=places[step.hypothesis], under=monomial, right=sp.Mul(*word))
            for step in part.steps
        ]
    notes += [
        f"({_show_hypothesis(hypotheses[step.hypothesis])}) in {_show_step(step)}" for step in steps
    ]
    return ProofCertificate(name, sp.Integer(0), notes=tuple(notes), steps=tuple(steps))


def _rules(hypotheses: Sequence[Hypothesis]) -> list[tuple[int, Key, Words]]:
    """The matrix hypotheses as (position, word, what replaces it)."""
    rules: list[tuple[int, Key, Words]] = []
    for position, (pivot, value) in enumerate(hypotheses):
        if pivot.is_commutative:
            continue
        pattern = _words(pivot)
        if len(pattern) != 1 or next(iter(pattern.values())) != 1:
            raise RefusalError(f"a matrix hypothesis must rewrite a single word; got {pivot}")
        replacement = _words(sp.sympify(value))
        (key,) = pattern
        if key[0] is None and any(monomial is not None for monomial, _ in replacement):
            # Under the sum of the word that it rewrites, this sum would lose its own index.
            raise RefusalError(
                f"{pivot} may not be replaced by {value}, which holds a sum of matrices"
            )
        rules.append((position, key, replacement))
    return rules


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
    raise RefusalError(f"not a polynomial in matrices: {expr}")


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
                raise RefusalError("a product of two sums of matrices is outside this method")
            for summed, free in ((first, tail), (second, word)):
                if summed is not None and any(letter.indexed for letter in free):
                    raise RefusalError(
                        "a matrix of one key beside a sum over keys is outside this method"
                    )
            monomial = second if first is None else first
            total = _add(total, {(monomial, word + tail): a * b})
    return total


def _sum(words: Words) -> Words:
    """Σ_j of coefficient·word: index-free coefficients leave the sum, the rest is its monomial."""
    total: Words = {}
    for (monomial, word), coefficient in words.items():
        if monomial is not None:
            if is_indexed(coefficient):
                raise RefusalError("a sum of matrices inside another one is outside this method")
            total = _add(total, {(monomial, word): coefficient * S(sp.Integer(1))})
            continue
        for term in sp.Add.make_args(sp.expand(coefficient)):
            factors = sp.Mul.make_args(term)
            inside = sp.Mul(*(_without_power(factor) for factor in factors if is_indexed(factor)))
            outside = sp.Mul(*(factor for factor in factors if not is_indexed(factor)))
            if any(letter.indexed for letter in word):
                total = _add(total, {(inside, word): outside})
            else:
                total = _add(total, {(None, word): outside * S(inside)})
    return total


def _without_power(factor: sp.Expr) -> sp.Expr:
    """The factor itself, or an indicator without its exponent."""
    base, exponent = factor.as_base_exp()
    indicator = isinstance(base, Index) and base.idempotent and exponent.is_positive
    return base if indicator else factor


def _rewrite(words: Words, rules: Sequence[tuple[int, Key, Words]]) -> tuple[Words, list[Step]]:
    """Apply the rules until none matches, and list where each was applied."""
    steps: list[Step] = []
    for _ in range(40):
        for position, pattern, replacement in rules:
            rewritten: Words = {}
            applied: list[Step] = []
            for key, coefficient in words.items():
                part, step = _replace(key, pattern, replacement, position)
                if step is not None:
                    applied.append(replace(step, coefficient=coefficient))
                for word, factor in part.items():
                    rewritten = _add(rewritten, {word: factor * coefficient})
            if applied:
                words = rewritten
                steps += applied
                break
        else:
            return words, steps
    raise RefusalError("the matrix hypotheses do not terminate")


def _replace(
    key: Key, pattern: Key, replacement: Words, position: int
) -> tuple[Words, Step | None]:
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
        place = None if whole else monomial
        step = Step(position, sp.Integer(1), place, sp.Mul(*before), sp.Mul(*after))
        if place is None:
            return rewritten, step
        return _sum({(None, new): place * factor for (_, new), factor in rewritten.items()}), step
    return {key: sp.Integer(1)}, None


def _show_hypothesis(hypothesis: Hypothesis) -> str:
    return f"{sp.sstr(hypothesis[0])} − {sp.sstr(hypothesis[1])}"


def _show_step(step: Step) -> str:
    product = f"[{sp.sstr(step.coefficient)}]·{sp.sstr(step.left)}·(…)·{sp.sstr(step.right)}"
    return product if step.under is None else f"Σ_j {sp.sstr(step.under)}·{product}"


def _show(key: Key) -> str:
    monomial, word = key
    text = "·".join(letter.name for letter in word) or "1"
    return text if monomial is None else f"Σ_j {monomial}·{text}"
