"""The kernels refuse what they cannot treat: every statement here is false or cannot be read."""

import pytest
import sympy as sp
from sympy.core.function import AppliedUndef

from proofs.prover.rational import ModelError, instantiate
from proofs.prover.statements import (
    Antiderivative,
    Elementary,
    Matrices,
    Nonnegative,
    PositiveIntegrand,
    Series,
    Statement,
    Sums,
)
from proofs.prover.syntax import Index, Letter, RefusalError, S

p, d, v, e = Index("p", positive=True), Index("d"), Index("v"), Index("e", positive=True)
inside = Index("1_S", idempotent=True)
y, D, x, u = sp.symbols("y D x u", real=True)
k = sp.Symbol("k", integer=True, nonnegative=True)
n = sp.Symbol("n", integer=True, nonnegative=True)
n_factorial = sp.factorial(n)
positive = sp.Symbol("q", positive=True)
B = sp.Symbol("B")
a, b = Letter("a", "m", "m", indexed=True), Letter("b", "m", "m", indexed=True)
A, C, wide = Letter("A", "m", "m"), Letter("C", "m", "m"), Letter("W", "m", "r")
f = sp.Function("f")
M, L = sp.symbols("M L", commutative=False)
ONE, ZERO = sp.Integer(1), sp.Integer(0)


def statement(lhs, rhs, method, **fields) -> Statement:
    return Statement(name="false", lhs=lhs, rhs=rhs, method=method, scope="", **fields)


def reason(claim: Statement) -> str:
    """Why a statement is not accepted, empty if it is."""
    try:
        certificate = claim.prove()
    except RefusalError as error:
        return str(error)
    return "" if certificate.ok else certificate.refusal


def integral(body, lower=0, upper=1):
    return sp.Integral(body, (u, lower, upper))


def series(term, first=0):
    return sp.Sum(term, (n, first, sp.oo))


NEGATIVE_ORDER = series(sp.factorial(n - 2) / n_factorial**2 * B**n)


def tail(coefficient) -> Statement:
    """A power series is its first term and the rest: said of coefficients that have no series."""
    first = series(coefficient * B**n)
    return statement(first, coefficient.subs(n, 0) + series(coefficient * B**n, 1), Series(B))


