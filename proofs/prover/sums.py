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
from dataclasses import dataclass, replace
from typing import Any, cast

import sympy as sp

from proofs.prover.division import divide

Hypothesis = tuple[sp.Expr, sp.Expr]


class Index(sp.Symbol):
    """A real quantity attached to every index j; an idempotent one is an indicator, 1² = 1."""

    __slots__ = ("idempotent",)

    def __new__(cls, name: str, *, idempotent: bool = False, **assumptions: bool) -> Index:
        # Symbol caches by name and assumptions only, so the cached constructor would confuse
        # an indicator with an ordinary symbol of the same name.
        assumptions.setdefault("real", True)
        self = sp.Symbol.__xnew__(cls, name, **assumptions)  # type: ignore[attr-defined]
        self.idempotent = idempotent
        return self

    def _hashable_content(self) -> tuple[Any, ...]:
        return (*super()._hashable_content(), self.idempotent)

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, bool]]:
        (name,), assumptions = super().__getnewargs_ex__()
        return (name,), {**assumptions, "idempotent": self.idempotent}


class S(sp.Expr):
    """Σ_j of its argument, kept unevaluated so that statements stay trees."""

    def __new__(cls, body: Any) -> S:
        return super().__new__(cls, sp.sympify(body))

    def _eval_is_commutative(self) -> bool | None:
        return self.args[0].is_commutative

    def _eval_is_real(self) -> bool | None:
        return True if self.args[0].is_real else None

    def _eval_derivative(self, s: sp.Symbol) -> sp.Expr:
        # A finite sum is differentiated term by term.
        return S(sp.diff(self.args[0], s))


def is_indexed(expr: sp.Basic) -> bool:
    """Whether an `Index` occurs free, that is outside every S."""
    if isinstance(expr, Index):
        return True
    return not isinstance(expr, S) and any(is_indexed(arg) for arg in expr.args)


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
        raise ValueError(f"an index symbol may occur only as a polynomial; got {factor}")
    return base if base.idempotent else factor


@dataclass(frozen=True)
class ProofCertificate:
    """residual = Σ cofactor·condition, over denominators that are declared non-zero."""

    name: str
    residual: sp.Expr
    terms: tuple[tuple[sp.Expr, sp.Expr], ...] = ()
    denominator: sp.Expr = sp.S.One
    notes: tuple[str, ...] = ()
    refusal: str = ""

    @property
    def ok(self) -> bool:
        """The certificate itself, checked by plain expansion; nothing else is believed."""
        combination = sp.Add(*(cofactor * condition for cofactor, condition in self.terms))
        return not self.refusal and sp.expand(self.residual - combination) == 0

    def __str__(self) -> str:
        lines = [f"{'proved' if self.ok else 'NOT PROVED'}: {self.name}"]
        lines += [f"  {note}" for note in self.notes]
        if self.ok and not self.notes and all(cofactor == 0 for cofactor, _ in self.terms):
            lines.append("  both sides expand to the same terms")
        lines += [
            f"  [{sp.sstr(sp.factor(cofactor))}] · ({sp.sstr(condition)} = 0)"
            for cofactor, condition in self.terms
            if cofactor != 0
        ]
        if self.denominator != 1:
            lines.append(f"  over {sp.sstr(sp.factor(self.denominator))} ≠ 0")
        return "\n".join([*lines, f"  {self.refusal}"] if self.refusal else lines)


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
    _refuse_bad_pivots(hypotheses)
    definitions = [(pivot, value) for pivot, value in hypotheses if isinstance(pivot, Index)]
    relations = [(pivot, value) for pivot, value in hypotheses if not isinstance(pivot, Index)]

    def normal(expr: sp.Expr) -> sp.Expr:
        for pivot, value in definitions:
            expr = substitute(expr, {pivot: value})
        return normalise(expr.doit() if expr.has(sp.Derivative, sp.Subs) else expr)

    notes = tuple(f"for every j: {pivot} = {value}" for pivot, value in definitions)
    left, right = normal(lhs), normal(rhs)
    numerator, denominator = sp.fraction(sp.together(left - right))
    numerator = _reduce_indicators(sp.expand(numerator))
    conditions = [sp.expand(normal(pivot) - normal(value)) for pivot, value in relations]
    pivots = [normal(pivot).as_base_exp()[0] for pivot, _ in relations]
    for pivot in pivots:
        if not isinstance(pivot, sp.Symbol | S):
            raise ValueError(f"a definition turns a pivot into {pivot}, which is not one moment")
    cofactors, remainder = divide(numerator, conditions, pivots)
    refusal = ""
    if remainder != 0:
        refusal = f"remainder {sp.sstr(remainder)}"
    else:
        allowed = [normal(expr) for expr in nonzero]
        undeclared = _undeclared(left, allowed) + _undeclared(right, allowed)
        if undeclared:
            refusal = f"not declared non-zero: {', '.join(map(sp.sstr, undeclared))}"
    terms = tuple(zip(cofactors, conditions, strict=True))
    return ProofCertificate(name, numerator, terms, denominator, notes, refusal)


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
            if not (factor.is_nonnegative or square or sp.expand(factor) in expanded_facts):
                raise ValueError(f"no fact says that {factor} ≥ 0")
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
            raise ValueError(f"a pivot must be a symbol, a moment or a power of one; got {pivot}")
        if isinstance(base, S) and normalise(base) != base:
            raise ValueError(f"a pivot must be one moment; {pivot} is {normalise(pivot)}")
        if base in earlier:
            raise ValueError(f"{base} is the pivot of two hypotheses")
        if not _is_polynomial(value):
            raise ValueError(f"the value of {pivot} must be a polynomial; got {value}")
        earlier.append(base)
        pivots = [symbol for symbol in earlier if value.has(symbol)]
        if pivots:
            raise ValueError(f"the value of {pivot} uses {pivots[0]}, which is already a pivot")


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
    declared = {
        sp.expand(sign * factor)
        for base in allowed
        for factor in _factors(base)
        for sign in (1, -1)
    }
    return [factor for factor in _factors(denominator) if sp.expand(factor) not in declared]


def _factors(expr: sp.Expr) -> list[sp.Expr]:
    numerator = sp.fraction(sp.together(expr))[0]
    return [base for base, _ in sp.factor_list(numerator)[1]]
