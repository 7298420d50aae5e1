"""The edges between entries come from the proofs, and a failure below makes what stands on it fail."""

import pytest

from proofs.catalogue import entries, find
from proofs.edges import foundations, is_green, owner, stands_on
from proofs.prover.links import Link

HOLDS = {entry.label: True for entry in entries()}


def test_every_statement_belongs_to_an_entry():
    for entry in entries():
        for statement in entry.statements:
            assert owner(statement).label in {entry.label, *stands_on(entry.label)}


def test_every_link_is_an_edge():
    for entry in entries():
        for statement in entry.statements:
            for link in statement.links:
                if isinstance(link, Link) and owner(statement) is entry:
                    assert owner(link.lemma).label in {entry.label, *stands_on(entry.label)}


@pytest.mark.parametrize(
    ("label", "below"),
    [
        ("main:response", "eq:rho"),  # a link
        ("main:score", "main:integrate"),
        ("eq:original", "eq:rotation"),
        ("main:kl", "eq:klremainder"),  # a shared statement
        ("main:effective", "eq:identity"),
        ("U10", "main:querycontrol"),
        ("prop:bounded", "eq:attention"),  # a Coq proof
    ],
)
def test_entry_stands_on_what_its_proof_uses(label, below):
    assert below in stands_on(label)


def test_no_entry_stands_on_itself():
    assert [e.label for e in entries() if e.label in stands_on(e.label)] == []


def test_entry_is_green_only_when_all_that_it_stands_on_is():
    assert all(is_green(label, HOLDS) for label in HOLDS)
    broken = {**HOLDS, "eq:rho": False}
    assert not is_green("eq:rho", broken)
    assert not is_green("main:response", broken)
    assert not is_green("main:finite", broken)
    assert is_green("eq:phasecontent", broken)
    assert "eq:rho" not in foundations(find("eq:phasecontent").label)
