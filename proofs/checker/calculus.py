"""Derivatives of trees for the checker, rule by rule, and the fundamental theorem for undefined functions."""

from __future__ import annotations

from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from proofs.prover.syntax import S

OUTER = {sp.exp: sp.exp, sp.sin: sp.cos, sp.cos: lambda x: -sp.sin(x), sp.log: lambda x: 1 / x}


def differentiate(tree: Any, variable: sp.Symbol) -> Any:
    """The derivative of a tree by a symbol."""
    if tree == variable:
        return sp.Integer(1)
    if not tree.has(variable):
        if tree.has(AppliedUndef):
            raise ValueError("nothing is known of the derivative of an undefined function")
        return sp.Integer(0)
    if isinstance(tree, sp.Add):
        return sp.Add(*(differentiate(arg, variable) for arg in tree.args))
    if isinstance(tree, sp.Mul):
        return sp.Add(
            *(
                sp.Mul(*tree.args[:i], differentiate(arg, variable), *tree.args[i + 1 :])
                for i, arg in enumerate(tree.args)
            )
        )
    if isinstance(tree, sp.Pow) and tree.exp.is_Integer:
        return tree.exp * tree.base ** (tree.exp - 1) * differentiate(tree.base, variable)
    if isinstance(tree, S):
        return S(differentiate(tree.args[0], variable))
    if type(tree) in OUTER:
        return OUTER[type(tree)](tree.args[0]) * differentiate(tree.args[0], variable)
    raise ValueError(f"the checker cannot differentiate {type(tree).__name__}")


def integrate(node: Any) -> Any:
    """∫…∫ of a mixed derivative of an undefined function: its values at the corners with their signs."""
    derivative = node.function
    variables = [limit[0] for limit in node.limits]
    names = sorted(variables, key=str)
    if (
        not isinstance(derivative, sp.Derivative)
        or not isinstance(derivative.expr, AppliedUndef)
        or any(
            sorted(each, key=str) != names for each in (derivative.variables, derivative.expr.args)
        )
        or len(set(names)) < len(names)
    ):
        raise ValueError("an integral needs its antiderivative")
    corners: Any = derivative.expr
    for variable, lower, upper in node.limits:
        corners = corners.xreplace({variable: upper}) - corners.xreplace({variable: lower})
    return corners
