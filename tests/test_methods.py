"""Each style of proof has a definite verdict: yes on an identity, no on a neighbour of it."""

import pytest
import sympy as sp

from proofs.prover.elementary import prove_elementary, prove_integral
from proofs.prover.matrices import prove_matrices
from proofs.prover.series import prove_series
from proofs.prover.statements import PositiveIntegrand, Statement
from proofs.prover.syntax import Index, Letter, S, shape

J = sp.Symbol("J")
QUARTER_TURN = ((J**2, sp.Integer(-1)),)
x, t, u = sp.symbols("x t u", real=True)
n = sp.Symbol("n", integer=True, nonnegative=True)
B = sp.Symbol("B")


def turn(angle):
    return sp.cos(angle) + sp.sin(angle) * J


def test_rotations_of_a_plane_compose():
    assert prove_elementary("sum", turn(x) * turn(t), turn(x + t), QUARTER_TURN).ok
    assert not prove_elementary("difference", turn(x) * turn(t), turn(x - t), QUARTER_TURN).ok
    assert not prove_elementary("no square", turn(x) * turn(t), turn(x + t)).ok


def test_exponentials_of_rational_multiples_agree():
    assert prove_elementary("half", sp.exp(x / 2) ** 2, sp.exp(x)).ok
    assert not prove_elementary("half", sp.exp(x / 2) ** 3, sp.exp(x)).ok


def test_exponential_in_a_denominator_needs_no_declaration():
    assert prove_elementary("inverse", 1 / sp.exp(x), sp.exp(-x)).ok


def test_functions_that_print_alike_are_refused():
    other = sp.Symbol("x", positive=True)
    with pytest.raises(ValueError, match="two different symbols are called x"):
        prove_elementary("alike", sp.sin(x), sp.sin(other))


def test_other_denominator_has_to_be_declared():
    left, right = sp.exp(x) / (1 + sp.exp(x)), 1 / (1 + sp.exp(-x))
    assert prove_elementary("sigmoid", left, right, (), (1 + sp.exp(x),)).ok
    assert not prove_elementary("sigmoid", left, right).ok


def test_integral_is_proved_by_its_antiderivative():
    integral = t * sp.Integral(sp.exp(u * t), (u, 0, 1))
    assert prove_integral("phi1", integral, sp.exp(t) - 1, sp.exp(u * t)).ok
    assert not prove_integral("phi1", integral, sp.exp(t), sp.exp(u * t)).ok
    assert not prove_integral("phi1", integral, sp.exp(t) - 1, 2 * sp.exp(u * t)).ok


def test_integral_method_refuses_other_shapes():
    with pytest.raises(ValueError, match="one integral times a factor"):
        prove_integral("none", t, t, t)


def power_series(coefficient, first=0, shift=0):
    return sp.Sum(coefficient * B ** (n + shift), (n, first, sp.oo))


def test_series_agree_in_every_order():
    exponential = power_series(1 / sp.factorial(n))
    assert prove_series("phi1", B * power_series(1 / sp.factorial(n + 1)), exponential - 1, B).ok
    assert prove_series("tail", power_series(1 / sp.factorial(n), 1), exponential - 1, B).ok
    assert prove_series("factor", power_series(n / sp.factorial(n), 1), B * exponential, B).ok


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_series_that_differ_in_one_order_are_rejected(wrong):
    exponential = power_series(1 / sp.factorial(n))
    other = exponential + sp.Rational(1, 10**6) * B**wrong
    assert not prove_series("off", other, exponential, B).ok


def test_series_method_refuses_what_is_not_a_series():
    with pytest.raises(ValueError, match="not a power series"):
        prove_series("bad", sp.exp(B), B, B)


H, Hp, z = Letter("H", "r", "m"), Letter("H+", "m", "r"), Letter("z", "m", "1")
row, a = Letter("u^T", "1", "m"), Letter("a", "m", "1", indexed=True)
s, c = Index("s"), Index("c")


def test_letters_do_not_commute():
    square, other = Letter("A", "m", "m"), Letter("C", "m", "m")
    assert not prove_matrices("commute", square * other, other * square).ok


def test_matrix_rules_rewrite_words():
    rule = ((H * Hp * H, H),)
    assert prove_matrices("range", (1 - H * Hp) * H * z, sp.Integer(0), rule).ok
    assert not prove_matrices("range", (1 - H * Hp) * H * z, sp.Integer(0)).ok


def test_letter_moves_into_the_sum_from_its_own_side():
    assert prove_matrices("left", row * S(c * a), S(c * s), ((row * a, s),)).ok
    assert not prove_matrices("right", row * S(c * a), S(c) * S(s), ((row * a, s),)).ok


def test_letter_without_index_leaves_the_sum():
    assert prove_matrices("outside", S(c * H), S(c) * H).ok


def test_rule_for_a_whole_sum_applies_beside_free_letters_only():
    mean, total = Letter("mu", "m", "1"), sp.Symbol("N", positive=True)
    rule = ((S(a), total * mean),)
    assert prove_matrices("beside", S(row * a), total * row * mean, rule).ok
    assert not prove_matrices("inside", S(c * a), S(c) * mean, rule).ok


def test_rules_that_loop_are_refused():
    with pytest.raises(ValueError, match="do not terminate"):
        prove_matrices("loop", Hp * H, 2 * Hp * H, ((H, H * Hp * H),))


def test_rule_for_a_sum_of_words_is_refused():
    with pytest.raises(ValueError, match="rewrite a single word"):
        prove_matrices("bad", H, H, ((H + H * Hp * H, H),))


def test_shapes_that_do_not_fit_are_found():
    assert shape(H * z) == ("r", "1")
    assert shape(row * z) is None
    with pytest.raises(ValueError, match="do not fit"):
        shape(z * H)
    with pytest.raises(ValueError, match="different shapes"):
        shape(z + H * z)
    with pytest.raises(ValueError, match="different shapes"):
        shape(z + 1)


def positive(lhs, rhs) -> Statement:
    return Statement(
        name="sign", lhs=lhs, rhs=rhs, relation="≤", method=PositiveIntegrand(), scope=""
    )


def test_integral_of_factors_that_are_not_negative_is_not_negative():
    assert positive(sp.Integer(0), sp.Integral((1 - u) * sp.exp(u * t), (u, 0, 1))).prove().ok
    assert not positive(sp.Integer(0), sp.Integral(t * sp.exp(u), (u, 0, 1))).prove().ok
    assert not positive(sp.Integer(0), sp.Integral((2 * u - 1), (u, 0, 1))).prove().ok


@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [
        (sp.Integer(1), sp.Integral(sp.exp(u), (u, 0, 1))),
        (sp.Integer(0), sp.Integral(sp.exp(u), (u, 1, 0))),
        (sp.Integer(0), t**2),
    ],
)
def test_sign_of_anything_else_is_refused(lhs, rhs):
    with pytest.raises(ValueError, match=r"only 0 ≤ one integral|in order"):
        positive(lhs, rhs).prove()
