"""Integrals that are not negative, because every factor of the integrand is not between its limits."""

from __future__ import annotations

from typing import Any

import sympy as sp

from proofs.prover.certificates import ProofCertificate
from proofs.prover.grammar import limits_of
from proofs.prover.syntax import RefusalError


def prove_positive_integral(name: str, lhs: Any, rhs: Any) -> ProofCertificate:
    """A certificate of 0 ≤ ∫ f, f a product of exponentials, distances from a limit and squares."""
    if lhs != 0 or rhs.func is not sp.Integral:
        raise RefusalError(f"only 0 ≤ one integral is treated; got {lhs} ≤ {rhs}")
    variable, lower, upper = limits_of(rhs)
    if not (lower.is_Rational and upper.is_Rational and lower < upper):
        raise RefusalError(f"the limits must be rational and in order; got {lower} and {upper}")
    wrong = [
        factor
        for factor in sp.Mul.make_args(rhs.function)
        if not _is_nonnegative(factor, variable, lower, upper)
    ]
    return ProofCertificate(
        name,
        sp.Integer(0),
        notes=("every factor of the integrand is ≥ 0 between the limits",),
        refusal=f"nothing says that {wrong[0]} ≥ 0" if wrong else "",
    )


def _is_nonnegative(factor: Any, variable: Any, lower: Any, upper: Any) -> bool:
    if isinstance(factor, sp.exp):
        return bool(factor.args[0].is_real)
    return factor in (variable - lower, upper - variable) or bool(
        factor.is_Rational and factor.is_nonnegative
    )
