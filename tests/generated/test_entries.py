"""Every equality, bound and expansion has a generated reference, and a wrong one does not pass."""

from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import sympy as sp

from proofs.catalogue import entries, find
from proofs.entry import Kind
from proofs.generated import entries as generated
from proofs.generated.comparison import (
    BindingError,
    check_statement,
    draw_cases,
    evaluate_sides,
    second_opinion,
)
from proofs.generated.contexts import ArbContext
from proofs.generated.entries import MISSING, check_entry, coverage, is_required
from proofs.generated.environment import Environment, Scene, key
from proofs.generated.scenes import BY_LABEL, BY_TOPIC, scene_of
from proofs.generated.scenes.bank import RESPONSE
from proofs.generated.scenes.studies import FREE
from proofs.prover.statements import Statement
from proofs.prover.syntax import Index, Letter, S
from proofs.prover.vocabulary import D, E, eps, p, v, y
from proofs.topics.certificate import high, low, top

REQUIRED = [entry.label for entry in entries() if is_required(entry)]
STATEMENT = find("main:response").statements[0]


@pytest.mark.parametrize("label", REQUIRED)
def test_required_entry_has_a_generated_reference(label: str):
    check = check_entry(find(label), cases=2, seed=11)
    assert check.failures == ()
    assert check.passed
    assert check.statements == len(find(label).statements)
    assert check.bits >= 128


@pytest.mark.parametrize(
    "label", [e.label for e in entries() if not is_required(e) and e.statements]
)
def test_other_entries_hold_too(label: str):
    assert check_entry(find(label), cases=1).failures == ()


def test_required_are_equalities_bounds_and_expansions():
    assert {str(find(label).kind) for label in REQUIRED} == {"equality", "bound", "expansion"}
    assert len(REQUIRED) == 68


def test_every_definition_belongs_to_a_statement():
    names = [statement.name for entry in entries() for statement in entry.statements]
    for scene in {id(s): s for s in (*BY_TOPIC.values(), *BY_LABEL.values())}.values():
        for start in scene.definitions:
            assert any(name.startswith(start) for name in names), start


def test_missing_entry_counts_as_missing(monkeypatch):
    monkeypatch.setitem(MISSING, "main:response", "the sketch binds no symbols")
    check = check_entry(find("main:response"))
    assert check.failures == ("the sketch binds no symbols",)
    assert coverage([check]) == ([], ["main:response"])


def test_equality_without_a_definition_is_missing(monkeypatch):
    monkeypatch.setattr(generated, "scene_of", lambda entry: RESPONSE.with_definitions({}))
    check = check_entry(find("main:response"))
    assert check.failures == ("main:response: no hand-written definition is compared with it",)


def test_entry_without_statements_does_not_pass():
    assert not check_entry(find("unlabelled:printed-figures")).passed


def _first_difference(expr: sp.Expr) -> sp.Expr:
    """The expression with the sign of one term inside it turned."""
    for node in sp.preorder_traversal(expr):
        if isinstance(node, sp.Add):
            return cast("sp.Expr", expr.xreplace({node: node - 2 * node.args[0]}))
    return -expr


def _signed(label: str) -> list[Statement]:
    """Equalities whose sides have a sign: neither is zero, and quadrature does not slow them down."""
    return [
        s
        for s in find(label).statements
        if s.relation == "=" and 0 not in (s.lhs, s.rhs) and not s.lhs.has(sp.Integral)
    ]


@pytest.mark.parametrize("side", ["lhs", "rhs"])
@pytest.mark.parametrize("label", [label for label in REQUIRED if _signed(label)])
def test_one_wrong_sign_in_a_statement_is_disproved(label: str, side: str):
    statement = _signed(label)[0]
    wrong = replace(statement, **{side: -getattr(statement, side)})
    # Where the value of a case is zero a sign does not show: one case of six has to disprove it.
    for seed in range(6):
        if check_statement(wrong, scene_of(find(label)), 1, seed).failures:
            break
    else:
        pytest.fail(f"{wrong.name} with a wrong sign was not disproved")


@pytest.mark.parametrize("side", ["lhs", "rhs"])
def test_one_wrong_sign_inside_a_side_is_disproved(side: str):
    wrong = replace(STATEMENT, **{side: _first_difference(getattr(STATEMENT, side))})
    assert check_statement(wrong, RESPONSE, 4, 0).failures


