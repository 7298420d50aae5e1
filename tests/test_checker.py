"""The second program agrees with the prover on what is proved, and finds every tampered certificate."""

import ast
import dataclasses
import importlib
import pathlib
from fractions import Fraction

import pytest
import sympy as sp

from proofs.catalogue import entries, find
from proofs.checker import polynomials, recheck
from proofs.checker.trees import Reader
from proofs.prover.certificates import ProofCertificate, Step
from proofs.prover.statements import Elementary, Matrices, Series
from proofs.prover.syntax import Index, S

STATEMENTS = {s.name: s for entry in entries() for s in entry.statements}
x, y = sp.symbols("x y", real=True)
p, d = Index("p", positive=True), Index("d")
inside = Index("1_S", idempotent=True)
PLANE = next(s for s in STATEMENTS.values() if isinstance(s.method, Elementary) and s.hypotheses)
RULES = next(s for s in STATEMENTS.values() if isinstance(s.method, Matrices) and s.hypotheses)
SERIES = next(s for s in STATEMENTS.values() if isinstance(s.method, Series))
RESPONSE = find("main:response").statements[0]


def same(left: sp.Expr, right: sp.Expr) -> bool:
    return not Reader().read(left - right).top


def imports(package: str) -> set[str]:
    folder = pathlib.Path(importlib.import_module(package).__path__[0])
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in folder.glob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    return {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


def size(package: str) -> int:
    folder = pathlib.Path(importlib.import_module(package).__path__[0])
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in folder.glob("*.py"))


def test_checker_shares_only_the_language_with_the_prover():
    shared = {name for name in imports("proofs.checker") if name.startswith("proofs.prover")}
    assert shared == {"proofs.prover.syntax"}
    assert size("proofs.checker") < size("proofs.prover")


@pytest.mark.parametrize("statement", [RESPONSE, PLANE, RULES], ids=lambda s: s.name)
def test_certificate_with_a_tampered_step_is_rejected(statement):
    certificate = statement.prove()
    assert certificate.ok
    assert recheck(statement, certificate) == ""
    for i, step in enumerate(certificate.steps):
        wrong = dataclasses.replace(step, coefficient=2 * step.coefficient)
        steps = (*certificate.steps[:i], wrong, *certificate.steps[i + 1 :])
        assert recheck(statement, dataclasses.replace(certificate, steps=steps))
        steps = (*certificate.steps[:i], *certificate.steps[i + 1 :])
        assert recheck(statement, dataclasses.replace(certificate, steps=steps))


def test_certificate_of_another_statement_is_rejected():
    certificate = RULES.prove()
    assert recheck(dataclasses.replace(RULES, rhs=2 * RULES.rhs), certificate)


def test_series_with_a_tampered_coefficient_is_rejected():
    certificate = SERIES.prove()
    assert certificate.series is not None
    series = certificate.series
    for wrong in (
        dataclasses.replace(series, general=series.general + 1),
        dataclasses.replace(series, low=(*series.low[:-1], series.low[-1] + 1)),
        dataclasses.replace(series, low=()),
    ):
        assert recheck(SERIES, dataclasses.replace(certificate, series=wrong))


def test_integral_needs_both_of_its_equations():
    statement = find("eq:rho").statements[0]
    certificate = statement.prove()
    assert recheck(statement, certificate) == ""
    assert recheck(statement, dataclasses.replace(certificate, parts=certificate.parts[:1]))
    other = dataclasses.replace(statement, rhs=statement.rhs + 1)
    assert "terms of the difference" in recheck(other, certificate)


def test_division_by_what_is_not_declared_is_rejected():
    statement = dataclasses.replace(RESPONSE, nonzero=())
    assert "not declared non-zero" in recheck(statement, RESPONSE.prove())


def test_empty_certificate_of_a_false_statement_is_rejected():
    false = dataclasses.replace(RESPONSE, rhs=RESPONSE.rhs + 1)
    assert recheck(false, ProofCertificate("believed", sp.Integer(0)))
    assert recheck(false, ProofCertificate("believed", sp.Integer(0), steps=(Step(9, x),)))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (sp.sin(x + y), sp.sin(x) * sp.cos(y) + sp.cos(x) * sp.sin(y)),
        (sp.cos(2 * x), 1 - 2 * sp.sin(x) ** 2),
        (sp.exp(x + y / 2), sp.exp(x) * sp.exp(y / 2)),
        (S(p * sp.exp(d) * x), x * S(p * sp.exp(d))),
        (S(p * sp.log(p * sp.exp(d))), S(p * sp.log(p)) + S(p * d)),
        (S(sp.Abs(inside * d - y)), S(inside * sp.Abs(d - y)) + S(1 - inside) * sp.Abs(y)),
        (
            sp.Derivative(sp.exp(x**2) / (1 + x), x) * (1 + x) ** 2,
            sp.exp(x**2) * (2 * x * (1 + x) - 1),
        ),
    ],
)
def test_arithmetic_of_the_checker_knows_what_is_equal(left, right):
    assert same(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (S(p * sp.exp(d)), sp.exp(x) * S(p)),
        (S(p * d), S(p) * S(d)),
        (sp.sin(x) ** 2 + sp.cos(y) ** 2, sp.Integer(1)),
        (sp.log(1 + x) + sp.log(2 + x), sp.log(3 + 2 * x)),
    ],
)
def test_arithmetic_of_the_checker_knows_what_differs(left, right):
    assert not same(left, right)


f = sp.Function("f")
UNKNOWN = (
    sp.gamma(x),
    sp.log(x),
    S(1 / (1 + d)),
    sp.sqrt(x),
    S(f(d)),
    sp.Symbol("M", commutative=False),
    sp.Subs(S(x), x, p),
    sp.Integral(sp.Derivative(f(x, x), x, x), (x, 0, 1), (x, 0, 1)),
    sp.Integral(sp.Derivative(f(x, x + y), x, y), (x, 0, 1), (y, 0, 1)),
)


@pytest.mark.parametrize("tree", UNKNOWN)
def test_checker_refuses_what_it_does_not_know(tree):
    with pytest.raises(ValueError, match=r"checker|positive|denominator|index|antiderivative"):
        Reader().read(tree)


def test_quotient_is_exact_or_nothing():
    a, b = (polynomials.atom(("x", s)) for s in (x, y))
    product = polynomials.multiply(polynomials.add(a, b), polynomials.add(a, polynomials.number(1)))
    assert polynomials.divide(product, polynomials.add(a, b)) == polynomials.add(
        a, polynomials.number(Fraction(1))
    )
    assert polynomials.divide(polynomials.add(product, b), polynomials.add(a, b)) is None