FALSE = {
    # An exponential of the index is not a constant of the sum.
    "exponential under a sum": (
        statement(
            S(p * sp.exp(d) * v), S(p * sp.exp(d)) * y, Elementary(), hypotheses=((S(p * v), y),)
        ),
        "remainder",
    ),
    "sine under a sum": (statement(S(sp.sin(d) * v), sp.sin(x) * S(v), Elementary()), "remainder"),
    "logarithm under a sum": (
        statement(S(sp.log(p) * v), S(sp.log(p)) * S(v), Elementary()),
        "remainder",
    ),
    # A derivative of what is not defined, and of what a hypothesis ties to the variable.
    "derivative of an undefined function": (
        statement(sp.Derivative(f(x), x), ZERO, Elementary()),
        "derivative of an undefined function",
    ),
    "derivative of an undefined function in sums": (
        statement(sp.Derivative(f(x), x), ZERO, Sums()),
        "derivative of an undefined function",
    ),
    "derivative against a hypothesis": (
        statement(sp.Derivative(D, x), ZERO, Sums(), hypotheses=((D, x),)),
        "cannot be differentiated by it",
    ),
    "derivative by an index": (
        statement(sp.Derivative(p**2, p), 2 * p, Sums()),
        "not a variable of differentiation",
    ),
    # A point that depends on the key is captured by a sum.
    "index put under a sum": (
        statement(sp.Subs(S(x), x, p), S(p), Sums()),
        "cannot be put under a sum",
    ),
    "index evaluated at a point": (
        statement(sp.Subs(S(d * x), d, 1), S(x), Sums()),
        "has no single value",
    ),
    # Matrices: sums that lose their index, shapes that do not fit, inverses.
    "rule whose replacement holds a sum": (
        statement(S(p * a * b), S(p * b) * S(a), Matrices(), hypotheses=((a * b, S(p * b)),)),
        "holds a sum of matrices",
    ),
    "sum of a sum of matrices": (statement(S(S(p * a)), S(p * a), Matrices()), "not zero"),
    "matrix of one key beside a sum": (
        statement(S(S(p * a) * b), S(p * a * b), Matrices()),
        "beside a sum over keys",
    ),
    "number under the sum of a sum": (
        statement(S(v * S(p * a)), S(v * p * a), Matrices()),
        "inside another one",
    ),
    "matrices under the sum kernel": (statement(S(a * A), S(ONE) * a * A, Sums()), "matrices"),
    "letters without a shape": (
        statement(M * L, L * M, Sums()),
        "must be a matrix of a shape",
    ),
    "matrices that do not commute": (statement(A * C, C * A, Elementary()), "matrices"),
    "shapes that do not fit": (statement(wide * A, A * wide, Matrices()), "fit"),
    "sum of different shapes": (statement(A + wide, wide + A, Matrices()), "different shapes"),
    "inverse of a matrix": (statement(A * C**-1, C**-1 * A, Matrices()), "inverse of a matrix"),
    "undeclared denominator of matrices": (
        statement((1 / D + 1) * A, A / D + A, Matrices()),
        "not declared non-zero",
    ),
    # Two symbols of one name: what is claimed cannot be read.
    "two symbols of one name": (
        statement(
            sp.Symbol("x", real=True) + sp.Symbol("x", positive=True),
            2 * sp.Symbol("x", real=True),
            Sums(),
        ),
        "two different symbols are called x",
    ),
    "symbol named like a function": (
        statement(sp.exp(x), sp.Symbol("exp(x)"), Elementary()),
        "called like a function",
    ),
    "symbol named as the prover names a function": (
        statement(sp.exp(x), sp.Symbol("exp[x]", positive=True), Elementary()),
        "called like a function",
    ),
    "symbol named as e is printed": (
        statement(sp.exp(2), sp.Symbol("E", positive=True) ** 2, Elementary()),
        "remainder",
    ),
    "symbol named like a product": (
        statement(sp.exp(x * y), sp.exp(sp.Symbol("x*y", real=True)), Elementary()),
        "or a product",
    ),
    "symbol named like an absolute value": (
        statement(sp.Abs(x), sp.Symbol("|x|", nonnegative=True), Sums()),
        "called like a function",
    ),
    # Integrals: the running variable outside, a pole inside, and what sympy would integrate by itself.
    "running variable as a factor": (
        statement(u * integral(ONE), sp.Rational(1, 2), Antiderivative(u**2 / 2)),
        "runs through the integral",
    ),
    "pole inside the limits": (
        statement(integral(1 / u**2, -1), -2 * ONE, Antiderivative(-1 / u), nonzero=(u,)),
        "runs through the integral",
    ),
    "variable of both signs that is called positive": (
        statement(
            sp.Integral(sp.Abs(positive), (positive, -1, 1)), ZERO, Antiderivative(positive**2 / 2)
        ),
        "nothing else is known of",
    ),
    "integral over what every key has of its own": (
        statement(sp.Integral(S(p), (p, 0, 1)), S(ONE) / 2, Antiderivative(S(p**2 / 2))),
        "nothing else is known of",
    ),
    "limit that is not finite": (
        statement(sp.Integral(sp.exp(-u), (u, 0, sp.oo)), ONE, Antiderivative(-sp.exp(-u))),
        "must be finite",
    ),
    "integral without limits": (
        statement(sp.Integral(u, u), u**2 / 2, Antiderivative(u**2 / 2)),
        "two limits",
    ),
    "integral of two variables": (
        statement(sp.Integral(u, (u, 0, 1), (x, 0, 1)), ONE, Antiderivative(u**2 / 2)),
        "one variable",
    ),
    "essential singularity inside the limits": (
        statement(
            integral((1 + 2 * u + (x - 1)) * sp.exp(-x / u), -1),
            sp.exp(-x) - sp.exp(x),
            Antiderivative(u**2 * sp.exp(-x / u)),
        ),
        "not declared non-zero",
    ),
    "logarithm of what need not be positive": (
        statement(
            sp.Integral(sp.log(u), (u, x, y)),
            y * sp.log(y) - y - x * sp.log(x) + x,
            Antiderivative(u * sp.log(u) - u),
        ),
        "logarithm is positive",
    ),
    "mixed derivative of one variable twice": (
        statement(
            sp.Integral(sp.Derivative(f(u, u), u, u), (u, 0, 1), (u, 0, 1)), ZERO, Elementary()
        ),
        "needs its antiderivative",
    ),
    "integral without an antiderivative": (
        statement(integral(u), sp.Rational(1, 2), Elementary()),
        "needs its antiderivative",
    ),
    # Series: the order as a symbol of the statement, and no convergence.
    "scale that is called like the order": (
        statement(
            k * series(B**n / sp.factorial(n)), series(n * B**n / sp.factorial(n)), Series(B)
        ),
        "differ",
    ),
    "running order outside": (
        statement(
            n * series(B**n / sp.factorial(n)), series(n * B**n / sp.factorial(n)), Series(B)
        ),
        "runs through a series",
    ),
    "series that need not converge": (
        statement((1 - B) * series(B**n), ONE, Series(B)),
        "converge",
    ),
    "more factorials above than below": (tail(n_factorial**2 / sp.factorial(n + 1)), "converge"),
    "numbers that outgrow the factorial": (tail(sp.exp(n**2) / n_factorial), "converge"),
    "pole at an order": (tail(1 / ((n - 3) * n_factorial)), "converge"),
    "factorial of a negative order": (
        statement(NEGATIVE_ORDER, NEGATIVE_ORDER, Series(B)),
        "converge",
    ),
    # Relations: a witness of ≤ is not a proof of =, and an equality proof is not asked for ≤.
    "witness for an equality": (
        statement(ZERO, S(p), Nonnegative(((ONE, (p,)),))),
        "not an equality",
    ),
    "inequality without a witness": (
        statement(S(p), ZERO, Sums(), relation="≤"),
        "needs its witness",
    ),
    "relation that is neither": (statement(x, x, Sums(), relation="<"), "a relation is = or ≤"),
    "absolute value of what need not be real": (
        statement(B, sp.Abs(B), Nonnegative(((ONE, (sp.Abs(B) - B,)),)), relation="≤"),
        "no fact says",
    ),
    "integral of what need not be real": (
        statement(ZERO, integral(sp.exp(B * u)), PositiveIntegrand(), relation="≤"),
        "nothing says",
    ),
    "square of what need not be real": (
        statement(ZERO, B**2, Nonnegative(((ONE, (B**2,)),)), relation="≤"),
        "no fact says",
    ),
    # Numbers and nodes outside the language.
    "floating point": (statement(sp.Float(0.5) * x, x / 2, Sums()), "only rational numbers"),
    "root": (statement(sp.sqrt(x), x, Sums()), "only integer powers"),
    "limit": (statement(sp.Limit(x, x, 0), x, Elementary()), "does not treat Limit"),
    "absolute value of a difference": (
        statement(S(sp.Abs(p - e)), S(p) - S(e), Sums()),
        "remainder",
    ),
    "indicator under the sum in an absolute value": (
        statement(
            sp.Abs(S((1 + inside) * d)),
            inside * sp.Abs(S(2 * d)) + (1 - inside) * sp.Abs(S(d)),
            Sums(),
        ),
        "an indicator beside a sum",
    ),
    "indicator that is two": (
        statement(S(inside * p), 2 * S(p), Sums(), hypotheses=((inside, 2 * ONE),)),
        "need not be 0 or 1",
    ),
}


