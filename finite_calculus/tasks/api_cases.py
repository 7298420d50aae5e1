"""Calls of an API that a model is asked to write: prompts, the right call, and six checks that execute it.

A prompt lists three or four functions with what each does, shows another task with its call and asks for
one more. Names say nothing about what a function does; names and tasks are drawn anew for each case. In
"call" the answer is one call, in "nested" two, one inside the other; both are a message in the model's chat
template. "plain" is one call again, in plain text to be continued, and the call shown has another argument:
small models pass some of these. The wording is ours. A case also has the same prompt emphasised in three
ways, of which the last two know the answer, as an edit's ranking target does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from finite_calculus.expressions import OPERATIONS, Contract, Value

Kind = Literal["call", "plain", "nested"]
KINDS: tuple[Kind, ...] = ("call", "plain", "nested")
Stream = Literal["search", "rate"]
STREAMS: tuple[Stream, ...] = ("search", "rate")
EMPHASES = ("source", "repeated line", "named function")

NAMES = (
    *("lookup", "legacy", "current", "direct", "simple", "general", "local", "final"),
    *("inner", "outer", "central", "basic", "major", "minor", "prime"),
)
# Each of these operations with a line of Python that does the same.
SOURCES = {
    "upper": "x.upper()",
    "lower": "x.lower()",
    "reverse": "x[::-1]",
    "first": "x[:1]",
    "last": "x[-1:]",
    "count": "len(x)",
    "twice": "2 * x",
}
INPUTS = ("Stone", "paper", "Lake", "moon", "Tiger", "ALGEBRA")
REPLY = "Call:"


@dataclass(frozen=True)
class Trial:
    """One executable check: the inputs of an expression, and the value that is right."""

    inputs: Mapping[str, Value]
    expected: Value


@dataclass(frozen=True)
class ApiCase:
    """One case: the message, how the reply begins, and what a right continuation must do.

    `chat` says whether the message goes into the model's chat template.
    `solution` is a right expression and `target` the function that it begins with; `emphasised` are
    messages that say the same with emphasis, in the order of `EMPHASES`.
    """

    name: str
    kind: str
    chat: bool
    message: str
    emphasised: tuple[str, ...]
    reply: str
    contract: Contract
    solution: str
    target: str
    trials: tuple[Trial, ...]


def api_cases(stream: Stream, count: int, *, seed: int) -> list[ApiCase]:
    """The first cases of a stream, kinds in turn."""
    return [api_case(stream, KINDS[n % len(KINDS)], n, seed=seed) for n in range(count)]


def api_case(stream: Stream, kind: Kind, index: int, *, seed: int) -> ApiCase:
    """Draw one case; the same numbers give the same case."""
    entropy = [seed, 11, STREAMS.index(stream), KINDS.index(kind), index]
    rng = np.random.default_rng(np.random.SeedSequence(entropy))
    count = 4 if kind == "nested" else 3
    names = [str(name) for name in rng.choice(NAMES, count, replace=False)]
    steps = 2 if kind == "nested" else 1
    while True:
        operations = [str(word) for word in rng.choice(list(SOURCES), count, replace=False)]
        functions = dict(zip(names, operations, strict=True))
        order = [names[n] for n in rng.permutation(count)]
        asked, shown = (_text_first(part, functions) for part in (order[:steps], order[-steps:]))
        if not _one_call_is_enough(asked, functions):
            break
    other = "word" if kind == "plain" else "value"
    example = (
        f"Task: {_task(shown, functions)}, of {other}\n{REPLY} {_expression(shown, other)}\n\n"
    )
    question = f"Task: {_task(asked, functions)}, of value"
    lines = "".join(f"{name}(x) {_words(functions, name)}\n" for name in names)
    sources = "".join(f"def {n}(x): return {SOURCES[functions[n]]}\n" for n in names)
    again = "".join(f"Remember: {name}(x) {_words(functions, name)}.\n" for name in asked)
    opening, target = f"API:\n{lines}\n{example}", asked[-1]
    emphasised = (
        f"API:\n{sources}\n{example}{question}",
        f"{opening}{again}{question}",
        f"{opening}Use {' and '.join(reversed(asked))}.\n{question}",
    )
    trials = tuple(Trial({"value": text}, _compute(asked, functions, text)) for text in INPUTS)
    return ApiCase(
        name=f"{stream}-{index:03d}",
        kind=kind,
        chat=kind != "plain",
        message=opening + question,
        emphasised=emphasised,
        reply=REPLY,
        contract=Contract(functions),
        solution=_expression(asked),
        target=target,
        trials=trials,
    )


def _words(functions: Mapping[str, str], name: str) -> str:
    return OPERATIONS[functions[name]].words


def _task(steps: list[str], functions: Mapping[str, str]) -> str:
    return ", then ".join(_words(functions, name) for name in steps)


def _expression(steps: list[str], argument: str = "value") -> str:
    """The calls of all steps, the last one outermost."""
    text = argument
    for name in steps:
        text = f"{name}({text})"
    return text


def _one_call_is_enough(steps: list[str], functions: Mapping[str, str]) -> bool:
    """Whether one function does what two steps do, as counting does after any change of letters."""
    if len(steps) == 1:
        return False
    wanted = [_compute(steps, functions, text) for text in INPUTS]
    return any([_compute([name], functions, x) for x in INPUTS] == wanted for name in functions)


def _text_first(steps: list[str], functions: Mapping[str, str]) -> list[str]:
    """The same steps with one that counts put last: its number is no text for the other."""
    return sorted(steps, key=lambda name: functions[name] == "count")


def _compute(steps: list[str], functions: Mapping[str, str], value: Value) -> Value:
    for name in steps:
        value = OPERATIONS[functions[name]].compute(value)
    return value
