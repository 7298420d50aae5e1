"""The ledger counts only what was run and held, and says where something broke."""

import dataclasses
import importlib
import json

import pytest
from typer.testing import CliRunner

import finite_calculus as fc
from finite_calculus import response
from finite_calculus.cli import app
from finite_calculus.cli.verify import _short
from finite_calculus.provenance.sources import source_digests
from native_checks import preflight
from proofs import catalogue, coq_check, coq_source, edges, ledger, native
from proofs.labels import REQUIRED
from proofs.numeric import checks
from proofs.numeric.comparison import ReferenceComparison
from proofs.prover.statements import Statement
from proofs.references.numbers import flatten
from tests.helpers.seeded_errors import under_its_own_bound

LABEL = "main:response"


def run_one(**options):
    defaults = {"only": LABEL, "cases": 3, "jobs": 1, "with_coq": False, "with_mutation": False}
    return ledger.verify(**{**defaults, **options})


def command(*arguments: str):
    return CliRunner().invoke(app, ["verify", *arguments])


def test_a_sound_entry_is_proved_and_within_its_bounds() -> None:
    report = run_one()
    (row,) = report.rows
    assert (row.proof, row.failures, report.failed) == ("proved", (), 0)
    assert row.float64 is not None
    assert row.float64.cases >= 3
    assert 0 < row.float64.worst_over_bound <= 1
    assert row.reference_bits is not None
    assert row.reference_bits >= 128


def test_seventy_labels_are_required_and_covered() -> None:
    report = run_one()
    assert (report.labels_required, report.labels_covered) == (70, 70)
    assert len(set(REQUIRED)) == 70


def test_a_broken_formula_in_the_torch_code_is_caught_and_named(monkeypatch) -> None:
    sound = checks.CHECKS["finite_response"]
    assert isinstance(sound, ReferenceComparison)

    def without_the_interaction(case):
        readout = fc.freeze(case["scores"], case["values"], mask=case["mask"])
        key = fc.key_response(readout, case["score_delta"])
        return key + fc.value_response(readout, case["value_delta"])

    broken = dataclasses.replace(sound, compute=without_the_interaction)
    monkeypatch.setitem(checks.CHECKS, "finite_response", broken)
    report = run_one(cases=6)
    assert report.failed == 1
    failures = report.rows[0].failures
    assert any("finite_response float64" in failure for failure in failures)
    assert failures[-1] == "of the three texts of finite_response this is wrong: torch code"


def test_a_wrong_sign_in_a_definition_is_caught_and_named(monkeypatch) -> None:
    sound = checks.CHECKS["finite_response"]
    assert isinstance(sound, ReferenceComparison)

    def negative(num, **case):
        return [-x for x in flatten(sound.reference(num, **case))]

    broken = dataclasses.replace(sound, reference=negative)
    monkeypatch.setitem(checks.CHECKS, "finite_response", broken)
    failures = run_one(cases=6).rows[0].failures
    assert failures[-1].endswith("finite_response this is wrong: hand-written definition")


def test_a_form_that_loses_its_digits_is_caught_and_named(monkeypatch) -> None:
    monkeypatch.setattr(response, "reallocate", under_its_own_bound)
    report = run_one(only="unlabelled:stable-change", cases=40)
    assert report.failed == 1
    failures = report.rows[0].failures
    assert any("probability_change float64: not stable" in failure for failure in failures)
    assert not any("beyond" in failure for failure in failures)


def with_statement(monkeypatch, **changes) -> Statement:
    """The ledger reads the entry with another first statement."""
    entry = catalogue.find(LABEL)
    first = entry.statements[0]
    wrong = dataclasses.replace(first, **changes)
    clauses = tuple(
        dataclasses.replace(
            clause, statements=tuple(wrong if s is first else s for s in clause.statements)
        )
        for clause in entry.clauses
    )
    mutated = dataclasses.replace(entry, clauses=clauses)
    monkeypatch.setattr(ledger, "find", lambda label: mutated)
    return first


def test_a_wrong_sign_in_a_statement_is_caught_and_named(monkeypatch) -> None:
    first = with_statement(monkeypatch, rhs=-catalogue.find(LABEL).statements[0].rhs)
    (row,) = run_one().rows
    assert row.proof == "failed"
    assert any("not proved" in failure and first.name in failure for failure in row.failures)
    assert any("fails at N" in failure for failure in row.failures)
    assert row.failures[-1].endswith("this is wrong: catalogue statement, right side")


