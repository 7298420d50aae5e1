"""The catalogue is complete, names no two things alike, and every statement in it is proved."""

import importlib

import pytest

from proofs import coq_source
from proofs.catalogue import collect, entries, find
from proofs.entry import ASSUMPTIONS, Clause, Entry, Kind, Status
from proofs.labels import EQUATIONS, NEEDED, REQUIRED, THEOREMS, UNLABELLED
from proofs.prover.rational import instantiate

SOME = find("main:response").statements[0]
STATEMENTS = {s.name: s for entry in entries() for s in entry.statements}
EXTRA = {**UNLABELLED, **NEEDED}
KNOWN = {*REQUIRED, *EXTRA, *EXTRA.values()}


def entry(label: str, **fields) -> Entry:
    settings = {"title": "", "text": "", "kind": Kind.EQUALITY, "scope": "", **fields}
    return Entry(label=label, **settings)


def test_required_labels_are_those_of_the_paper():
    assert len(set(EQUATIONS)) == 66
    assert sum(label.startswith("main:") for label in EQUATIONS) == 15
    assert len(set(REQUIRED)) == len(EQUATIONS) + len(THEOREMS) == 70
    assert [len(UNLABELLED), len(NEEDED)] == [25, 8]


def test_every_required_label_has_an_entry():
    names = {name for e in entries() for name in e.names}
    assert KNOWN - names == set()


def test_every_entry_is_required():
    assert {name for e in entries() for name in e.names} - KNOWN == set()


def test_rows_name_the_entry_of_their_label():
    assert all(find(row) is find(label) for row, label in EXTRA.items())


def test_entry_is_found_by_label_alias_and_row():
    assert find("main:finite") is find("eq:finiteincrement") is find("main:response")
    assert find("U4") is find("eq:quadraticinteraction")
    with pytest.raises(KeyError, match="no entry has the label 'eq:missing'"):
        find("eq:missing")


@pytest.mark.parametrize("clash", [{"label": "a"}, {"label": "c", "aliases": ("a",)}])
def test_duplicate_is_rejected_naming_both_places(clash):
    topics = [("first", [entry("a")]), ("second", [entry(**clash)])]
    message = f"'a' is used by both first.a and second.{clash['label']}"
    with pytest.raises(ValueError, match=message):
        collect(topics)


def test_unknown_assumption_is_rejected():
    with pytest.raises(ValueError, match=r"unknown assumptions \['luck'\]"):
        entry("a", assumptions=("luck",))


def test_every_assumption_is_used():
    assert {name for e in entries() for name in e.assumptions} == set(ASSUMPTIONS)


def test_every_entry_has_a_statement_or_is_arithmetic():
    bare = [e.label for e in entries() if not e.statements and e.kind is not Kind.ARITHMETIC]
    assert bare == []


def test_every_entry_says_what_it_claims_and_how_far():
    assert [e.label for e in entries() if not (e.title and e.text and e.scope)] == []


def test_statement_names_are_unique_and_sides_differ():
    for e in entries():
        for s in e.statements:
            assert STATEMENTS[s.name] is s, s.name
            assert s.lhs != s.rhs, f"{s.name}: both sides are the same tree"


@pytest.mark.parametrize("name", STATEMENTS)
def test_statement_is_proved(name):
    certificate = STATEMENTS[name].prove()
    assert certificate.ok, str(certificate)


@pytest.mark.parametrize("name", STATEMENTS)
def test_statement_holds_exactly_in_its_models(name):
    instances = list(instantiate(STATEMENTS[name]))
    assert instances
    assert [i.detail for i in instances if not i.ok] == []


def test_every_named_function_exists():
    missing = []
    for dotted in sorted({name for e in entries() for name in e.functions}):
        module, _, function = dotted.rpartition(".")
        try:
            exists = hasattr(importlib.import_module(f"finite_calculus.{module}"), function)
        except ModuleNotFoundError:
            exists = False
        if not exists:
            missing.append(dotted)
    assert missing == []


def test_every_clause_names_what_proves_it():
    bare = [
        (e.label, clause.text)
        for e in entries()
        for clause in e.clauses
        if not (clause.statements or clause.coq or clause.computed)
    ]
    assert bare == []
    assert [e.label for e in entries() if not e.clauses] == []


def test_every_theorem_of_a_clause_exists():
    known = coq_source.theorems()
    assert [t for e in entries() for t in e.theorems if t not in known] == []


def test_every_labelled_theorem_supports_a_clause_of_its_entry():
    missing = [
        (label, theorem)
        for label, theorems in coq_source.by_label().items()
        for theorem in theorems
        if theorem not in find(label).theorems
    ]
    assert missing == []


def status(clause: Clause, *, proved: bool = True, checked: bool | None = True) -> Status:
    return clause.status(lambda _: proved, lambda _: checked)


def test_status_of_a_clause_is_derived_from_what_proves_it():
    symbolic, both = Clause("a", statements=(SOME,)), Clause("a", statements=(SOME,), coq=("M.t",))
    coq, figures, bare = Clause("a", coq=("M.t",)), Clause("a", computed="program"), Clause("a")
    assert status(symbolic) is status(both) is Status.PROVED
    assert status(both, checked=None) is Status.PROVED
    assert status(both, checked=False) is status(both, proved=False) is Status.UNPROVED
    assert status(coq) is Status.COQ_ONLY
    assert status(coq, checked=None) is Status.NOT_CHECKED
    assert status(coq, checked=False) is Status.UNPROVED
    assert status(figures) is Status.RECOMPUTED
    assert status(bare) is Status.UNPROVED


def test_clause_without_a_text_says_what_its_entry_says():
    assert entry("a", text="claim", clauses=(Clause(""),)).clauses[0].text == "claim"
    assert all(clause.text for e in entries() for clause in e.clauses)


@pytest.mark.parametrize(
    "label",
    [
        "main:curvature",
        "main:querycontrol",
        "prop:bounded",
        "eq:bound",
        "main:effective",
        "eq:rho",
        "eq:quadraticinteraction",
        "U5",
        "U8",
        "U10",
        "U11",
        "U15",
        "U20",
    ],
)
def test_entry_that_was_proved_in_part_says_which_clauses_are_of_coq_alone(label):
    statuses = [status(clause) for clause in find(label).clauses]
    assert Status.COQ_ONLY in statuses