def test_wrong_definition_is_disproved():
    scene = RESPONSE.with_definitions(
        {"main:response": lambda env: -RESPONSE.definitions["main:response"](env)}
    )
    check = check_statement(STATEMENT, scene, 4, 0)
    assert any("is not the hand-written definition" in failure for failure in check.failures)
    assert not any("left and right" in failure for failure in check.failures)


def test_bound_that_fails_is_disproved():
    bound = next(s for s in find("main:certificate").statements if s.relation == "≤")
    scene = scene_of(find("main:certificate"))
    assert check_statement(bound, scene, 4, 0).failures == ()
    swapped = replace(bound, lhs=bound.rhs, rhs=bound.lhs)
    assert any("exceeds" in f for f in check_statement(swapped, scene, 4, 0).failures)


def test_certificate_is_checked_with_the_least_bounds_of_the_values():
    """A larger maximum than that of the values would make any bound pass."""
    bound = next(s for s in find("main:certificate").statements if s.relation == "≤")
    scene = scene_of(find("main:certificate"))
    for case in draw_cases(bound, scene, 4, 0):
        env = Environment(ArbContext(), bound, scene, case)
        for least in (top - sp.Abs(v - y), high - eps, eps - low):
            gaps = env.evaluate(least)
            assert not any(gap < 0 for gap in gaps)
            assert any(gap.contains(0) for gap in gaps)


def test_wrong_constant_of_an_expansion_is_disproved():
    entry = find("eq:quadraticinteraction")
    wrong = replace(entry.statements[0], rhs=entry.statements[0].rhs / 2)
    assert check_statement(wrong, scene_of(entry), 4, 0).failures


def test_binding_that_contradicts_a_hypothesis_is_an_error():
    scene = RESPONSE.with_symbols({D: S(p * E) + 1})
    (case,) = draw_cases(STATEMENT, scene, 1, 0)
    with pytest.raises(BindingError, match="does not hold of the bindings"):
        evaluate_sides(STATEMENT, scene, case)
    assert "does not hold" in check_statement(STATEMENT, scene, 1, 0).failures[0]


def test_scene_that_never_suits_a_statement_is_an_error():
    statement = replace(STATEMENT, smallest=10**6)
    with pytest.raises(BindingError, match="none of 64 draws suits the statement"):
        list(draw_cases(statement, RESPONSE, 1, 0))


def test_mpmath_is_asked_and_can_disagree():
    (case,) = draw_cases(STATEMENT, RESPONSE, 1, 0)
    sides = evaluate_sides(STATEMENT, RESPONSE, case)
    assert second_opinion(STATEMENT, RESPONSE, case, sides) == []
    moved = replace(sides, left=[2 * x + 1 for x in sides.left])
    (line,) = second_opinion(STATEMENT, RESPONSE, case, moved)
    assert line.endswith("mpmath and Arb disagree on the left side")


def test_same_seed_draws_the_same_cases():
    first, second = (list(draw_cases(STATEMENT, RESPONSE, 3, 4)) for _ in range(2))
    assert repr(first) == repr(second)
    assert repr(first) != repr(list(draw_cases(STATEMENT, RESPONSE, 3, 5)))


def test_symbols_are_known_by_sort_and_name():
    assert key(Index("v")) == key(Index("v", positive=True)) == ("key", "v")
    assert key(Letter("v", "1", "r")) == ("matrix", "v")
    assert key(sp.Symbol("v")) == ("number", "v")


def test_free_symbols_keep_the_assumptions_of_the_statement():
    positive, other = Index("a", positive=True), Index("b", idempotent=True)
    statement = Statement(name="s", lhs=S(positive * other), rhs=sp.Integer(0), scope="")
    case = FREE.draw(np.random.default_rng(0), False)
    env = Environment(ArbContext(), statement, FREE, case)
    assert all(x > 0 for x in env[Index("a")])
    assert all(x in (0, 1) for x in env[Index("b")])


def test_undefined_function_needs_a_scene():
    statement = Statement(name="s", lhs=sp.Function("G")(1), rhs=sp.Integer(0), scope="")
    scene = Scene(FREE.draw)
    with pytest.raises(ValueError, match="a scene must say what the function G is"):
        check_statement(statement, scene, 1, 0)


def test_kinds_that_need_a_definition_have_one_for_most_statements():
    defined = [check_entry(find(label), cases=0) for label in REQUIRED]
    total, covered = (sum(getattr(c, n) for c in defined) for n in ("statements", "definitions"))
    assert all(c.definitions for c in defined if c.kind in (Kind.EQUALITY, Kind.EXPANSION))
    assert covered >= 0.8 * total