def test_a_hypothesis_that_does_not_hold_is_a_failure_and_not_an_exception(monkeypatch) -> None:
    first = catalogue.find(LABEL).statements[0]
    (pivot, value), *others = first.hypotheses
    with_statement(monkeypatch, hypotheses=((pivot, -value), *others))
    (row,) = run_one().rows
    assert row.proof == "failed"
    assert any("does not hold of the bindings" in failure for failure in row.failures)
    assert any(failure.startswith("assumes what does not hold") for failure in row.failures)


def test_a_statement_that_the_kernel_refuses_is_a_failure_and_says_why(monkeypatch) -> None:
    with_statement(monkeypatch, relation="<")
    (row,) = run_one().rows
    assert any("a relation is = or ≤" in failure for failure in row.failures)


def test_a_failed_coq_check_fails_the_ledger_and_says_where(monkeypatch) -> None:
    failure = coq_source.Failure("Response.v", 12, "Response.response", "no such goal")
    broken = coq_check.CoqReport("failed", "8.16", 1.0, {}, (failure,))
    monkeypatch.setattr(coq_check, "check", lambda *_, **__: broken)
    report = run_one(with_coq=True)
    assert report.rows[0].coq == "failed"
    assert run_one(with_coq=True, only="main:joint").rows[0].coq == "not checked"
    assert any("Response.v:12" in text for text in report.failures)


def test_without_coq_the_ledger_says_not_checked_and_counts_nothing(monkeypatch) -> None:
    absent = coq_check.CoqReport("not checked", None, 0.0, {}, (), "coqc is not installed")
    monkeypatch.setattr(coq_check, "check", lambda *_, **__: absent)
    report = run_one(with_coq=True)
    assert (report.rows[0].coq, report.coq_checked, report.failed) == ("not checked", 0, 0)
    assert command("--only", LABEL, "--cases", "2", "--quiet", "--require-coq").exit_code == 1


def test_the_json_has_the_promised_fields(tmp_path) -> None:
    target = tmp_path / "ledger.json"
    result = command(
        "--only", LABEL, "--cases", "2", "--jobs", "1", "--quiet", "--json", str(target)
    )
    assert result.exit_code == 0
    data = json.loads(target.read_text())
    promised = {"entries", "labels_required", "labels_covered", "proved", "definitions", "failed"}
    promised |= {"clauses", "clauses_proved", "clauses_coq_only", "clauses_unproved"}
    promised |= {"clauses_recomputed", "clauses_not_checked", "native_checks"}
    promised |= {"references_required", "references_generated", "native_checked"}
    assert promised | {"coq_theorems", "coq_checked"} <= set(data["summary"])
    assert data["schema"] == ledger.SCHEMA
    (entry,) = data["entries"]
    fields = {"label", "aliases", "kind", "proof", "scope", "coq", "reference_bits", "native"}
    fields |= {"clauses", "stands_on", "generated"}
    assert fields | {"float64", "float32"} <= set(entry)
    assert all({"text", "proof", "coq", "status"} <= set(c) for c in entry["clauses"])
    assert {"checks", "record", "worst_over_bound"} <= set(entry["native"])
    assert set(entry["generated"]) == {"cases", "bits"}
    assert {"cases", "violations", "worst_over_bound", "bits_lost"} == set(entry["float64"])


def test_why_shows_statement_assumptions_certificate_and_theorem() -> None:
    result = command("--why", "eq:finiteincrement")
    assert result.exit_code == 0
    for part in ("main:response", "assumes:", "proved:", "N = 64: holds", "Coq: Response.response"):
        assert part in result.output


@pytest.mark.parametrize("option", ["--why", "--only"])
def test_an_unknown_label_is_refused_with_a_suggestion(option) -> None:
    result = command(option, "main:respons")
    assert result.exit_code == 2
    assert "main:respons" in result.output
    assert "Did you mean" in result.output


def test_the_summary_is_the_last_line() -> None:
    result = command("--only", LABEL, "--cases", "2", "--jobs", "1")
    assert result.output.strip().splitlines()[-1].startswith("1 statements: 1 proved")


def test_every_native_check_exists_and_every_label_it_names_is_an_entry() -> None:
    names = {name for entry in catalogue.entries() for name in entry.names}
    for check, labels in native.CHECKS.items():
        module, _, function = check.partition(".")
        implementation = getattr(importlib.import_module(f"native_checks.{module}"), function)
        assert implementation in preflight.CHECKS
        assert set(labels) <= names


