"""Formula mutation finds every neighbour of a statement, and a method that believes too much."""

import argparse
import dataclasses

import pytest
import sympy as sp

from proofs.catalogue import find
from proofs.prover import mutation, mutation_records as records
from proofs.prover.certificates import ProofCertificate
from proofs.prover.mutants import hypothesis_mutants, mutants
from proofs.prover.mutation import MutantResult, Report, combine, mutate, record
from proofs.prover.statements import Statement
from proofs.prover.syntax import Index, S
from proofs.prover.verdicts import Verdict
from proofs.prover.vocabulary import ONE, p, v, weights

inside, other = Index("1_S", idempotent=True), Index("1_T", idempotent=True)
y, c = sp.symbols("y c", real=True)
CENTRE = Statement(
    name="centre",
    lhs=S(p * (v - y)),
    rhs=sp.Integer(0),
    hypotheses=((S(p), ONE), (S(p * v), y)),
    model=((p, weights), (y, S(p * v))),
    scope="",
)


def believe(statement: Statement) -> ProofCertificate:
    return ProofCertificate(statement.name, sp.Integer(0))


def give_up(statement: Statement) -> ProofCertificate:
    raise ValueError("no verdict")


def texts(statement: Statement) -> set[str]:
    return {str(mutant) for mutant in mutants(statement)}


def test_mutants_change_one_thing_at_a_time():
    formulas = texts(CENTRE)
    assert "S(p*(v + y)) = 0" in formulas  # a sign
    assert "S(p*v) = 0" in formulas  # a dropped term
    assert "S(v - y) = 0" in formulas  # a dropped factor
    assert "S(v*(v - y)) = 0" in formulas  # a swapped symbol
    assert "S(p*(v - y)) = 1" in formulas  # a constant
    assert str(CENTRE) not in formulas


def test_mutants_change_index_sets():
    formulas = texts(dataclasses.replace(CENTRE, lhs=S(inside * p), rhs=S(other * p)))
    assert {"S(1_T*p) = S(1_T*p)", "S(p) = S(1_T*p)", "S(p*(1 - 1_S)) = S(1_T*p)"} <= formulas


def test_mutants_change_exponents():
    formulas = texts(dataclasses.replace(CENTRE, lhs=S(p * v**2)))
    assert {"S(p*v**3) = 0", "S(p*v) = 0"} <= formulas


def test_sound_method_leaves_no_survivor():
    report = mutate(CENTRE)
    assert report.ok
    assert report.count(Verdict.REFUTED) > 0


def test_true_neighbour_is_listed_with_its_text():
    zero = dataclasses.replace(CENTRE, lhs=S(c * p * (v - y)))
    formulas = [result.text for result in mutate(zero).of(Verdict.TRUE)]
    assert "S(p*(v - y)) = 0" in formulas


def test_method_that_believes_everything_is_stopped_by_the_checker():
    believer = dataclasses.replace(CENTRE, method=believe)
    assert "the checker disagrees" in believer.prove().refusal
    assert mutate(believer).count(Verdict.TRUE) == mutate(believer).count(Verdict.SURVIVOR) == 0


def test_survivor_is_a_failure():
    survivor = MutantResult("s", "0 = 1", Verdict.SURVIVOR)
    assert not Report((survivor,)).ok


def test_what_the_method_does_not_prove_is_refuted_or_unproved():
    report = mutate(dataclasses.replace(CENTRE, method=give_up))
    assert report.count(Verdict.UNPROVED) >= mutate(CENTRE).count(Verdict.TRUE)
    assert report.count(Verdict.REFUTED) == mutate(CENTRE).count(Verdict.REFUTED)


def test_mutants_change_hypotheses():
    changes = {text for _, text in hypothesis_mutants(CENTRE)}
    assert {"S(p) = -1", "S(p) = 2", "S(p) = 0", "S(p*v) = -y"} <= changes
    report = mutate(CENTRE)
    assert any("from S(p) = 2" in o.text for o in report.of(Verdict.UNPROVED))


def test_hypothesis_that_is_more_general_is_reported_apart():
    report = combine(mutate(s) for s in find("eq:atplinear").statements)
    assert any(result.text.endswith("from d = t - lam") for result in report.of(Verdict.GENERAL))


def test_mutants_turn_an_inequality_round_or_make_it_an_equation():
    statement = find("prop:bounded").statements[0]
    texts_of_mutants = {str(m) for m in mutants(statement)}
    assert {"A ≤ S(p*v)", "S(p*v) = A"} <= texts_of_mutants
    assert mutate(statement).ok


