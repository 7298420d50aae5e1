"""The language of the statements: what a tree may be built from, and nothing about proving.

Quantities attached to a key (or a plane, a head, a sample) are `Index` symbols, `S(f)` is the sum of f over
them, and a `Letter` is a matrix. The prover and the checker of its certificates share this file only.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

Hypothesis = tuple[sp.Expr, sp.Expr]


class RefusalError(ValueError):
    """A statement that the kernel cannot treat; the message says what in it and why."""


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


def is_indexed(expr: sp.Basic) -> bool:
    """Whether an `Index` or an indexed `Letter` occurs free, that is outside every S."""
    if isinstance(expr, Index) or (isinstance(expr, Letter) and expr.indexed):
        return True
    return not isinstance(expr, S) and any(is_indexed(arg) for arg in expr.args)


def shape(expr: sp.Basic) -> tuple[str, str] | None:
    """The shape of an expression, None for a number; matrices that do not fit are an error."""
    if isinstance(expr, Letter):
        dimensions = expr.shape
    elif isinstance(expr, sp.Add):
        shapes = [shape(arg) for arg in expr.args]
        dimensions, *others = {each for each in shapes if each} or {None}
        # A number beside a square matrix is a multiple of the identity.
        if others or (None in shapes and dimensions and dimensions[0] != dimensions[1]):
            raise RefusalError(f"matrices of different shapes are added in {expr}")
    elif isinstance(expr, sp.Mul):
        dimensions = None
        for step in (shape(arg) for arg in expr.args):
            if dimensions and step and dimensions[1] != step[0]:
                raise RefusalError(f"matrices that do not fit are multiplied in {expr}")
            dimensions = (dimensions[0], step[1]) if dimensions and step else dimensions or step
    elif isinstance(expr, sp.Pow):
        dimensions = shape(expr.base)
        if dimensions and dimensions[0] != dimensions[1]:
            raise RefusalError(f"a matrix that is not square has no powers: {expr}")
    elif isinstance(expr, S):
        dimensions = shape(expr.args[0])
    else:
        dimensions = None
    return None if dimensions == ("1", "1") else dimensions