MODULE = "native_checks.queries"


def native_record(folder, *, code: str, figure: float = 0.5, **changes) -> None:
    check = {
        "check": "queries.requested_ratios_are_native", "figure": figure, "bound": 1.0, "passed": figure <= 1,
        "at_least": False, "compared": 3, **changes,
    }  # fmt: skip
    made = {
        "made": "2026-01-01T00:00:00+00:00",
        "code": {MODULE: code},
        "models": {"m": {"checks": [check]}},
    }
    (folder / "m.json").write_text(json.dumps(made))


def test_a_native_record_counts_for_the_code_that_made_it_alone(tmp_path) -> None:
    names = catalogue.find("main:querycontrol").names
    native_record(tmp_path, code=native.code_hash(MODULE))
    found = native.standing(names, native.read_records(tmp_path))
    assert (found.status, found.record, found.worst_over_bound) == ("checked", "m", 0.5)
    native_record(tmp_path, code="other code")
    assert native.standing(names, native.read_records(tmp_path)).status == "not checked"


def test_a_native_check_counts_whatever_became_of_the_others(tmp_path) -> None:
    native_record(tmp_path, code=native.code_hash(MODULE))
    record = json.loads((tmp_path / "m.json").read_text())
    record["code"]["native_checks.joint"] = "other code"
    checks = record["models"]["m"]["checks"]
    checks.append({**checks[0], "check": "joint.certificates_hold"})
    (tmp_path / "m.json").write_text(json.dumps(record))
    records = native.read_records(tmp_path)
    stands = [
        native.standing(catalogue.find(x).names, records)
        for x in ("main:querycontrol", "main:certificate")
    ]
    assert [standing.status for standing in stands] == ["checked", "not checked"]


def test_code_that_only_loads_a_model_voids_no_native_check() -> None:
    reached = source_digests({MODULE: None})
    assert "finite_calculus.models.capture" in reached
    assert "finite_calculus.control" in reached
    loading = {"checkpoints", "gate"}
    assert [name for name in reached if loading & {*name.split(".")}] == []


def test_a_native_check_that_compared_nothing_does_not_count(tmp_path) -> None:
    names = catalogue.find("main:querycontrol").names
    native_record(tmp_path, code=native.code_hash(MODULE), compared=0)
    assert native.standing(names, native.read_records(tmp_path)).status == "not checked"


def test_a_native_check_that_failed_fails_its_entry(tmp_path) -> None:
    native_record(tmp_path, code=native.code_hash(MODULE), figure=2.0)
    (record,) = native.read_records(tmp_path)
    found = native.standing(catalogue.find("main:querycontrol").names, [record])
    assert (found.status, found.worst_over_bound) == ("failed", 2.0)


def test_an_entry_without_a_native_check_says_so() -> None:
    assert native.standing(catalogue.find("eq:rho").names, ()).status == "none"


def test_a_clause_of_coq_alone_is_not_checked_without_coq_and_not_called_proved(
    monkeypatch,
) -> None:
    absent = coq_check.CoqReport("not checked", None, 0.0, {}, (), "coqc is not installed")
    monkeypatch.setattr(coq_check, "check", lambda *_, **__: absent)
    report = run_one(with_coq=True, only="main:curvature")
    (row,) = report.rows
    assert row.proof == "proved in part"
    assert "not checked" in {clause.status for clause in row.clauses}
    assert report.summary["proved"] == 0
    assert report.summary["clauses_not_checked"] != 0
    assert report.failed == 0


def test_an_entry_is_green_only_if_all_that_it_stands_on_is() -> None:
    (row,) = run_one().rows
    assert edges.foundations(LABEL)
    labels = (LABEL, *sorted(edges.foundations(LABEL)))
    rows = [dataclasses.replace(row, label=label) for label in labels]
    assert all(row.green for row in ledger._with_foundations(rows))
    below = dataclasses.replace(rows[-1], failures=("seeded",))
    judged = list(ledger._with_foundations([*rows[:-1], below]))
    assert judged[0].failures == ()
    assert not judged[0].green


def test_a_figure_far_beyond_its_bound_stays_short() -> None:
    assert [_short(figure) for figure in (0.987, 12.3, 1.63e307)] == ["0.99", "12.30", "1.6e+307"]
