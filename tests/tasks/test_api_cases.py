"""Cases of the API task: fixed by their seed, solved by their solution and by no other call."""

from itertools import product

import pytest

from finite_calculus.expressions import parse
from finite_calculus.expressions.interpreter import compute
from finite_calculus.tasks.api_cases import (
    EMPHASES,
    INPUTS,
    KINDS,
    NAMES,
    SOURCES,
    STREAMS,
    ApiCase,
    api_cases,
)

CASES = api_cases("rate", 120, seed=5)


def passes(case: ApiCase, expression: str) -> bool:
    tree = parse(expression)
    try:
        values = [compute(tree, case.contract, trial.inputs) for trial in case.trials]
    except ValueError:
        return False
    return values == [trial.expected for trial in case.trials]


def test_the_solution_passes_and_no_other_single_call_does() -> None:
    for case in CASES:
        assert passes(case, case.solution)
        assert case.solution.startswith(f"{case.target}(")
        calls = [f"{name}(value)" for name in case.contract.functions]
        right = [call for call in calls if passes(case, call)]
        assert right == ([] if case.kind == "nested" else [case.solution])


def test_nested_solutions_are_two_different_calls_and_rarely_have_an_equal() -> None:
    nested = [case for case in CASES if case.kind == "nested"]
    equals = 0
    for case in nested:
        pairs = product(case.contract.functions, repeat=2)
        right = [f"{a}({b}(value))" for a, b in pairs if passes(case, f"{a}({b}(value))")]
        assert case.solution in right
        equals += len(right) > 1
    # upper(first(value)) is first(upper(value)): such pairs are equally right, and pass.
    assert equals < len(nested)


def test_a_prompt_shows_another_task_than_it_asks() -> None:
    for case in CASES:
        shown, asked = (part.partition("\n")[0] for part in case.message.split("Task: ")[1:])
        assert shown.partition(",")[0] != asked.partition(",")[0] or case.kind == "nested"
        assert f"{case.reply} {case.solution}\n" not in case.message
        assert case.chat == (case.kind != "plain")
        assert all(f"{name}(x) " in case.message for name in case.contract.functions)


def test_cases_are_fixed_by_seed_stream_and_number() -> None:
    assert api_cases("rate", 7, seed=5) == CASES[:7]
    assert api_cases("rate", 7, seed=6) != CASES[:7]
    messages = {stream: {c.message for c in api_cases(stream, 60, seed=5)} for stream in STREAMS}
    assert not messages["search"] & messages["rate"]
    assert len({case.message for case in CASES}) == len(CASES)
    assert {case.kind for case in CASES[:3]} == set(KINDS)
    assert {name for case in CASES for name in case.contract.functions} == set(NAMES)


@pytest.mark.parametrize("operation", SOURCES)
def test_the_source_of_an_operation_does_what_the_operation_does(operation: str) -> None:
    case = next(c for c in CASES if operation in c.contract.functions.values())
    name = next(n for n, word in case.contract.functions.items() if word == operation)
    assert f"def {name}(x): return {SOURCES[operation]}\n" in case.emphasised[0]
    source = eval(f"lambda x: {SOURCES[operation]}")  # our own text, not a model's
    for text in INPUTS:
        assert source(text) == compute(parse(f"{name}(value)"), case.contract, {"value": text})


def test_emphasis_keeps_the_question_and_knows_the_answer_where_it_says_so() -> None:
    assert len(EMPHASES) == 3
    for case in CASES:
        question = case.message.rpartition("Task: ")[2]
        assert len({case.message, *case.emphasised}) == 1 + len(EMPHASES)
        assert all(message.endswith(question) for message in case.emphasised)
        assert f"Use {case.target}" in case.emphasised[2]
        assert f"Remember: {case.target}(x) " in case.emphasised[1] or case.kind == "nested"
