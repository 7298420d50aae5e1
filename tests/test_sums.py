"""The trusted kernel proves what is true, rejects what is false and refuses what is unclear."""

import dataclasses
import pickle

import pytest
import sympy as sp

from proofs.prover.sums import normalise, prove, prove_nonnegative
from proofs.prover.syntax import Index, S

p, v, eps, a = Index("p", positive=True), Index("v"), Index("eps"), Index("a")
e = Index("e", positive=True)
inside = Index("1_S", idempotent=True)
total, mean, scale = sp.symbols("D y c", real=True)
ONE, ZERO = sp.Integer(1), sp.Integer(0)
MASS, PARTITION, READOUT = (S(p), ONE), (S(p * e), total), (S(p * v), mean)
EDITED = p * e / total


def response(sign: int = 1):
    return prove(
        "response",
        S(EDITED * (v + eps)) - mean,
        sign * S(p * (e / total - 1) * (v - mean)) + S(EDITED * eps),
        (MASS, PARTITION, READOUT),
        (total,),
    )


def test_finite_response_is_proved_for_every_n():
    assert response().ok


def test_wrong_sign_is_not_proved_and_says_what_remains():
    certificate = response(-1)
    assert not certificate.ok
    assert "remainder" in str(certificate)


def test_certificate_shows_its_cofactors_and_denominator():
    text = str(response())
    assert "S(p*v)" in text
    assert "over D ≠ 0" in text


@pytest.mark.parametrize("position", [0, 1, 2])
def test_tampered_cofactor_is_caught_by_expansion(position):
    certificate = response()
    terms = list(certificate.terms)
    cofactor, condition = terms[position]
    terms[position] = (cofactor + 1, condition)
    assert not dataclasses.replace(certificate, terms=tuple(terms)).ok


def test_dropped_condition_is_caught_by_expansion():
    certificate = response()
    assert not dataclasses.replace(certificate, terms=certificate.terms[:-1]).ok


def test_missing_hypothesis_is_not_proved():
    assert not prove("mass", S(EDITED), ONE, (), (total,)).ok


def test_undeclared_denominator_is_refused():
    certificate = prove("mass", S(EDITED), ONE, (PARTITION,))
    assert not certificate.ok
    assert "not declared non-zero: D" in str(certificate)


def test_denominator_that_cancels_must_still_be_declared():
    assert not prove("same", scale / total, scale / total + 0 * scale).ok


def test_sum_of_a_constant_is_not_the_constant():
    assert not prove("constant", S(scale), scale).ok


def test_sum_of_a_product_is_not_the_product_of_sums():
    assert not prove("product", S(p * v), S(p) * S(v)).ok


def test_indicator_is_idempotent_under_a_sum_and_for_one_key():
    assert prove("sum", S(inside**2 * p), S(inside * p)).ok
    assert prove("key", inside**3 * p, inside * p).ok
    assert not prove("plain", S(a**2 * p), S(a * p)).ok


def test_complement_of_an_indicator_is_disjoint_from_it():
    assert prove("disjoint", S(inside * (1 - inside) * p), ZERO).ok


def test_indicator_and_ordinary_symbol_of_one_name_differ():
    plain, indicator = Index("x"), Index("x", idempotent=True)
    assert plain != indicator
    assert hash(plain) != hash(indicator)
    assert pickle.loads(pickle.dumps(indicator)) == indicator


def test_nested_sum_is_a_constant_of_the_outer_sum():
    assert normalise(S(p * (v - S(p * v)))) == S(p * v) - S(p * v) * S(p)


def test_finite_sum_is_differentiated_term_by_term():
    alpha = sp.Symbol("alpha", real=True)
    slope = sp.Subs(sp.Derivative(S(p * (1 + alpha * a) ** 3), alpha), alpha, 0)
    assert prove("slope", slope, 3 * S(p * a)).ok
    assert not prove("slope", slope, S(p)).ok


def test_definition_for_every_key_is_substituted():
    assert prove("definition", S(p * e), S(p) + S(p * a), ((e, 1 + a),)).ok


def test_identity_for_one_key_needs_no_sum():
    assert prove("one key", p * e / total - p, p * a, ((e, total * (1 + a)),), (total,)).ok


@pytest.mark.parametrize(
    ("hypotheses", "message"),
    [
        (((S(p) + S(v), ONE),), "a pivot must be a symbol, a moment or a power of one"),
        (((S(p + v), ONE),), "a pivot must be one moment"),
        ((MASS, (S(p), total)), "is the pivot of two hypotheses"),
        ((MASS, (total, S(p) + 1)), "which is already a pivot"),
        (((S(p * v), S(p * v) + 1),), "which is already a pivot"),
        (((total, 1 / mean),), "must be a polynomial"),
        (((S(p * e), total), (e, a), (S(p * a), mean)), "the pivot of two hypotheses"),
    ],
)
def test_bad_hypothesis_is_refused(hypotheses, message):
    with pytest.raises(ValueError, match=message):
        prove("bad", S(p), ONE, hypotheses)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (1 / p, "only as a polynomial"),
        (sp.exp(a), "does not treat exp"),
        (sp.sqrt(p), "only integer powers"),
    ],
)
def test_index_outside_a_polynomial_is_refused(body, message):
    with pytest.raises(ValueError, match=message):
        prove("bad", S(body * v), S(v))


def test_definition_that_splits_a_pivot_leaves_a_usable_condition():
    definition = (e, total * (1 + a))
    hypotheses = (MASS, PARTITION, definition)
    assert prove("balance", S(p * a), ZERO, hypotheses, (total,)).ok
    assert not prove("balance", S(p * a), ZERO, hypotheses[1:], (total,)).ok


def test_nonnegative_gap_needs_its_witness():
    top = sp.Symbol("A", real=True)
    gap, facts = top - S(p * v), (top - v,)
    assert prove_nonnegative("bound", gap, ((ONE, (p, top - v)),), facts, (MASS,)).ok
    assert not prove_nonnegative("bound", gap, ((ONE, (p, top - v)),), facts).ok
    assert not prove_nonnegative("bound", -gap, ((ONE, (p, top - v)),), facts, (MASS,)).ok


@pytest.mark.parametrize("factors", [(p, v), (p, v**3)])
def test_factor_without_a_fact_is_refused(factors):
    with pytest.raises(ValueError, match="no fact says"):
        prove_nonnegative("bad", S(sp.Mul(*factors)), ((ONE, factors),), ())


def test_negative_coefficient_is_refused():
    with pytest.raises(ValueError, match="no fact says"):
        prove_nonnegative("bad", -S(p), ((-ONE, (p,)),), ())


def test_square_of_a_real_expression_needs_no_fact():
    assert prove_nonnegative("square", S(p * v**2), ((ONE, (p, v**2)),), ()).ok
