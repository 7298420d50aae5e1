"""Absolute values in the sum kernel: split over indicators, then one symbol for each that is left."""

from __future__ import annotations

from typing import cast

import sympy as sp

from proofs.prover.syntax import Index, RefusalError, S, is_indexed


class AbsoluteValues:
    """Names for the absolute values of one proof.

    An indicator is 0 or 1 at every key, so |f(1_S)| = 1_S·|f(1)| + (1 − 1_S)·|f(0)|. What remains has no
    indicator in it and becomes a symbol, an `Index` when its argument depends on the key.
    """

    def __init__(self) -> None:
        self._names: dict[sp.Expr, sp.Symbol] = {}

    @property
    def arguments(self) -> list[sp.Expr]:
        return list(self._names)

    def replace(self, expr: sp.Expr) -> sp.Expr:
        return cast(
            "sp.Expr",
            expr.replace(
                lambda node: isinstance(node, sp.Abs), lambda node: self._split(node.args[0])
            ),
        )

    def restore(self, expr: sp.Expr) -> sp.Expr:
        """The same expression with the absolute values themselves."""
        values = {name: sp.Abs(argument) for argument, name in self._names.items()}
        return cast("sp.Expr", expr.xreplace(values))

    def _split(self, argument: sp.Expr) -> sp.Expr:
        indicators = [i for i in argument.atoms(Index) if i.idempotent]
        if indicators and argument.has(S):
            raise RefusalError(f"an indicator beside a sum in an absolute value: |{argument}|")
        if not indicators:
            return self._name(argument)
        first = min(indicators, key=str)
        inside, outside = (self._split(argument.subs(first, value)) for value in (1, 0))
        return first * inside + (1 - first) * outside

    def _name(self, argument: sp.Expr) -> sp.Expr:
        argument = sp.expand(argument)
        if argument.is_nonnegative:
            return argument
        if argument not in self._names:
            name = f"|{sp.sstr(argument)}|".replace("(", "[").replace(")", "]")
            new = (
                Index(name, nonnegative=True)
                if is_indexed(argument)
                else sp.Symbol(name, nonnegative=True)
            )
            self._names[argument] = new
        return self._names[argument]