def test_mutants_change_functions_limits_points_and_orders():
    x = sp.Symbol("x", real=True)
    u = sp.Symbol("u", real=True)
    slope = sp.Subs(sp.Derivative(sp.exp(2 * x), x), x, 0)
    formulas = texts(dataclasses.replace(CENTRE, lhs=slope))
    assert str(sp.Subs(sp.Derivative(sp.sin(2 * x), x), x, 0)) + " = 0" in formulas
    assert str(sp.Subs(sp.Derivative(sp.exp(2 * x), x), x, 1)) + " = 0" in formulas
    assert str(sp.Subs(sp.Derivative(sp.exp(2 * x), (x, 2)), x, 0)) + " = 0" in formulas
    integral = texts(dataclasses.replace(CENTRE, lhs=sp.Integral(u * x, (u, 0, 1))))
    assert {"Integral(u*x, (u, 1, 1)) = 0", "Integral(u*x, (u, 0, 2)) = 0"} <= integral


def test_part_of_the_mutants_says_of_how_many():
    report = mutate(CENTRE, most=5)
    assert len(report.results) <= 5 < report.total
    assert str(report).startswith(f"{len(report.results)} of {report.total} mutants")


def test_a_sample_is_the_same_for_a_seed_and_another_for_another():
    first, again = (mutate(CENTRE, most=5) for _ in range(2))
    assert first == again
    assert len(first.results) == 5
    other = mutate(CENTRE, most=5, seed=1)
    assert {r.text for r in other.results} != {r.text for r in first.results}


def test_matrices_that_do_not_fit_are_not_mutants():
    (statement,) = find("eq:residual").statements
    assert mutate(statement).ok


def test_each_kind_of_proof_rejects_its_mutants():
    labels = ("eq:sparsetv", "eq:residual", "needed:half-angle", "eq:certifiedlocalranking")
    report = combine(mutate(s) for label in labels for s in find(label).statements)
    assert report.ok
    assert report.count(Verdict.TRUE) < report.count(Verdict.REFUTED) / 10


RECORDED = ("eq:residual", "needed:half-angle")


@pytest.fixture
def of_two(monkeypatch, tmp_path):
    """The place of a record, over a catalogue of two short statements."""
    short = [s for label in RECORDED for s in find(label).statements[:1]]
    monkeypatch.setattr(mutation, "_statements", lambda: tuple(short))
    monkeypatch.setattr(mutation, "multiprocessing", InProcess)
    return tmp_path / "mutants.json"


class InProcess:
    """A pool of workers that works in this process."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    @staticmethod
    def get_context(_):
        return argparse.Namespace(Pool=lambda _: InProcess())

    @staticmethod
    def imap(work, items):
        return map(work, items)


def test_a_stopped_run_of_all_mutants_goes_on_where_it_stopped(of_two):
    first, report = next(record(of_two))
    rows = records.read(of_two)
    assert rows[first]["mutants"] == len(report.results) == report.total
    assert sum(rows[first].get(v, 0) for v in map(str, Verdict)) == report.total
    assert [name for name, _ in record(of_two)] != [first]
    assert list(record(of_two)) == []
    assert len(records.read(of_two)) == len(RECORDED)


def test_a_row_of_another_statement_or_of_other_code_is_stale(of_two, monkeypatch):
    list(record(of_two))
    rows, (first, second) = records.read(of_two), mutation._statements()
    assert records.stale(rows, (first, second)) == []
    changed = dataclasses.replace(first, rhs=2 * first.rhs)
    assert records.stale(rows, (changed, second)) == [first.name]
    assumed = dataclasses.replace(first, model=((y, S(p)),))
    assert records.stale(rows, (assumed, second)) == [first.name]
    monkeypatch.setattr(records, "_code", lambda: "other")
    assert records.stale(rows, (first, second)) == [first.name, second.name]


def test_a_damaged_record_is_refused(of_two):
    list(record(of_two))
    of_two.write_text(of_two.read_text().replace('"refuted": ', '"refuted": 1'))
    with pytest.raises(ValueError, match="must hold rows as"):
        records.read(of_two)


def test_the_record_of_all_mutants_is_undamaged_and_has_no_survivor():
    rows = records.read()
    assert len(rows) > 100
    for name, row in rows.items():
        assert sum(row.get(v, 0) for v in map(str, Verdict)) == row["mutants"], name
        assert not row.get(Verdict.SURVIVOR), name
