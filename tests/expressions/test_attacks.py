"""Hostile expressions: each refused by the allow-list, or contained by the child process, with its reason.

Every attack goes the whole way through the child. What the allow-list refuses is tried again where it would
run as code, in the confined process alone: the second wall must hold without the first.
"""

import os

import pytest

from finite_calculus.expressions import Bounds, Contract, Limits, evaluate, run_confined

CONTRACT = Contract({"legacy": "reverse", "many": "repeat", "square": "square"})
INPUTS = [{"value": "stone"}]
FOREIGN = "a character that is not printable ASCII: U+"

ATTACKS = {
    "__import__('os').system('true')": "a call must be of a name, not of Attribute",
    "__import__('os')": "__import__ is not a function of the contract",
    "import os": "not a Python expression (SyntaxError)",
    "().__class__.__base__.__subclasses__()": "a call must be of a name, not of Attribute",
    "value.__class__": "Attribute is not allowed",
    "legacy.__globals__": "Attribute is not allowed",
    "legacy(value.__class__.__mro__)": "Attribute is not allowed",
    "getattr(value, '__class__')": "getattr is not a function of the contract",
    "'{0.__class__}'.format(value)": "a call must be of a name, not of Attribute",
    "'{v.__class__}'.format_map({'v': value})": "a call must be of a name, not of Attribute",
    "legacy('{0.__class__}')": None,  # a text like any other
    "[x for x in value]": "ListComp is not allowed",
    "{x for x in value}": "SetComp is not allowed",
    "{x: x for x in value}": "DictComp is not allowed",
    "legacy(x for x in value)": "GeneratorExp is not allowed",
    "(x for x in value).gi_frame.f_back.f_globals": "Attribute is not allowed",
    "try:\n 1\nexcept* E:\n 2": FOREIGN + "000A",
    "try: 1 except* E: 2": "not a Python expression (SyntaxError)",
    "(" * 6000 + "value" + ")" * 6000: "longer than 200 characters: 12005",
    "legacy(" * 20 + "value" + ")" * 20: "deeper than 8",
    "many(" + "legacy(value)," * 13 + ")": None,
    "9**9**9": "BinOp is not allowed",
    "list(range(10**18))": "BinOp is not allowed",
    "range(999999999999999999)": "range is not a function of the contract",
    "many('a', 999999999999999999)": None,
    "many(many(many(value, 999), 999), 999)": "a text outgrew 1000 characters",
    "square(square(999999999999999999))": "a number outgrew 40 digits",
    "print('a' * 10**9)": "BinOp is not allowed",
    "ｌegacy(value)": FOREIGN + "FF4C",
    "lеgacy(value)": FOREIGN + "0435",  # a Cyrillic letter
    "𝐥egacy(value)": FOREIGN + "1D425",
    "legacy(value)\x00": FOREIGN + "0000",
    "legacy('\ud800')": FOREIGN + "D800",
    "legacy('\\ud800')": "a text with characters that are not printable ASCII",
    "legacy('\\x00')": "a text with characters that are not printable ASCII",
    "legacy('\\N{BELL}')": "a text with characters that are not printable ASCII",
    "exit()": "exit is not a function of the contract",
    "SystemExit": "SystemExit is not an input of the contract",
    "raise SystemExit": "not a Python expression (SyntaxError)",
    "lambda: value": "Lambda is not allowed",
    "(lambda: value)()": "a call must be of a name, not of Lambda",
    "(value := 1)": "NamedExpr is not allowed",
    "f'{value}'": "JoinedStr is not allowed",
    "legacy(*value)": "Starred is not allowed",
    "legacy(**value)": "** is not allowed",
    "legacy(x=value, x=value)": "legacy takes the arguments x, each once",
    "legacy(value, x=value)": "legacy takes the arguments x, each once",
    "legacy(y=value)": "legacy takes the arguments x, each once",
    "legacy()": "legacy takes the arguments x, each once",
    "legacy(legacy)": "legacy is a function, not an input of the contract",
    "square(value)": "square takes a number for x; got a text",
    "0x" + "f" * 190: "a number of more than 18 digits",
    "1" * 190: "a number of more than 18 digits",
    "legacy('" + "a" * 100 + "')": "a text of more than 64 characters",
    "1e999": "a constant of type float is not allowed",
    "1j": "a constant of type complex is not allowed",
    "True": "a constant of type bool is not allowed",
    "None": "a constant of type NoneType is not allowed",
    "...": "a constant of type ellipsis is not allowed",
    "b'a'": "a constant of type bytes is not allowed",
    "-1": "UnaryOp is not allowed",
    "value[0]": "Subscript is not allowed",
    "value if value else 1": "IfExp is not allowed",
    "value and value": "BoolOp is not allowed",
    "value < value": "Compare is not allowed",
    "(value, value)": "Tuple is not allowed",
    "await value": "Await is not allowed",
    "(yield)": "Yield is not allowed",
    "": "not a Python expression (SyntaxError)",
    "value; value": "not a Python expression (SyntaxError)",
}
REFUSED = {text: reason for text, reason in ATTACKS.items() if reason is not None}


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_an_attack_is_refused_with_its_reason(text: str) -> None:
    done = evaluate(text, CONTRACT, INPUTS)
    assert (done.ended, done.values) == ("refused", ())
    assert done.reason == REFUSED[text]


