"""The second, smaller program: it takes a statement and the steps of its certificate and multiplies them out.

A certificate says lhs − rhs = Σ coefficient·left·(pivot − value)·right; each step is zero by its hypothesis.
The checker reads the trees of the statement itself, with its own arithmetic, and finds whether the two sides
of that equation are the same polynomial, and whether all that is divided by was declared non-zero. An
inequality has a sum of non-negative products besides, an integral two equations, a series one for each order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sympy as sp

from proofs.checker.calculus import differentiate
from proofs.checker.polynomials import Polynomial, add, divide, scale
from proofs.checker.series import check_series
from proofs.checker.trees import Reader, monomial_of
from proofs.prover.syntax import Index, S, is_indexed


def recheck(statement: Any, certificate: Any) -> str:
    """Why a certificate does not prove its statement, empty if it does."""
    try:
        return _reason(statement, certificate)
    except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
        return f"the certificate cannot be re-checked: {error}"


def _reason(statement: Any, certificate: Any) -> str:
    method = statement.method
    if hasattr(method, "variable"):
        return check_series(statement.lhs, statement.rhs, method.variable, certificate.series)
    if hasattr(method, "integrand"):
        return _check_sign(statement.lhs, statement.rhs)
    if hasattr(method, "antiderivative"):
        return _check_integral(statement, method.antiderivative, certificate.parts)
    goal = statement.lhs - statement.rhs
    if statement.relation == "≤":
        goal = statement.rhs - statement.lhs
        for coefficient, factors in method.witness:
            for factor in (coefficient, *factors):
                if not _is_nonnegative(factor, statement):
                    return f"nothing says that {factor} is not negative"
            product = sp.Mul(*factors)
            summed = is_indexed(product) and not method.pointwise
            goal -= coefficient * (S(product) if summed else product)
    return _check_equation(goal, statement, certificate.steps)


def _check_integral(statement: Any, antiderivative: Any, parts: Sequence[Any]) -> str:
    if len(parts) != 2:
        return "an integral needs the equation of its slope and the one of its ends"
    factors = sp.Mul.make_args(statement.lhs)
    integral: Any
    (integral,) = (factor for factor in factors if isinstance(factor, sp.Integral))
    ((variable, lower, upper),) = integral.limits
    is_signed = variable.is_nonnegative or variable.is_nonpositive
    if type(variable) is not sp.Symbol or is_signed or sp.Tuple(lower, upper).has(sp.oo, sp.zoo):
        return f"{variable} cannot run from {lower} to {upper}"
    outside = sp.Mul(*(factor for factor in factors if factor is not integral))
    assumed = [sp.sympify(tree) for pair in statement.hypotheses for tree in pair]
    if any(tree.has(variable) for tree in (outside, statement.rhs, *statement.nonzero, *assumed)):
        return f"{variable} occurs outside its integral"
    slope = differentiate(antiderivative, variable) - outside * integral.function
    ends = antiderivative.xreplace({variable: upper}) - antiderivative.xreplace({variable: lower})
    goals = (slope, ends - statement.rhs)
    reasons = (
        _check_equation(g, statement, part.steps) for g, part in zip(goals, parts, strict=True)
    )
    return next(filter(None, reasons), "")


def _check_sign(lhs: Any, integral: Any) -> str:
    """0 ≤ ∫ f: f is read as a product of exponentials and of distances from the two limits."""
    ((variable, lower, upper),) = integral.limits
    if type(variable) is not sp.Symbol:
        return f"{variable} cannot run through an integral"
    if lhs != 0 or not (lower.is_Rational and upper.is_Rational and lower < upper):
        return "the left side is not 0, or the limits are not in order"
    for factor in sp.Mul.make_args(integral.function):
        if isinstance(factor, sp.exp):
            good = _is_real(factor)
        else:
            # A linear function that is not negative at both limits is not negative between them.
            term = Reader().read(sp.Derivative(factor, variable, variable)).top
            values: list[Any] = [factor.xreplace({variable: end}) for end in (lower, upper)]
            good = not term and all(v.is_Rational and v >= 0 for v in values)
        if not good:
            return f"nothing says that {factor} is not negative"
    return ""


def _check_equation(goal: sp.Expr, statement: Any, steps: Sequence[Any]) -> str:
    reader = Reader()
    trees = [goal]
    for step in steps:
        pivot, value = statement.hypotheses[step.hypothesis]
        product = step.left * (pivot - value) * step.right
        trees.append(
            -step.coefficient * (product if step.under is None else S(step.under * product))
        )
    difference = reader.read(sp.Add(*(_defined(tree, statement) for tree in trees)))
    if difference.top:
        return f"the steps leave {len(difference.top)} terms of the difference"
    # A definition can cancel a denominator, so the goal is read once more as it is written.
    reader.read(goal)
    trees = [tree for raw in statement.nonzero for tree in (raw, _defined(raw, statement))]
    declared = [Reader().read(tree).top for tree in trees]
    zeros = [divisor for divisor in reader.divisors if not _is_nonzero(divisor, declared)]
    return f"{len(zeros)} divisors are not declared non-zero" if zeros else ""


def _defined(tree: Any, statement: Any) -> Any:
    """The tree with every definition of an index quantity put in."""
    tree = sp.sympify(tree)
    for pivot, value in statement.hypotheses:
        if isinstance(pivot, Index):
            tree = tree.xreplace({pivot: value})
    return tree


def _is_nonzero(term: Polynomial, declared: Iterable[Polynomial]) -> bool:
    declared = list(declared)
    single = [monomial for poly in declared if (monomial := monomial_of(poly)) is not None]
    known = {name for monomial in single for name, _ in monomial}
    for poly in (poly for poly in declared if len(poly) > 1):
        while len(term) > 1 and (quotient := divide(term, poly)) is not None:
            term = quotient
        whole = divide(poly, term) if len(term) > 1 else None
        if whole is not None and all(
            size > 0 or _never_zero(name, known) for key in whole for name, size in key[0]
        ):
            return True
    monomial = monomial_of(term)
    return monomial is not None and all(_never_zero(name, known) for name, _ in monomial)


def _never_zero(name: Any, known: set[Any]) -> bool:
    return name[0] in ("e", "w") or name in known


def _is_nonnegative(factor: Any, statement: Any) -> bool:
    """By its sign, as an even power, by a declared fact, or as |x| ± x."""
    if isinstance(factor, sp.Rational):
        return factor >= 0
    if isinstance(factor, sp.Symbol):
        return bool(factor.is_nonnegative) or _is_fact(factor, statement)
    if isinstance(factor, sp.Abs):
        return True
    if isinstance(factor, sp.Pow) and factor.exp.is_Integer:
        even = int(factor.exp) % 2 == 0 and _is_real(factor.base)
        return even or _is_nonnegative(factor.base, statement)
    if isinstance(factor, sp.Mul) and all(_is_nonnegative(arg, statement) for arg in factor.args):
        return True
    return _is_fact(factor, statement) or any(
        _is_real(node) and _same(factor, node + sign * node.args[0])
        for node in factor.atoms(sp.Abs)
        for sign in (1, -1)
    )


def _is_real(tree: Any) -> bool:
    return all(symbol.is_real for symbol in tree.atoms(sp.Symbol))


def _is_fact(factor: Any, statement: Any) -> bool:
    return any(_same(factor, fact) for fact in statement.facts)


def _same(left: Any, right: Any) -> bool:
    first, second = Reader().read(left), Reader().read(right)
    return first.below == second.below and not add(first.top, scale(-1, second.top))