@pytest.mark.parametrize("name", sorted(FALSE))
def test_false_statement_is_refused_with_a_reason(name):
    claim, message = FALSE[name]
    assert message in reason(claim)


CONTRADICTIONS = {
    "a real square that is negative": {"hypotheses": ((x**2, -ONE),)},
    "a denominator that is zero": {"hypotheses": ((D, ZERO),), "nonzero": (D,)},
    "positive weights without mass": {"hypotheses": ((S(p), ZERO),)},
    "a fact that is false": {"facts": (-ONE,)},
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_assumptions_that_nothing_satisfies_fail_in_the_exact_model(name):
    claim = statement(x, x, Sums(), **CONTRADICTIONS[name])
    with pytest.raises(ModelError):
        list(instantiate(claim))


def test_integral_of_a_mixed_derivative_is_the_only_undefined_function():
    t, z = sp.symbols("t z", real=True)
    square = sp.Integral(sp.Derivative(f(t, z), t, z), (t, 0, 1), (z, 0, 1))
    corners = f(1, 1) - f(1, 0) - f(0, 1) + f(0, 0)
    assert reason(statement(square, corners, Elementary())) == ""
    assert "remainder" in reason(statement(square, corners + f(0, 0), Elementary()))
    assert "integral" in reason(statement(sp.Integral(f(t, z), (t, 0, 1)), ZERO, Elementary()))
    assert square.atoms(AppliedUndef)
