"""The evaluator of generated references agrees with calculus, and with the prover's exact models."""

from fractions import Fraction

import flint
import pytest
import sympy as sp

from proofs.catalogue import entries
from proofs.generated.comparison import flatten
from proofs.generated.contexts import ArbContext, MpContext, RationalContext
from proofs.generated.evaluation import evaluate, phi1, phi2
from proofs.generated.rational import rational_sides
from proofs.prover.exact import Matrix, TranscendentalError
from proofs.prover.rational import Environment
from proofs.prover.syntax import Index, S
from proofs.references.numbers import arb_precision, to_ball
from proofs.references.series import SeriesNumbers, variables

x, u, n = sp.symbols("x u n")
p, v = Index("p"), Index("v")
B = sp.Symbol("B")
STATEMENTS = {s.name: s for entry in entries() for s in entry.statements}

# Quadrature and infinite sums have no exact instance.
FINITE = [
    n for n, s in STATEMENTS.items() if not any(e.has(sp.Integral, sp.Sum) for e in (s.lhs, s.rhs))
]


class Values(dict):
    """Symbols with given values, over three keys."""

    def __init__(self, num, values):
        super().__init__(values)
        self.num, self.size = SeriesNumbers(num), 3


def both(expr, **values):
    """The value in Arb and in mpmath."""
    symbols = {"x": x, "p": p, "v": v, "B": B}
    results = []
    for num in (ArbContext(), MpContext(160)):
        numbers = {symbols[k]: _numbers(num, value) for k, value in values.items()}
        results.append(evaluate(expr, Values(num, numbers)))
    return results


def _numbers(num, value):
    if isinstance(value, list):
        return [num.real(item) for item in value]
    if isinstance(value, Matrix):
        return Matrix([[num.real(entry) for entry in row] for row in value.rows])
    return num.real(value)


def assert_value(expr, exact, **values):
    with arb_precision(160):
        ball, number = both(expr, **values)
        assert ball.overlaps(exact)
        assert abs(to_ball(number) - exact) < flint.arb(2) ** -120 * (1 + abs(exact))


def test_sum_runs_over_the_keys():
    assert_value(S(p * v) - x, flint.arb(32 - 5), p=[1.0, 2.0, 3.0], v=[4.0, 5.0, 6.0], x=5.0)


def test_free_index_gives_a_list():
    with arb_precision(160):
        ball, _ = both(p - S(p), p=[1.0, 2.0, 3.0])
    assert [float(b) for b in ball] == [-5, -4, -3]


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_derivative_is_that_of_calculus(order: int):
    f = sp.exp(sp.sin(x)) / (1 + sp.exp(x)) + sp.log(2 + sp.cos(x))
    tree = sp.Derivative(f, (x, order)) if order else f
    exact = sp.N(sp.diff(f, x, order).subs(x, sp.Rational(3, 4)), 45)
    with arb_precision(160):
        ball, number = both(tree, x=0.75)
        for value in (ball, to_ball(number)):
            assert abs(value - flint.arb(str(exact))) < flint.arb(2) ** -130


def test_mixed_derivative_under_a_sum():
    a, b = sp.symbols("a b")
    tree = sp.Subs(sp.Derivative(S(p * sp.exp(a * v + 2 * b * v)), a, b), (a, b), (0, 0))
    assert_value(tree, flint.arb(2 * (1 + 8 + 27)), p=[1.0, 2.0, 3.0], v=[1.0, 2.0, 3.0])


def test_integral_is_enclosed():
    with arb_precision(160):
        assert_value(sp.Integral(sp.exp(u * x), (u, 0, 1)), (flint.arb(3).exp() - 1) / 3, x=3.0)


def test_infinite_sum_is_the_exponential_of_a_matrix():
    series = sp.Sum(B**n / sp.factorial(n), (n, 0, sp.oo))
    with arb_precision(160):
        ball, number = both(series, B=Matrix([[0.0, -2.0], [2.0, 0.0]]))
        cosine, sine = flint.arb(2).cos(), flint.arb(2).sin()
        for value, other, exact in zip(
            flatten(ball), flatten(number), (cosine, -sine, sine, cosine), strict=True
        ):
            assert value.contains(exact)
            assert value.rel_accuracy_bits() > 100
            assert abs(to_ball(other) - exact) < flint.arb(2) ** -120


def test_sum_whose_tail_is_not_bounded_is_refused():
    with pytest.raises(ValueError, match=r"must be at most 1/\(n − 1\)!"):
        both(sp.Sum(B**n, (n, 0, sp.oo)), B=Matrix([[0.5]]))


@pytest.mark.parametrize("argument", [0.0, 1e-300, -1e-9, 0.5, -30.0, 600.0])
def test_divided_differences_are_right_at_coincident_arguments_too(argument: float):
    with arb_precision(4096):
        z = flint.arb(argument)
        first = (z.exp() - 1) / z if argument else flint.arb(1)
        second = (z.exp() - 1 - z) / z**2 if argument else flint.arb("0.5")
    with arb_precision(160):
        for function, exact in ((phi1, first), (phi2, second)):
            ball, number = both(function(x), x=argument)
            assert ball.overlaps(exact)
            assert abs(to_ball(number) - exact) < abs(exact) * flint.arb(2) ** -120


def test_ball_around_zero_encloses_the_divided_differences():
    wide = flint.arb(0, 0.125)
    for z in (flint.arb("0.125"), flint.arb("-0.125"), flint.arb("1e-20")):
        assert ArbContext.phi1(wide).contains(z.expm1() / z)
        assert ArbContext.phi2(wide).overlaps((z.expm1() - z) / z**2)


def test_square_of_a_ball_around_zero_is_a_number():
    values = Values(ArbContext(), {x: flint.arb(0, 0.5)})
    assert evaluate(x**2, values).overlaps(flint.arb("0.2"))
    assert evaluate(x**2, values).is_finite()


def test_what_cannot_be_evaluated_is_refused():
    with pytest.raises(ValueError, match="an exponent must be an integer"):
        both(x ** sp.Rational(1, 2), x=2.0)
    with pytest.raises(ValueError, match="no way to evaluate"):
        both(sp.Piecewise((x, x > 0), (0, True)), x=2.0)


def test_series_of_different_computations_are_not_mixed():
    (a,), (b,) = variables([Fraction(0)], [1]), variables([Fraction(0)], [2])
    with pytest.raises(ValueError, match=r"need the same orders; got \(1,\) and \(2,\)"):
        _ = a + b


def test_rational_context_refuses_a_transcendental_value():
    with pytest.raises(TranscendentalError, match="exp of 1/2 is not rational"):
        RationalContext().exp(Fraction(1, 2))


@pytest.mark.parametrize("name", FINITE)
def test_rational_instances_are_those_of_the_prover(name: str):
    statement = STATEMENTS[name]
    size = max(3, statement.smallest)
    environment = Environment(statement, size)
    sides = (statement.lhs, statement.rhs)
    try:
        left, right = rational_sides(statement, size)
    except TranscendentalError:
        # The prover cannot do without intervals either.
        with pytest.raises(TranscendentalError):
            list(map(environment.evaluate, sides))
    else:
        assert [left, right] == [flatten(environment.evaluate(side)) for side in sides]
