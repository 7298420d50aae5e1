"""What a proof leaves behind: the steps by which the difference of the sides comes from the hypotheses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy as sp

ONE = sp.Integer(1)


@dataclass(frozen=True)
class Step:
    """coefficient·left·(pivot − value)·right, under a sum with the factor `under` if there is one.

    `hypothesis` is the position of pivot = value among the hypotheses of the statement, so each step is zero.
    """

    hypothesis: int
    coefficient: sp.Expr
    under: sp.Expr | None = None
    left: sp.Expr = ONE
    right: sp.Expr = ONE


@dataclass(frozen=True)
class Coefficients:
    """A power series: its coefficients below an order, then a general one as a function of `order`."""

    order: sp.Symbol
    low: tuple[sp.Expr, ...]
    general: sp.Expr

    def at(self, n: int) -> Any:
        return self.low[n] if n < len(self.low) else self.general.subs(self.order, n)


@dataclass(frozen=True)
class ProofCertificate:
    """lhs − rhs = Σ steps, or the common coefficients of two series, or the parts of an integral.

    `residual` = Σ cofactor·condition over `denominator` is the same in the words of the search, for display.
    """

    name: str
    residual: sp.Expr
    terms: tuple[tuple[sp.Expr, sp.Expr], ...] = ()
    denominator: sp.Expr = ONE
    notes: tuple[str, ...] = ()
    refusal: str = ""
    steps: tuple[Step, ...] = ()
    parts: tuple[ProofCertificate, ...] = ()
    series: Coefficients | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing was refused and the residual is the combination that it is said to be."""
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
