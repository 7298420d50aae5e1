"""A statement: two expressions, what is assumed of them, how they are proved, and an exact model.

The methods are one small class for each style of proof. Each takes its two sides from the
statement it is given, so that formula mutation can change a side and run the same proof again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import sympy as sp

from proofs.checker import recheck
from proofs.prover.certificates import ProofCertificate
from proofs.prover.elementary import prove_elementary, prove_integral
from proofs.prover.grammar import refuse_odd_names
from proofs.prover.links import Link, Transposed, refuse_two_meanings
from proofs.prover.matrices import prove_matrices
from proofs.prover.positivity import prove_positive_integral
from proofs.prover.series import prove_series
from proofs.prover.sums import prove, prove_nonnegative
from proofs.prover.syntax import Hypothesis, RefusalError

Method = Callable[["Statement"], ProofCertificate]
# Called with the environment of the exact model and a seeded generator.
Sampler = Callable[..., Any]
Definition = sp.Expr | Sampler

EVERY_N = "every N and every r (one generic coordinate of the values)"
EVERY_D = "every d (the index is the rotary plane)"
PLANE = "one rotary plane; every d by blocks"
MATRICES = "matrices of every compatible size"
SCALAR = "every real argument"


@dataclass(frozen=True)
class Sums:
    """Cofactor certificate over the linear functional S."""

    def __call__(self, statement: Statement) -> ProofCertificate:
        s = statement
        return prove(s.name, s.lhs, s.rhs, s.hypotheses, s.nonzero)


@dataclass(frozen=True)
class Nonnegative:
    """rhs − lhs is a sum of non-negative products, given as (coefficient, factors under S)."""

    witness: tuple[tuple[sp.Expr, tuple[sp.Expr, ...]], ...]
    pointwise: bool = False

    def __call__(self, statement: Statement) -> ProofCertificate:
        s = statement
        return prove_nonnegative(
            s.name,
            s.rhs - s.lhs,
            self.witness,
            s.facts,
            s.hypotheses,
            s.nonzero,
            pointwise=self.pointwise,
        )


@dataclass(frozen=True)
class Elementary:
    """Derivatives and identities in exp, log, sin, cos; a rotary plane through J² = −1."""

    def __call__(self, statement: Statement) -> ProofCertificate:
        s = statement
        return prove_elementary(s.name, s.lhs, s.rhs, s.hypotheses, s.nonzero)


@dataclass(frozen=True)
class Antiderivative:
    """An integral on the left side, by its antiderivative."""

    antiderivative: sp.Expr

    def __call__(self, statement: Statement) -> ProofCertificate:
        s = statement
        return prove_integral(s.name, s.lhs, s.rhs, self.antiderivative, s.hypotheses, s.nonzero)


@dataclass(frozen=True)
class Matrices:
    """Non-commuting letters with rewriting rules as hypotheses."""

    def __call__(self, statement: Statement) -> ProofCertificate:
        s = statement
        return prove_matrices(s.name, s.lhs, s.rhs, s.hypotheses, s.nonzero)


@dataclass(frozen=True)
class Series:
    """Coefficients of a power series in one square matrix, symbolic order."""

    variable: sp.Symbol

    def __call__(self, statement: Statement) -> ProofCertificate:
        return prove_series(statement.name, statement.lhs, statement.rhs, self.variable)


@dataclass(frozen=True)
class PositiveIntegrand:
    """0 ≤ ∫ f by the sign of every factor of f."""

    integrand: bool = True

    def __call__(self, statement: Statement) -> ProofCertificate:
        return prove_positive_integral(statement.name, statement.lhs, statement.rhs)


@dataclass(frozen=True, kw_only=True)
class Statement:
    """lhs = rhs (or ≤) under hypotheses pivot = value, with denominators `nonzero`.

    `facts` are expressions that are ≥ 0 by assumption. `links` say which hypotheses and facts are
    lemmas, proved elsewhere, and not assumptions of this statement. `model` defines symbols in the
    exact model, in terms of others or by a sampler; every symbol it leaves out is drawn freely by its
    sort. `smallest` is the least N at which the statement makes sense.
    """

    name: str
    lhs: sp.Expr
    rhs: sp.Expr
    scope: str
    relation: Literal["=", "≤"] = "="
    method: Method = field(default_factory=Sums)
    hypotheses: tuple[Hypothesis, ...] = ()
    nonzero: tuple[sp.Expr, ...] = ()
    facts: tuple[sp.Expr, ...] = ()
    links: tuple[Link | Transposed, ...] = ()
    model: tuple[tuple[Any, Definition], ...] = ()
    smallest: int = 1

    def prove(self) -> ProofCertificate:
        """The certificate of this statement, re-checked by the second program; its `ok` is the verdict."""
        if self.relation not in ("=", "≤"):
            raise RefusalError(f"{self.name}: a relation is = or ≤; got {self.relation}")
        pairs = (expr for pair in self.hypotheses for expr in pair)
        refuse_odd_names((self.lhs, self.rhs, *self.nonzero, *self.facts, *pairs))
        refuse_two_meanings(self.links)
        proves_inequality = isinstance(self.method, Nonnegative | PositiveIntegrand)
        if self.relation == "≤" and not proves_inequality:
            raise RefusalError(f"{self.name}: an inequality needs its witness")
        if self.relation == "=" and proves_inequality:
            raise RefusalError(f"{self.name}: a witness proves an inequality, not an equality")
        for link in self.links:
            if reason := link.reason(self):
                raise RefusalError(f"{self.name}: {reason}")
        certificate = self.method(self)
        if certificate.ok and (reason := recheck(self, certificate)):
            return replace(certificate, refusal=f"the checker disagrees: {reason}")
        return certificate

    def __str__(self) -> str:
        return f"{sp.sstr(self.lhs)} {self.relation} {sp.sstr(self.rhs)}"
