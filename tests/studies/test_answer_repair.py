"""Answer repair: edits are ranked, kept installed and checked, and the example is what the search logged."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from finite_calculus.harness import ModelSubject, Records, Row, Tables, UnitResult
from finite_calculus.models import Instrument, ScaleValues, attach
from finite_calculus.search import Family, certify_table
from finite_calculus.search.score import prepare_search
from finite_calculus.studies.answer_repair import STUDY, RepairSettings, unit
from finite_calculus.studies.answer_repair.answers import Checker, expression_of, line_ended
from finite_calculus.studies.answer_repair.arms import arm_rows, attention_mass, first_order
from finite_calculus.studies.answer_repair.confirmation import confirm_case
from finite_calculus.studies.answer_repair.prompts import CasePrompt, plan_cases, prompt_of
from finite_calculus.studies.answer_repair.report import Outcomes, exact_interval
from finite_calculus.studies.answer_repair.rows import ARMS, EDITED, Confirmation, Continuation
from finite_calculus.studies.answer_repair.selection import select_example
from finite_calculus.tasks.api_cases import api_case
from native_checks.records import CEILING_ABSOLUTE, CEILING_RELATIVE

SETTINGS = RepairSettings(model="embedded", cases=1, search_cases=1, tries=2, tokens=6)


@pytest.fixture(scope="module")
def prompt(embedded: Any) -> CasePrompt:
    return prompt_of(api_case("search", "plain", 0, seed=SETTINGS.seed), embedded[1], 512)


@pytest.fixture(scope="module")
def instrument(embedded: Any) -> Any:
    with attach(embedded[0], tokenizer=embedded[1]) as attached:
        yield attached


@pytest.fixture(scope="module")
def result(instrument: Instrument, prompt: CasePrompt) -> UnitResult:
    """All branches of the prompt."""
    return unit.run_case(instrument, SETTINGS, prompt)


def test_a_run_tries_every_arm_as_often_and_reports_from_its_records(
    embedded: Any, instrument: Instrument
) -> None:
    # Planned, run and reported as the harness does it, without the gate, which other studies' tests pass.
    subject = ModelSubject(instrument, embedded[1])
    rows: list[Row] = []
    manifests = {}
    for stage, policy in (("search", None), ("rate", {"case": None})):
        plan = STUDY.plan(subject, SETTINGS, stage, policy)
        manifests[stage] = plan.manifest
        for case in plan.units.values():
            done = STUDY.run(subject, SETTINGS, case, policy)
            assert [check.failed for check in done.checks] == [0, 0]
            rows += [row for table in done.rows.values() for row in table]
        arms = [r.arm for r in rows if isinstance(r, Continuation) and r.stream == stage]
        assert {arm: arms.count(arm) for arm in ARMS} == dict.fromkeys(ARMS, SETTINGS.tries)
        assert [arms.count(arm) for arm in ("ordinary", "no-op", "target forced")] == [1, 1, 1]
    records = recorded(rows, manifests)
    assert STUDY.decide(SETTINGS, "search", records) == {"case": None}
    names = [table.name for table in STUDY.report(SETTINGS, records)]
    expected = ["base", "rates", "kinds", "damage", "predictions", "tries", "search", "cases"]
    assert names == expected


def test_the_effect_of_a_row_is_that_of_execution(
    instrument: Instrument, prompt: CasePrompt, result: UnitResult
) -> None:
    ids = torch.tensor(prompt.ids)
    versus, _ = unit.first_words(instrument, ids, prompt.target)
    capture = instrument.capture(ids, answer=prompt.target, versus=versus)
    rows = result.rows["continuations"]
    edited = [r for r in rows if isinstance(r, Continuation) and r.arm in ("ranked", "attention")]
    table = prepare_search(capture).score()
    places = {(r.layer, r.tokens[0], r.kind): r.index for r in table.rows()}
    for row in edited:
        assert row.layer is not None
        assert row.token is not None
        assert row.edit is not None
        number = places[row.layer, row.token, row.edit]
        assert row.predicted == float(table.effect[number])
        (outcome,) = instrument.execute(capture, [table.edit(number)]).outcomes
        # Two batches round differently: two margins of two logits each, in native float32.
        allowed = 4 * (CEILING_ABSOLUTE + CEILING_RELATIVE * float(capture.logits.abs().max()))
        assert row.effect == pytest.approx(outcome.effect, rel=0, abs=allowed)
        assert abs(outcome.effect) > allowed or row.arm != "ranked"


def test_arms_rank_the_same_rows_in_their_own_ways(
    instrument: Instrument, prompt: CasePrompt
) -> None:
    capture = instrument.capture(torch.tensor(prompt.ids), answer=prompt.target, versus=5)
    places = tuple((n,) for n in (*prompt.places, *range(0, len(prompt.ids), 9)))
    prepared = prepare_search(capture, Family(places=places))
    table = prepared.score()
    rows = arm_rows(prepared, table, prompt.places, 4, (1, 2))
    assert tuple(rows) == EDITED
    assert rows["ranked"] == table.order(4, towards="answer")
    certificate = certify_table(table).certificate
    assert certificate is not None
    first = first_order(prepared)
    scale = float(certificate.first_order.abs().max())
    assert torch.allclose(first, certificate.first_order, rtol=0, atol=1e-12 * scale)
    assert rows["first-order"][0] == int(certificate.first_order.argmax())
    for arm in ("attention", "attention to target"):
        chosen = [table.row(index) for index in rows[arm]]
        assert {row.kind for row in chosen} == {"odds ×64"}
        masses = [float(attention_mass(prepared)[row.index]) for row in chosen]
        assert masses == sorted(masses, reverse=True)
        for row, mass in zip(chosen, masses, strict=True):
            probs = capture.layer(row.layer).readout().probs[:, row.tokens[0]]
            assert mass == pytest.approx(float(probs.mean()), rel=1e-12)
        if arm == "attention to target":
            assert {row.tokens[0] for row in chosen} <= set(prompt.places)
    again, other = (arm_rows(prepared, table, prompt.places, 4, s) for s in ((1, 2), (1, 3)))
    assert again == rows
    assert other["random"] != rows["random"]


def test_a_no_op_that_does_something_fails_its_check(
    instrument: Instrument,
    prompt: CasePrompt,
    result: UnitResult,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert [check.failed for check in result.checks] == [0, 0]

    def busy(capture: Any) -> Any:
        return ScaleValues(len(capture.layers) - 1, tuple(range(len(capture.ids))), -8.0)

    monkeypatch.setattr(unit, "idle_edit", busy)
    checks = unit.run_case(instrument, SETTINGS, prompt, arms=("ranked",)).checks
    assert [check.failed for check in checks] == [1, 0]


def test_places_are_the_tokens_that_spell_the_target(prompt: CasePrompt, embedded: Any) -> None:
    spelled = embedded[1].decode([prompt.ids[n] for n in prompt.places]).replace(" ", "")
    name = prompt.case.target
    assert spelled == name * (len(spelled) // len(name))
    assert len(spelled) >= len(name)


def line(case: str, arm: str, tried: int = 1, passed: int = 0, **more: Any) -> Continuation:
    stream, kind = more.pop("stream", "search"), "call"
    values = dict.fromkeys(("layer", "token", "predicted", "effect", "repeated"))
    values |= {"edit": "odds ×64", "expression": f"{arm} {tried}", "generated": 5, "checks": 6}
    values |= {"ended": "computed", "reason": "", **more}
    return Continuation(stream, case, kind, arm=arm, tried=tried, passed=passed, **values)


def recorded(rows: list[Row], manifests: Any) -> Records:
    class Listed(Tables):
        def rows(self, kind: Any) -> list[Any]:
            return [row for row in rows if isinstance(row, kind)]

    return Records(Listed({}, {}), manifests)


def test_the_first_case_that_an_edit_alone_repairs_is_selected() -> None:
    rows: list[Row] = [
        # Passes unedited, passes under emphasis, is never repaired, is repaired by the second edit.
        *(line("a", arm, passed=6) for arm in ("ordinary", "emphasis", "ranked")),
        *(
            line("b", arm, passed=6 * (arm != "ordinary"))
            for arm in ("ordinary", "emphasis", "ranked")
        ),
        *(line("c", arm, passed=5) for arm in ("ordinary", "emphasis", "ranked")),
        *(line("d", arm) for arm in ("ordinary", "emphasis", "ranked")),
        line("d", "ranked", 2, 6, layer=3, token=7),
        line("d", "ranked", 3, 6, layer=1, token=1),
    ]
    planned = {"search": {"cases": [{"case": case} for case in "abcd"]}}
    policy = select_example(recorded(rows, planned))
    assert (policy["case"], policy["layer"], policy["token"], policy["tried"]) == ("d", 3, 7, 2)
    assert policy["expressions"]["ranked"] == "ranked 2"
    assert policy["manifest"] == {"case": "d"}
    assert select_example(recorded(rows[:-2], planned)) == {"case": None}


def test_a_confirmation_holds_the_search_to_its_word(
    instrument: Instrument, prompt: CasePrompt, result: UnitResult
) -> None:
    rows = result.rows["continuations"]
    first = {r.arm: r for r in rows if isinstance(r, Continuation) and r.tried == 1}
    policy: dict[str, Any] = {
        "case": prompt.case.name,
        "layer": first["ranked"].layer,
        "token": first["ranked"].token,
        "edit": first["ranked"].edit,
        "expressions": {arm: row.expression for arm, row in first.items()},
        "manifest": prompt.manifest(),
    }
    confirmed = confirm_case(instrument, SETTINGS, prompt, policy)
    # This model repairs nothing, which the third check says; the others repeat.
    assert [check.failed for check in confirmed.checks] == [0, 0, 1, 0]
    branches = [
        row.branch for row in confirmed.rows["confirmation"] if isinstance(row, Confirmation)
    ]
    assert branches == ["ordinary", "emphasis", "no-op", "ranked"]
    wrong = {
        **policy,
        "expressions": policy["expressions"] | {"ordinary": "other"},
        "manifest": prompt.manifest() | {"checks_sha256": "other"},
    }
    assert [c.failed for c in confirm_case(instrument, SETTINGS, prompt, wrong).checks[:2]] == [
        1,
        1,
    ]


def test_an_answer_is_its_first_line_and_its_checks_are_all_or_none(
    prompt: CasePrompt, embedded: Any
) -> None:
    tokenizer = embedded[1]

    def tokens(text: str) -> list[int]:
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    assert expression_of(tokens("\n f(x)\n\nTask"), tokenizer) == "f(x)"
    assert expression_of([], tokenizer) == ""
    ended = line_ended(tokenizer)
    assert [ended(tokens(text)) for text in ("\n", " f(x)", "\nf(x)\n")] == [False, False, True]
    check = Checker(prompt.case)
    right = check(prompt.case.solution)
    assert (right.passed, right.checks, right.ended) == (6, 6, "computed")
    assert check(prompt.case.solution) is right
    assert check("__import__('os')").passed == 0
    assert check("__import__('os')").ended == "refused"
    others = [name for name in prompt.case.contract.functions if name != prompt.case.target]
    assert not any(check(f"{name}(value)").right for name in others)


def test_a_number_is_not_the_text_of_it(prompt: CasePrompt) -> None:
    trials = tuple(replace(trial, expected="5") for trial in prompt.case.trials)
    counted = {"f": "count"}
    contract = replace(prompt.case.contract, functions=counted)
    check = Checker(replace(prompt.case, contract=contract, trials=trials))
    assert check("f('stone')").passed == 0
    assert check("'5'").passed == 6


def test_a_case_counts_as_repaired_by_any_of_its_tries_and_only_if_it_failed() -> None:
    rows = [
        line("a", "ordinary", stream="rate"),
        line("a", "ranked", 1, 5, stream="rate"),
        line("a", "ranked", 2, 6, stream="rate"),
        line("b", "ordinary", stream="rate"),
        line("b", "ranked", 1, 0, stream="rate"),
        line("c", "ordinary", passed=6, stream="rate"),
        line("c", "ranked", 1, 6, stream="rate"),
    ]
    rate = Outcomes(rows)
    failing = rate.cases(right=False)
    assert (failing, rate.cases(right=True)) == (["a", "b"], ["c"])
    assert rate.repaired(failing, "ranked").tolist() == [1, 0]
    assert rate.repaired(failing, "ranked", tries=1).tolist() == [0, 0]
    assert rate.repaired(failing, "random").tolist() == [0, 0]


def test_exact_intervals_are_those_of_the_binomial_tails() -> None:
    for successes, trials in ((0, 10), (3, 10), (10, 10)):
        low, high = exact_interval(successes, trials, 0.95)
        assert low <= successes / trials <= high
        if successes:
            assert _tail(successes, trials, low) == pytest.approx(0.025)
        if successes < trials:
            assert 1 - _tail(successes + 1, trials, high) == pytest.approx(0.025)
    assert exact_interval(0, 10, 0.95)[0] == 0
    assert exact_interval(10, 10, 0.95)[1] == 1


def _tail(least: int, trials: int, rate: float) -> float:
    """The chance of at least so many successes."""
    from math import comb

    counts = np.arange(least, trials + 1)
    return float(sum(comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in counts))


def test_more_tries_than_ways_to_emphasise_are_refused(embedded: Any) -> None:
    many = RepairSettings(model="embedded", tries=4)
    with pytest.raises(ValueError, match=r"`tries` must be at most 3, .* got 4"):
        plan_cases(many, embedded[1], 512, "search", None)


def test_a_tokenizer_that_joins_the_answer_to_the_prompt_is_refused(prompt: CasePrompt) -> None:
    class Joining:
        chat_template = None

        def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
            return {"input_ids": [hash(text)]}

    with pytest.raises(ValueError, match="prompt's tokens must stay when an answer follows"):
        prompt_of(prompt.case, Joining(), 512)
