"""The trusted kernel of the symbolic proofs: the linear functional S[f] = Σ_j f_j.

Quantities attached to a key (or a plane, a head, a sample) are `Index` symbols; `S(f)` is an
unevaluated sum over them. A sum is only ever used through linearity, S[c·m] = c·S[m] with c free of
the index, so what reduces to zero holds for every finite index set. An identity is accepted on an
explicit certificate, numerator(lhs − rhs) = Σ cofactor·(pivot − value), which is checked again by
plain expansion; every denominator has to be declared non-zero. An inequality is accepted when its
gap equals a sum of declared non-negative products. Nothing here assumes anything about N.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import sympy as sp

from proofs.prover.absolute import AbsoluteValues
from proofs.prover.certificates import ProofCertificate, Step
from proofs.prover.division import choose_pivots, divide
from proofs.prover.grammar import admit
from proofs.prover.syntax import Hypothesis, Index, RefusalError, S, is_indexed


def normalise(expr: sp.Expr) -> sp.Expr:
    """Expand every S by linearity into moments S[monomial], innermost first."""
    moments = expr.replace(lambda node: isinstance(node, S), lambda node: _moments(node.args[0]))
    return cast("sp.Expr", moments)


def substitute(expr: sp.Expr, values: Mapping[Any, Any]) -> sp.Expr:
    """Replace whole nodes, under sums as well."""
    return cast("sp.Expr", expr.xreplace(dict(values)))


def _moments(body: sp.Expr) -> sp.Expr:
    total = sp.Integer(0)
    for term in sp.Add.make_args(sp.expand(body)):
        outside, inside = [], []
        for factor in sp.Mul.make_args(term):
            (inside if is_indexed(factor) else outside).append(_monomial(factor))
        total += sp.Mul(*outside) * S(sp.Mul(*inside))
    return total


def _monomial(factor: sp.Expr) -> sp.Expr:
    base, exponent = factor.as_base_exp()
    if not is_indexed(factor):
        return factor
    if not (isinstance(base, Index) and exponent.is_Integer and exponent.is_positive):
        raise RefusalError(f"an index symbol may occur only as a polynomial; got {factor}")
    return base if base.idempotent else factor


def prove(
    name: str,
    lhs: sp.Expr,
    rhs: sp.Expr,
    hypotheses: Sequence[Hypothesis] = (),
    nonzero: Iterable[sp.Expr] = (),
) -> ProofCertificate:
    """A certificate of lhs = rhs from hypotheses pivot = value.

    A pivot that is an `Index` is a definition for every j and is substituted; any other pivot is a
    symbol, a moment, or a power of one, and is divided out. A value may use only later pivots:
    the pivots are then a Gröbner basis, so that division decides membership in the ideal.
    """
    nonzero = list(nonzero)
    admit((lhs, rhs), hypotheses, nonzero, functions=(sp.Abs,))
    _refuse_bad_pivots(hypotheses)
    definitions = [(pivot, value) for pivot, value in hypotheses if isinstance(pivot, Index)]
    places = [i for i, (pivot, _) in enumerate(hypotheses) if not isinstance(pivot, Index)]
    relations = [hypotheses[i] for i in places]
    names = AbsoluteValues()

    def normal(expr: sp.Expr) -> sp.Expr:
        for pivot, value in definitions:
            expr = substitute(expr, {pivot: value})
        expr = expr.doit() if expr.has(sp.Derivative, sp.Subs) else expr
        return normalise(names.replace(expr))

    notes = tuple(f"for every j: {pivot} = {value}" for pivot, value in definitions)
    left, right = normal(lhs), normal(rhs)
    if left.has(sp.nan, sp.zoo, sp.oo) or right.has(sp.nan, sp.zoo, sp.oo):
        raise RefusalError(f"{name}: a side is undefined")
    numerator, denominator = sp.fraction(sp.together(left - right))
    numerator = _reduce_indicators(sp.expand(numerator))
    allowed = [normal(expr) for expr in nonzero]
    conditions = [
        _reduce_indicators(sp.expand(normal(pivot) - normal(value))) for pivot, value in relations
    ]
    bases = [normal(pivot).as_base_exp()[0] for pivot, _ in relations]
    conditions, units, pivots, order = choose_pivots(conditions, bases, _declared(allowed))

    cofactors: list[sp.Expr] = [sp.Integer(0)] * len(pivots)
    quotients, remainder = divide(
        numerator, [conditions[i] for i in order], [pivots[i] for i in order]
    )
    for i, quotient in zip(order, quotients, strict=True):
        cofactors[i] = quotient
    refusal = ""
    if remainder != 0:
        refusal = f"remainder {sp.sstr(remainder)}"
    else:
        parts = (left, right, *map(normal, names.arguments))
        undeclared = [factor for part in parts for factor in _undeclared(part, allowed)]
        if undeclared:
            refusal = f"not declared non-zero: {', '.join(map(sp.sstr, undeclared))}"
    steps = tuple(
        Step(place, names.restore(cofactor / (unit * denominator)))
        for place, cofactor, unit in zip(places, cofactors, units, strict=True)
        if cofactor != 0
    )
    terms = tuple(zip(cofactors, conditions, strict=True))
    return ProofCertificate(name, numerator, terms, denominator, notes, refusal, steps)


def prove_nonnegative(
    name: str,
    gap: sp.Expr,
    witness: Sequence[tuple[sp.Expr, Sequence[sp.Expr]]],
    facts: Iterable[sp.Expr],
    hypotheses: Sequence[Hypothesis] = (),
    nonzero: Iterable[sp.Expr] = (),
    *,
    pointwise: bool = False,
) -> ProofCertificate:
    """A certificate of gap = Σ coefficient·S[Π factors], each of them ≥ 0 by a declared fact.

    With `pointwise` the products stand for one j and are not summed.
    """
    expanded_facts = {sp.expand(fact) for fact in facts}
    for coefficient, factors in witness:
        for factor in (coefficient, *factors):
            base, exponent = factor.as_base_exp()
            square = base.is_real and exponent.is_Integer and exponent % 2 == 0
            known = factor.is_nonnegative or square or _is_absolute_gap(factor)
            if not (known or sp.expand(factor) in expanded_facts):
                raise RefusalError(f"no fact says that {factor} ≥ 0")
    total = sp.Integer(0)
    notes: list[str] = []
    for coefficient, factors in witness:
        product = sp.Mul(*factors)
        part = S(product) if is_indexed(product) and not pointwise else product
        total += coefficient * part
        notes.append(f"the gap contains {sp.sstr(coefficient * part)} ≥ 0")
    certificate = prove(name, gap, total, hypotheses, nonzero)
    return replace(certificate, notes=(*certificate.notes, *notes))


def _refuse_bad_pivots(hypotheses: Sequence[Hypothesis]) -> None:
    earlier: list[sp.Expr] = []
    for pivot, value in hypotheses:
        base, exponent = pivot.as_base_exp()
        if not (isinstance(base, sp.Symbol | S) and exponent.is_Integer and exponent.is_positive):
            raise RefusalError(f"a pivot must be a symbol, a moment or a power of one; got {pivot}")
        if isinstance(base, S) and normalise(base) != base:
            raise RefusalError(f"a pivot must be one moment; {pivot} is {normalise(pivot)}")
        if base in earlier:
            raise RefusalError(f"{base} is the pivot of two hypotheses")
        if not (isinstance(base, Index) or _is_polynomial(value)):
            raise RefusalError(f"the value of {pivot} must be a polynomial; got {value}")
        earlier.append(base)
        pivots = [symbol for symbol in earlier if value.has(symbol)]
        if pivots:
            raise RefusalError(f"the value of {pivot} uses {pivots[0]}, which is already a pivot")


def _reduce_indicators(expr: sp.Expr) -> sp.Expr:
    # Outside a sum an index stands for any one j, where 1_S(j)ⁿ = 1_S(j) as well.
    powers = {
        power: power.base
        for power in expr.atoms(sp.Pow)
        if isinstance(power.base, Index) and power.base.idempotent and power.exp.is_positive
    }
    return sp.expand(substitute(expr, powers)) if powers else expr


def _is_polynomial(expr: sp.Basic) -> bool:
    if isinstance(expr, sp.Pow):
        natural = expr.exp.is_Integer and expr.exp.is_positive
        return bool(natural) and _is_polynomial(expr.base)
    if isinstance(expr, sp.Add | sp.Mul):
        return all(_is_polynomial(arg) for arg in expr.args)
    return isinstance(expr, sp.Symbol | sp.Number | S)


def _undeclared(expr: sp.Expr, allowed: Sequence[sp.Expr]) -> list[sp.Expr]:
    denominator = sp.fraction(sp.together(expr))[1]
    if denominator.is_number or denominator in allowed:
        return []
    declared = _declared(allowed)
    return [factor for factor in _factors(denominator) if sp.expand(factor) not in declared]


def _declared(allowed: Sequence[sp.Expr]) -> set[sp.Expr]:
    """The factors of the expressions that are declared non-zero, with both signs."""
    return {
        sp.expand(sign * factor)
        for base in allowed
        for factor in _factors(base)
        for sign in (1, -1)
    }


def _is_absolute_gap(factor: sp.Expr) -> bool:
    """Whether a factor is |x| − x or |x| + x of a real x."""
    return any(
        node.args[0].is_real and sp.expand(factor - node - sign * node.args[0]) == 0
        for node in factor.atoms(sp.Abs)
        for sign in (1, -1)
    )


def _factors(expr: sp.Expr) -> list[sp.Expr]:
    numerator = sp.fraction(sp.together(expr))[0]
    return [base for base, _ in sp.factor_list(numerator)[1]]
