"""Proofs about elementary functions: derivatives, and identities in exp, log, sin and cos.

Derivatives are carried out, sums of angles and of exponents are expanded, and each remaining
exp, sin, cos or log becomes a symbol, an `Index` where its argument depends on the key, with
sin² = 1 − cos². The sum kernel then decides the resulting polynomial identity. An integral is proved
by its antiderivative: the derivative of A is the integrand, and A(b) − A(a) is the value. On a rotary
plane J is a symbol with J² = −1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

import sympy as sp
from sympy.core.function import AppliedUndef

from proofs.prover.certificates import ProofCertificate
from proofs.prover.grammar import admit, limits_of
from proofs.prover.sums import prove, substitute
from proofs.prover.syntax import Hypothesis, Index, RefusalError, is_indexed

FUNCTIONS = (sp.exp, sp.log, sp.sin, sp.cos, AppliedUndef)


def prove_elementary(
    name: str,
    lhs: sp.Expr,
    rhs: sp.Expr,
    hypotheses: Sequence[Hypothesis] = (),
    nonzero: Iterable[sp.Expr] = (),
) -> ProofCertificate:
    """A certificate of lhs = rhs as a polynomial identity in the functions that occur."""
    nonzero = list(nonzero)
    admit((lhs, rhs), hypotheses, nonzero, functions=FUNCTIONS)
    definitions = [pair for pair in hypotheses if isinstance(pair[0], Index)]
    relations = [pair for pair in hypotheses if not isinstance(pair[0], Index)]
    places = [i for i, (pivot, _) in enumerate(hypotheses) if not isinstance(pivot, Index)]

    def ready(expr: sp.Expr) -> sp.Expr:
        # A definition may stand inside a function, so it comes before the functions get their symbols.
        for pivot, value in definitions:
            expr = substitute(sp.sympify(expr), {pivot: value})
        return _expand(expr)

    exprs = [ready(expr) for expr in (lhs, rhs, *(e for pair in relations for e in pair))]
    nonzero = [ready(expr) for expr in nonzero]
    names, circle, positive = _generators([*exprs, *nonzero])
    left, right, *pairs = (substitute(expr, names) for expr in exprs)
    endpoints = list(zip(pairs[::2], pairs[1::2], strict=True))
    allowed = [substitute(expr, names) for expr in nonzero] + list(positive)
    certificate = prove(name, left, right, [*endpoints, *circle], allowed)
    functions = {symbol: atom for atom, symbol in names.items() if symbol.is_Symbol} | positive
    steps = tuple(
        replace(
            step,
            hypothesis=places[step.hypothesis],
            coefficient=substitute(step.coefficient, functions),
        )
        for step in certificate.steps
        if step.hypothesis < len(endpoints)
    )
    return replace(certificate, steps=steps)


def prove_integral(
    name: str,
    lhs: sp.Expr,
    rhs: sp.Expr,
    antiderivative: sp.Expr,
    hypotheses: Sequence[Hypothesis] = (),
    nonzero: Sequence[sp.Expr] = (),
) -> ProofCertificate:
    """A certificate of factor·∫ f = rhs, given A with A' = factor·f."""
    factors = sp.Mul.make_args(lhs)
    integrals = [factor for factor in factors if isinstance(factor, sp.Integral)]
    if len(integrals) != 1 or rhs.has(sp.Integral):
        raise RefusalError(f"the left side must be one integral times a factor; got {lhs}")
    variable, lower, upper = limits_of(integrals[0])
    scale = sp.Mul(*(factor for factor in factors if factor is not integrals[0]))
    outside = (scale, rhs, lower, upper, *nonzero, *(e for pair in hypotheses for e in pair))
    if any(sp.sympify(expr).has(variable) for expr in outside):
        # A factor, a limit or a premise about the running variable would be moved under the integral.
        raise RefusalError(f"{variable} runs through the integral and may not occur outside it")
    slope = prove_elementary(
        name, antiderivative.diff(variable), scale * integrals[0].function, hypotheses, nonzero
    )
    if not slope.ok:
        return slope
    upper_value, lower_value = (
        cast("sp.Expr", antiderivative.subs(variable, end)) for end in (upper, lower)
    )
    result = prove_elementary(name, upper_value - lower_value, rhs, hypotheses, nonzero)
    note = f"antiderivative {sp.sstr(antiderivative)}"
    return replace(result, notes=(note, *result.notes), steps=(), parts=(slope, result))


