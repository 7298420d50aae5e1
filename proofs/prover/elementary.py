"""Proofs about elementary functions: derivatives, and identities in exp, log, sin and cos.

Derivatives are carried out, sums of angles and of exponents are expanded, and each remaining
exp, sin, cos or log becomes a symbol, with sin² = 1 − cos². The sum kernel then decides the
resulting polynomial identity. An integral is proved by its antiderivative: the derivative of A is
the integrand, and A(b) − A(a) is the value. On a rotary plane J is a symbol with J² = −1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import cast

import sympy as sp

from proofs.prover.sums import Hypothesis, ProofCertificate, prove, substitute


def prove_elementary(
    name: str,
    lhs: sp.Expr,
    rhs: sp.Expr,
    hypotheses: Sequence[Hypothesis] = (),
    nonzero: Iterable[sp.Expr] = (),
) -> ProofCertificate:
    """A certificate of lhs = rhs as a polynomial identity in the functions that occur."""
    exprs = [_expand(expr) for expr in (lhs, rhs, *(e for pair in hypotheses for e in pair))]
    nonzero = [_expand(expr) for expr in nonzero]
    names, circle, positive = _generators([*exprs, *nonzero])
    left, right, *pairs = (substitute(expr, names) for expr in exprs)
    endpoints = list(zip(pairs[::2], pairs[1::2], strict=True))
    allowed = [substitute(expr, names) for expr in nonzero] + positive
    return prove(name, left, right, [*endpoints, *circle], allowed)


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
    if len(integrals) != 1 or len(integrals[0].limits) != 1 or rhs.has(sp.Integral):
        raise ValueError(f"the left side must be one integral times a factor; got {lhs}")
    variable, lower, upper = integrals[0].limits[0].args
    scale = sp.Mul(*(factor for factor in factors if factor is not integrals[0]))
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
    return ProofCertificate(
        name,
        result.residual,
        result.terms,
        result.denominator,
        (note, *result.notes),
        result.refusal,
    )


def _expand(expr: sp.Expr) -> sp.Expr:
    expr = sp.sympify(expr).doit()
    # Angles are expanded before the addition theorems can apply to their sums.
    return sp.expand(sp.expand_trig(sp.expand(expr)), log=True)


def _generators(
    exprs: Sequence[sp.Expr],
) -> tuple[dict[sp.Expr, sp.Expr], list[Hypothesis], list[sp.Expr]]:
    """Symbols for the functions, the hypotheses sin² = 1 − cos², and the positive symbols."""
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
            names[atom] = sp.Symbol(sp.sstr(atom))
    if len(set(names.values())) < len(names):
        raise ValueError(f"two functions print alike: {sorted(map(sp.sstr, names))}")
    for angle in {atom.args[0] for atom in names if isinstance(atom, sp.sin | sp.cos)}:
        sine, cosine = (sp.Symbol(sp.sstr(f(angle))) for f in (sp.sin, sp.cos))
        circle.append((sine**2, 1 - cosine**2))
    bases, positive = _exponential_bases(exponents.values())
    for atom, parts in exponents.items():
        names[atom] = sp.Mul(*(bases[m][0] ** (q * bases[m][1]) for m, q in parts.items()))
    return names, circle, positive


def _exponential_bases(
    exponents: Iterable[dict[sp.Expr, sp.Expr]],
) -> tuple[dict[sp.Expr, tuple[sp.Symbol, int]], list[sp.Expr]]:
    """For each monomial m one symbol e^{m/L}, so that every e^{q·m} is an integer power of it."""
    denominators: dict[sp.Expr, list[int]] = {}
    for parts in exponents:
        for monomial, coefficient in parts.items():
            if not isinstance(coefficient, sp.Rational):
                raise ValueError(f"an exponent needs rational coefficients; got {coefficient}")
            denominators.setdefault(monomial, []).append(int(coefficient.q))
    bases = {
        monomial: (
            sp.Symbol(f"exp({sp.sstr(monomial / math.lcm(*divisors))})", positive=True),
            math.lcm(*divisors),
        )
        for monomial, divisors in denominators.items()
    }
    return bases, [symbol for symbol, _ in bases.values()]