def test_a_text_that_looks_like_a_format_is_a_text() -> None:
    done = evaluate("legacy('{0.__class__}')", CONTRACT, INPUTS)
    assert done.values == ("}__ssalc__.0{",)


def test_a_repetition_is_bounded_before_it_is_made() -> None:
    done = evaluate("many('a', 999999999999999999)", CONTRACT, INPUTS)
    assert done.values == ("a" * 1000,)


DEEP = {
    "parentheses": "(" * 6000 + "value" + ")" * 6000,
    "calls": "legacy(" * 6000 + "value" + ")" * 6000,
    "attributes": "value" + ".a" * 50_000,
    "signs": "-" * 50_000 + "1",
    "sums": "1" + "+1" * 50_000,
}


@pytest.mark.parametrize("name", DEEP)
def test_the_parser_itself_is_contained_where_length_is_allowed(name: str) -> None:
    done = evaluate(DEEP[name], CONTRACT, INPUTS, bounds=Bounds(characters=200_000))
    reasons = {
        "refused": (
            "not a Python expression (SyntaxError)",
            "not a Python expression (RecursionError)",
            "not a Python expression (MemoryError)",
            "BinOp is not allowed",
            "UnaryOp is not allowed",
            "Attribute is not allowed",
        ),
        # Python 3.11 may die of its stack here, which is what the process is for.
        "stopped": ("the process ended with signal 11", "more than 256 MiB of memory"),
    }
    assert done.reason in reasons[done.ended]


# What the allow-list refuses, run as code in the confined process: (limits, how it ends, reason).
QUICK = Limits(seconds=1, wall=60.0)
CONTAINED = {
    "9**9**9": ("time", "more than 1 seconds of the processor"),
    "while True: pass": ("time", "more than 1 seconds of the processor"),
    "list(range(10**18))": ("memory", "more than 256 MiB of memory"),
    "x = [bytes(10**6) for _ in range(10**6)]": ("memory", "more than 256 MiB of memory"),
    "print('a' * 10**7)": ("output", "65536 bytes of output or more"),
    "while True: print('a' * 100)": ("output", "65536 bytes of output or more"),
    "open('file', 'wb').write(bytes(10**6))": ("failed", "the process ended with exit code 1"),
    "raise SystemExit(3)": ("failed", "the process ended with exit code 3"),
    "os.kill(os.getpid(), 9)": ("failed", "the process ended with signal 9"),
    "import torch": ("failed", "the process ended with exit code 1"),
}


@pytest.mark.parametrize("program", CONTAINED)
def test_code_that_runs_is_contained(program: str) -> None:
    done = run_confined(program, limits=QUICK)
    assert (done.ended, done.reason) == CONTAINED[program]
    assert done.output == b""


def test_a_child_that_waits_is_ended_by_the_clock() -> None:
    done = run_confined("import time; time.sleep(600)", limits=Limits(wall=1.5))
    assert (done.ended, done.reason) == ("time", "longer than 1.5 seconds")


def test_a_child_holds_no_environment_no_files_and_no_descriptors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    program = (
        "print(set(os.environ) - {'LC_CTYPE'}, os.listdir(), sys.flags.isolated, sys.flags.no_site)\n"
        "print(sorted(int(n) for n in os.listdir('/proc/self/fd')), os.getsid(0) == os.getpid())"
    )
    descriptor = os.open(__file__, os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    try:
        done = run_confined(program)
    finally:
        os.close(descriptor)
    assert done.output == b"set() [] 1 1\n[0, 1, 2, 3] True\n"  # 3 is the listing's own


def test_an_exit_without_an_answer_is_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    from finite_calculus.expressions import evaluation

    for program in ("raise SystemExit", "print('[]')", "print('{\"values\": [1, 2]}')", "print(1)"):
        monkeypatch.setattr(evaluation, "_PROGRAM", program.replace("{", "{{").replace("}", "}}"))
        done = evaluate("legacy(value)", CONTRACT, INPUTS)
        assert (done.ended, done.reason) == ("stopped", "the process gave no answer")
