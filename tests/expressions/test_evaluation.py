"""What is allowed is computed rightly, and what the caller gets wrong is said."""

import ast
import sys
from pathlib import Path

import pytest

from finite_calculus import expressions
from finite_calculus.expressions import (
    OPERATIONS,
    Bounds,
    Contract,
    Limits,
    RefusedError,
    evaluate,
    grammar,
    parse,
    run_confined,
)
from finite_calculus.expressions.interpreter import compute

CONTRACT = Contract({"legacy": "reverse", "current": "upper", "many": "repeat", "size": "count"})


def test_values_are_those_of_the_contract_on_every_input() -> None:
    inputs = [{"value": "stone"}, {"value": ""}]
    for text, expected in {
        "legacy(current(value))": ("ENOTS", ""),
        " legacy( x = value ) # why": ("enots", ""),
        "many(value, times=2)": ("stonestone", ""),
        "size(many(times=3, x='ab'))": (6, 6),
        "'a' 'b'": ("ab", "ab"),
        "0x10": (16, 16),
    }.items():
        done = evaluate(text, CONTRACT, inputs)
        assert (done.ended, done.values, done.reason) == ("computed", expected, "")


EXAMPLES = {
    "upper": ("stOne", "STONE"), "lower": ("StOne", "stone"), "reverse": ("abc", "cba"),
    "first": ("abc", "a"), "last": ("abc", "c"), "count": ("abc", 3), "twice": ("ab", "abab"),
    "double": (3, 6), "negate": (3, -3), "next": (3, 4), "square": (3, 9), "repeat": ("ab", "abab"),
}  # fmt: skip


@pytest.mark.parametrize("word", OPERATIONS)
def test_an_operation_does_what_its_words_say(word: str) -> None:
    value, expected = EXAMPLES[word]
    contract = Contract({"f": word}, ("v", "n"))
    text = "f(v, n)" if len(OPERATIONS[word].parameters) == 2 else "f(v)"
    assert compute(parse(text), contract, {"v": value, "n": 2}) == expected


def test_bounds_are_met_exactly() -> None:
    bounds = Bounds(characters=20, depth=2, parts=3, digits=2, text=3)
    for allowed in ("f(1, 2)", "f()", "f(99)", "f('abc')", "f(x)" + " " * 16):
        parse(allowed, bounds)
    for refused, reason in {
        "f(g(x))": "deeper than 2",
        "f(1, 2, 3)": "more than 3 parts",
        "f(100)": "a number of more than 2 digits",
        "f('abcd')": "a text of more than 3 characters",
        "f(x)" + " " * 17: "longer than 20 characters: 21",
    }.items():
        with pytest.raises(RefusedError) as raised:
            parse(refused, bounds)
        assert str(raised.value) == reason


def test_length_and_characters_are_looked_at_before_the_parser(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def reached(*_: object, **__: object) -> ast.AST:
        raise AssertionError("the parser saw it")

    monkeypatch.setattr(grammar.ast, "parse", reached)
    for text in ("a" * 201, "é", "a\tb", "a\x00"):
        with pytest.raises(RefusedError):
            parse(text)
    with pytest.raises(AssertionError, match="the parser saw it"):
        parse("a")


def test_the_room_imports_the_standard_library_alone_and_never_evaluates_code() -> None:
    files = list(Path(expressions.__path__[0]).glob("*.py"))
    assert len(files) >= 7
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom | ast.Import):
                module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
                assert module is not None
                own = module.startswith("finite_calculus.expressions")
                assert own or module.split(".")[0] in sys.stdlib_module_names, (file, module)
            if isinstance(node, ast.Name):
                assert node.id not in ("eval", "exec", "compile", "__import__", "getattr"), file


def test_what_the_caller_gets_wrong_is_named() -> None:
    with pytest.raises(
        ValueError, match=r"`functions` must map names to operations, .* got 'shout'"
    ):
        Contract({"f": "shout"})
    with pytest.raises(ValueError, match="got no function"):
        Contract({})
    for functions, inputs in (
        ({"a b": "upper"}, ("v",)),
        ({"é": "upper"}, ("v",)),
        ({"global": "upper"}, ("v",)),
        ({"v": "upper"}, ("v",)),
    ):
        with pytest.raises(ValueError, match="must be distinct ASCII identifiers"):
            Contract(functions, inputs)
    with pytest.raises(
        ValueError, match=r"`inputs` must give a value for each of .* got no inputs"
    ):
        evaluate("value", CONTRACT, [])
    with pytest.raises(ValueError, match=r"got \{'other': 1\}"):
        evaluate("value", CONTRACT, [{"other": 1}])
    with pytest.raises(TypeError, match="text"):
        parse(b"value")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="`wall` must be positive; got 0"):
        Limits(wall=0.0)


def test_the_page_on_security_names_the_limits_that_hold() -> None:
    page = " ".join((Path(__file__).parents[2] / "SECURITY.md").read_text().split())
    bounds, limits = Bounds(), Limits()
    for promise in (
        f"At most {bounds.characters} printable ASCII characters",
        f"a depth of {bounds.depth} and {bounds.parts} parts",
        f"whole numbers of at most {bounds.digits} digits",
        f"texts of at most {bounds.text} printable",
        f"{limits.seconds} s of the processor, {limits.wall:g} s on the clock",
        f"{limits.memory >> 20} MiB of memory, {limits.output >> 10} KiB of output",
    ):
        assert promise in page, promise


def test_another_system_is_refused_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    from finite_calculus.expressions import confinement

    monkeypatch.setattr(confinement.os, "name", "nt")
    with pytest.raises(OSError, match="needs POSIX resource limits; this system is nt"):
        run_confined("pass")