def _expand(expr: sp.Expr) -> sp.Expr:
    expr = sp.sympify(expr).doit()
    # Angles are expanded before the addition theorems can apply to their sums.
    return sp.expand(sp.expand_trig(sp.expand(expr)), log=True)


def _symbol(atom: sp.Expr, **assumptions: bool) -> sp.Symbol:
    # e^1 prints as E, as a symbol of the statement might.
    text = sp.sstr(atom) if atom != sp.E else "exp(1)"
    name = text.replace("(", "[").replace(")", "]")
    return Index(name, **assumptions) if is_indexed(atom) else sp.Symbol(name, **assumptions)


def _generators(
    exprs: Sequence[sp.Expr],
) -> tuple[dict[sp.Expr, sp.Expr], list[Hypothesis], dict[sp.Expr, sp.Expr]]:
    """Symbols for the functions, the hypotheses sin² = 1 − cos², and what the positive symbols stand for."""
    atoms = set[sp.Expr]().union(*(expr.atoms(sp.Function) for expr in exprs))
    names: dict[sp.Expr, sp.Expr] = {}
    circle: list[Hypothesis] = []
    exponents: dict[sp.Expr, dict[sp.Expr, sp.Expr]] = {}
    for atom in sorted(atoms, key=sp.default_sort_key):
        if isinstance(atom, sp.exp):
            terms = sp.Add.make_args(sp.expand(atom.args[0]))
            exponents[atom] = {
                sp.Mul(*rest): coefficient
                for coefficient, rest in (term.as_coeff_mul() for term in terms)
            }
        else:
            names[atom] = _symbol(atom)
    if len(set(names.values())) < len(names):
        raise RefusalError(f"two functions print alike: {sorted(map(sp.sstr, names))}")
    for angle in {atom.args[0] for atom in names if isinstance(atom, sp.sin | sp.cos)}:
        sine, cosine = (_symbol(f(angle)) for f in (sp.sin, sp.cos))
        circle.append((sine**2, 1 - cosine**2))
    bases, positive = _exponential_bases(exponents.values())
    for atom, parts in exponents.items():
        names[atom] = sp.Mul(*(bases[m][0] ** (q * bases[m][1]) for m, q in parts.items()))
    return names, circle, positive


def _exponential_bases(
    exponents: Iterable[dict[sp.Expr, sp.Expr]],
) -> tuple[dict[sp.Expr, tuple[sp.Symbol, int]], dict[sp.Expr, sp.Expr]]:
    """For each monomial m one symbol e^{m/L}, so that every e^{q·m} is an integer power of it."""
    denominators: dict[sp.Expr, list[int]] = {}
    for parts in exponents:
        for monomial, coefficient in parts.items():
            if not isinstance(coefficient, sp.Rational):
                raise RefusalError(f"an exponent needs rational coefficients; got {coefficient}")
            denominators.setdefault(monomial, []).append(int(coefficient.q))
    bases: dict[sp.Expr, tuple[sp.Symbol, int]] = {}
    exponentials: dict[sp.Expr, sp.Expr] = {}
    for monomial, divisors in denominators.items():
        size = math.lcm(*divisors)
        exponential = sp.exp(monomial / size)
        symbol = _symbol(exponential, positive=True)
        bases[monomial], exponentials[symbol] = (symbol, size), exponential
    return bases, exponentials
