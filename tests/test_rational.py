"""The exact models catch vacuous hypotheses, wrong encodings and false statements."""

from fractions import Fraction

import pytest
import sympy as sp

from proofs.prover.exact import Exact, IntervalArithmetic, Matrix, TranscendentalError, evaluate
from proofs.prover.rational import SIZES, Environment, ModelError, check, instantiate
from proofs.prover.statements import Elementary, Statement
from proofs.prover.syntax import Index, S
from proofs.prover.vocabulary import MODEL, ONE, D, E, p, t, v, y

x = sp.Symbol("x", real=True)


def statement(**fields):
    settings = {"name": "s", "lhs": S(p), "rhs": ONE, "scope": "", "model": MODEL, **fields}
    return Statement(**settings)


def test_models_are_checked_at_every_size():
    assert [instance.size for instance in instantiate(statement())] == list(SIZES)
    assert SIZES == (1, 2, 3, 7, 64)


def test_smallest_size_is_respected():
    assert [instance.size for instance in instantiate(statement(smallest=3))] == [3, 7, 64]


def test_same_model_twice_is_the_same_model():
    first, second = (Environment(statement(), 7) for _ in range(2))
    assert [first[p], first[v]] == [second[v], second[p]][::-1]


def test_weights_of_the_model_are_a_distribution():
    for size in SIZES:
        weights = Environment(statement(), size)[p]
        assert sum(weights) == 1
        assert all(weight > 0 for weight in weights)


def test_log_ratio_is_zero_where_the_weight_does_not_move():
    env = Environment(statement(), 1)
    assert env[t] == [0]
    assert env[E] == [env[D]]


def test_false_statement_fails_in_its_model():
    instance = check(statement(rhs=ONE + 1), 3)
    assert not instance.ok
    assert "fails at N = 3" in instance.detail


def test_hypothesis_that_does_not_hold_is_reported():
    with pytest.raises(ModelError, match=r"the hypothesis S\(p\) = 2 fails in the model"):
        check(statement(hypotheses=((S(p), sp.Integer(2)),)), 3)


def test_zero_denominator_is_reported():
    with pytest.raises(ModelError, match="is zero in the model"):
        check(statement(nonzero=(S(p) - 1,)), 3)


def test_negative_fact_is_reported():
    with pytest.raises(ModelError, match="is negative in the model"):
        check(statement(facts=(-p,)), 3)


def test_symbol_of_the_wrong_sign_is_reported():
    with pytest.raises(ModelError, match="wrong sign"):
        check(statement(model=((p, -ONE),)), 3)


def test_inequality_is_compared_as_one():
    assert check(statement(lhs=S(p * v), rhs=y + 1, relation="≤"), 7).ok
    assert not check(statement(lhs=S(p * v) + 1, rhs=y, relation="≤"), 7).ok


def test_transcendental_values_are_compared_in_intervals():
    fields = {"lhs": sp.exp(x) * sp.exp(-x), "method": Elementary(), "model": ()}
    product = sp.Mul(sp.exp(x), sp.exp(-x, evaluate=False), evaluate=False)
    assert check(statement(**{**fields, "lhs": product}), 2).arithmetic == "interval"
    assert check(statement(**{**fields, "lhs": product}), 2).ok
    assert not check(statement(**{**fields, "lhs": sp.exp(x)}), 2).ok


def test_exact_arithmetic_refuses_a_transcendental_value():
    with pytest.raises(TranscendentalError, match="exp of 1/2 is not rational"):
        evaluate(sp.exp(sp.Rational(1, 2)), lambda _: None, Exact(), 1)


def test_interval_excludes_zero_when_numbers_differ_by_little():
    interval = IntervalArithmetic()
    small = interval.number(Fraction(1, 10**50))
    assert not interval.is_zero(small)
    assert interval.is_zero(small - small)


def test_sum_under_a_derivative_is_written_out_first():
    a, h = Index("a"), sp.Symbol("h", real=True)
    slope = sp.Subs(sp.Derivative(S(p * sp.exp(h * a)), h), h, 0)
    assert check(statement(lhs=slope, rhs=S(p * a)), 3).ok
    assert not check(statement(lhs=slope, rhs=S(p)), 3).ok


def test_inverse_of_a_matrix_is_exact():
    matrix = Matrix([[Fraction(2), Fraction(1)], [Fraction(7), Fraction(4)]])
    assert (matrix * matrix.inverse()).rows == Matrix.scalar(Fraction(1), 2).rows
    with pytest.raises(ZeroDivisionError, match="singular"):
        Matrix([[Fraction(1), Fraction(1)], [Fraction(1), Fraction(1)]]).inverse()


def test_matrices_that_do_not_fit_are_refused():
    square, tall = Matrix.scalar(Fraction(1), 2), Matrix([[Fraction(1)]] * 3)
    with pytest.raises(ValueError, match="cannot multiply"):
        _ = square * tall
    with pytest.raises(ValueError, match="cannot add"):
        _ = square + tall
