"""The statement, the definition and the code agree; where one is wrong, that one is named."""

from dataclasses import replace

import pytest

import finite_calculus as fc
from proofs.catalogue import entries, find
from proofs.generated.entries import is_required
from proofs.generated.links import LINKS, UNLINKED
from proofs.generated.scenes import scene_of
from proofs.generated.three_way import Link, Wrong, compare_three, name_wrong
from proofs.numeric.comparison import leaves_of
from proofs.numeric.comparisons import COMPARISONS
from proofs.prover.vocabulary import eps
from proofs.references import bank as of_bank
from proofs.references.numbers import flatten

NAMES = [f"{link.statement}-{link.function}" for link in LINKS]
RESPONSE = next(link for link in LINKS if link.statement == "main:response")
# A double integral takes a second for each case.
SLOW = "eq:bandinteraction"


def statement_of(link: Link):
    return next(s for s in find(link.label).statements if s.name.startswith(link.statement))


def verdict(link: Link, *, statement=None, comparison=None, cases: int = 3) -> Wrong:
    cases = 1 if link.label == SLOW else cases
    return name_wrong(
        compare_three(
            link,
            statement or statement_of(link),
            scene_of(find(link.label)),
            comparison or COMPARISONS[link.function],
            cases=cases,
        )
    )


@pytest.mark.parametrize("link", LINKS, ids=NAMES)
def test_the_three_texts_agree(link: Link):
    assert verdict(link, cases=2) is Wrong.NOTHING


@pytest.mark.parametrize("link", LINKS, ids=NAMES)
def test_wrong_sign_of_a_side_is_named(link: Link):
    statement = statement_of(link)
    wrong = replace(statement, rhs=-statement.rhs)
    assert verdict(link, statement=wrong) is Wrong.RIGHT


@pytest.mark.parametrize("link", LINKS, ids=NAMES)
def test_wrong_sign_of_the_definition_is_named(link: Link):
    sound = COMPARISONS[link.function]

    def negative(num, **case):
        return [-x for x in flatten(sound.reference(num, **case))]

    assert verdict(link, comparison=replace(sound, reference=negative)) is Wrong.DEFINITION


@pytest.mark.parametrize("link", LINKS, ids=NAMES)
def test_wrong_sign_of_the_code_is_named(link: Link):
    sound = COMPARISONS[link.function]

    def negative(case):
        return [-leaf for leaf in leaves_of(sound.compute(case))]

    assert verdict(link, comparison=replace(sound, compute=negative)) is Wrong.CODE


def test_wrong_sign_inside_the_statement_is_named():
    statement = statement_of(RESPONSE)
    left = replace(statement, lhs=statement.lhs.xreplace({eps: -eps}))
    right = replace(statement, rhs=statement.rhs.xreplace({eps: -eps}))
    assert verdict(RESPONSE, statement=left) is Wrong.LEFT
    assert verdict(RESPONSE, statement=right) is Wrong.RIGHT


def test_wrong_sign_inside_the_definition_is_named():
    def wrong(num, mask, scores, values, score_delta, value_delta, **_):
        less = [[-x for x in row] for row in value_delta]
        return of_bank.finite_response(num, mask, scores, values, score_delta, less)

    comparison = replace(COMPARISONS["finite_response"], reference=wrong)
    assert verdict(RESPONSE, comparison=comparison) is Wrong.DEFINITION


def test_wrong_sign_inside_the_code_is_named():
    def wrong(case):
        readout = fc.freeze(case["scores"], case["values"], mask=case["mask"])
        return fc.finite_response(readout, case["score_delta"], -case["value_delta"])

    comparison = replace(COMPARISONS["finite_response"], compute=wrong)
    assert verdict(RESPONSE, comparison=comparison) is Wrong.CODE


def test_two_wrong_texts_are_undecided():
    statement = statement_of(RESPONSE)
    comparison = replace(COMPARISONS["finite_response"], compute=lambda case: case["gradient"])
    wrong = replace(statement, rhs=2 * statement.rhs)
    assert verdict(RESPONSE, statement=wrong, comparison=comparison) is Wrong.UNDECIDED


def test_different_verdicts_of_two_cases_are_undecided():
    assert name_wrong([Wrong.CODE, Wrong.NOTHING]) is Wrong.CODE
    assert name_wrong([Wrong.CODE, Wrong.LEFT]) is Wrong.UNDECIDED
    assert name_wrong([]) is Wrong.NOTHING


def test_every_required_entry_with_a_function_is_linked_or_says_why_not():
    linked = {link.label for link in LINKS}
    assert not linked & UNLINKED.keys()
    needed = {entry.label for entry in entries() if is_required(entry) and entry.functions}
    assert needed <= linked | UNLINKED.keys()
    assert UNLINKED.keys() <= needed
    assert all(UNLINKED.values())


def test_every_link_names_a_statement_and_a_comparison_of_its_entry():
    for link in LINKS:
        names = [statement.name for statement in find(link.label).statements]
        assert any(name.startswith(link.statement) for name in names)
        assert link.function in COMPARISONS
