"""What the kernels can treat. Everything else is refused, with the reason, before any proof begins.

A kernel that meets a tree it was not written for may simplify it wrongly and accept a false statement, so
each lists what it knows: rational numbers, integer powers, sums over an index, the functions of its method.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from proofs.prover.syntax import Hypothesis, Index, Letter, RefusalError, S, is_indexed, shape


def admit(
    sides: Sequence[sp.Expr],
    hypotheses: Sequence[Hypothesis] = (),
    nonzero: Iterable[sp.Expr] = (),
    *,
    functions: tuple[type, ...] = (),
    letters: bool = False,
) -> None:
    """Refuse a statement that holds a node, a name or a bound variable outside the language of a method."""
    sides, nonzero = [sp.sympify(side) for side in sides], [sp.sympify(expr) for expr in nonzero]
    assumed = [sp.sympify(expr) for pair in hypotheses for expr in pair]
    for tree in (*sides, *assumed, *nonzero):
        _refuse_nodes(tree, functions, letters)
        if letters:
            shape(tree)
    if letters:
        for pivot, value in (tuple(sides[:2]), *hypotheses):
            shape(sp.sympify(pivot) - sp.sympify(value))
    refuse_shared_names((*sides, *assumed, *nonzero))
    _refuse_bound_variables(sides, assumed, nonzero)
    _refuse_bad_definitions(hypotheses)


def refuse_shared_names(trees: Iterable[sp.Basic]) -> None:
    """Two different symbols of one name print alike, so that no reader could tell what is claimed."""
    symbols: dict[str, sp.Basic] = {}
    for tree in trees:
        for symbol in tree.atoms(sp.Symbol):
            name = str(getattr(symbol, "name", symbol))
            if symbols.setdefault(name, symbol) != symbol:
                raise RefusalError(f"two different symbols are called {name}; rename one of them")


def refuse_odd_names(trees: Iterable[Any]) -> None:
    """A symbol may not be called like a function, a sum or a product: provers name these by their text."""
    for symbol in set().union(*(sp.sympify(tree).atoms(sp.Symbol) for tree in trees)):
        if set(symbol.name) & set("()[]|*/ "):
            raise RefusalError(f"a symbol may not be called like a function or a product: {symbol}")


def limits_of(integral: Any) -> tuple[Any, Any, Any]:
    """The variable of an integral and its two limits, which may be any finite numbers, of either sign."""
    if len(integral.limits) != 1 or len(integral.limits[0].args) != 3:
        raise RefusalError(f"an integral must have one variable and two limits; got {integral}")
    variable, lower, upper = integral.limits[0].args
    if variable != sp.Symbol(variable.name, real=True):
        raise RefusalError(
            f"an integral must run over a real symbol that nothing else is known of; got {variable}"
        )
    if sp.Tuple(lower, upper).has(sp.oo, sp.zoo, sp.nan):
        raise RefusalError(f"the limits of an integral must be finite; got {lower} and {upper}")
    return variable, lower, upper


def differentiated(tree: Any) -> set[Any]:
    """The variables of the derivatives in a tree."""
    return {variable for node in tree.atoms(sp.Derivative) for variable in node.variables}


def bound(tree: Any) -> set[Any]:
    """The variables that a tree binds: of integrals, of series and of evaluations at a point."""
    evaluated = {v for node in tree.atoms(sp.Subs) for v in node.variables}
    running = {limit[0] for node in tree.atoms(sp.Integral, sp.Sum) for limit in node.limits}
    return evaluated | running


def _refuse_nodes(node: Any, functions: tuple[type, ...], letters: bool) -> None:
    for reason in _reasons(node, functions, letters):
        raise RefusalError(f"{reason}: {sp.sstr(node)}")
    if isinstance(node, sp.Integral):
        return  # of a derivative of an undefined function, and nothing else
    children = node.args[:1] if isinstance(node, sp.Derivative | sp.Subs) else node.args
    for child in children:
        _refuse_nodes(child, functions, letters)


def _reasons(node: Any, functions: tuple[type, ...], letters: bool) -> Iterator[str]:
    if isinstance(node, Letter) and not letters:
        yield "this method does not treat matrices"
    elif isinstance(node, sp.Symbol):
        if not (node.is_commutative or isinstance(node, Letter)):
            yield "what does not commute must be a matrix of a shape"
    elif isinstance(node, sp.Pow):
        if not node.exp.is_Integer:
            yield "only integer powers are treated"
        elif node.exp.is_negative and not node.is_commutative:
            yield "the inverse of a matrix is not treated"
    elif isinstance(node, sp.Derivative):
        if node.atoms(AppliedUndef):
            yield "nothing is known of the derivative of an undefined function"
        elif any(isinstance(v, Index | Letter) for v in node.variables):
            yield "an index or a matrix is not a variable of differentiation"
    elif isinstance(node, sp.Subs):
        if any(is_indexed(point) or point.has(S) for point in node.args[2].args):
            yield "a point that depends on the index cannot be put under a sum"
        if any(isinstance(variable, Index | Letter) for variable in node.args[1].args):
            yield "an index or a matrix has no single value to be put at"
    elif isinstance(node, AppliedUndef):
        if not (AppliedUndef in functions and all(arg.is_Rational for arg in node.args)):
            yield "an undefined function is treated only at rational points"
    elif isinstance(node, sp.Function):
        if not isinstance(node, functions):
            yield f"this method does not treat {type(node).__name__}"
        elif not node.is_commutative:
            yield "a function of a matrix is not treated"
        elif isinstance(node, sp.log) and not node.args[0].is_positive:
            yield "nothing says that the argument of this logarithm is positive"
    elif isinstance(node, sp.Integral):
        if AppliedUndef not in functions or not _is_fundamental(node):
            yield "an integral needs its antiderivative"
    elif isinstance(node, sp.Number | sp.NumberSymbol) or node is sp.I or node is sp.zoo:
        if not isinstance(node, sp.Rational):
            yield "only rational numbers are treated"
    elif not isinstance(node, sp.Add | sp.Mul | S):
        yield f"this method does not treat {type(node).__name__}"


def _is_fundamental(node: Any) -> bool:
    """∫…∫ of the mixed derivative of an undefined function over rational limits, one for each variable."""
    derivative, variables = node.function, [limit[0] for limit in node.limits]
    return (
        isinstance(derivative, sp.Derivative)
        and isinstance(derivative.expr, AppliedUndef)
        and len(set(variables)) == len(variables)
        and sorted(derivative.variables, key=str) == sorted(variables, key=str)
        and sorted(derivative.expr.args, key=str) == sorted(variables, key=str)
        and all(len(limit) == 3 and all(e.is_Rational for e in limit[1:]) for limit in node.limits)
    )


def _refuse_bound_variables(
    sides: Sequence[sp.Expr], assumed: Sequence[sp.Expr], nonzero: Sequence[sp.Expr]
) -> None:
    inner = set().union(*(bound(tree) for tree in sides))
    outer = set().union(*(tree.free_symbols for tree in (*sides, *assumed, *nonzero)))
    for variable in sorted(inner & outer, key=str):
        raise RefusalError(f"{variable} is bound on one side and free elsewhere")
    moving = set().union(*(differentiated(tree) for tree in (*sides, *assumed)))
    fixed = set().union(*(tree.free_symbols for tree in assumed))
    for variable in sorted(moving & fixed, key=str):
        raise RefusalError(f"a hypothesis about {variable} cannot be differentiated by it")


def _refuse_bad_definitions(hypotheses: Sequence[Hypothesis]) -> None:
    for pivot, value in hypotheses:
        if isinstance(pivot, Index) and pivot.idempotent:
            square = sp.expand(sp.sympify(value) ** 2 - value)
            powers = {
                power: power.base
                for power in square.atoms(sp.Pow)
                if isinstance(power.base, Index) and power.base.idempotent
            }
            if sp.expand(square.xreplace(powers)) != 0:
                raise RefusalError(f"{pivot} is an indicator, and {value} need not be 0 or 1")
