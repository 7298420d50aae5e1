"""Words that no command can mean: told on a line or two with an exit code of its own, at once."""

import errno
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from finite_calculus.checkpoints import load
from finite_calculus.cli import app, guide
from tests.helpers.studies import command

DIGITS = "9" * 20
LONG = "x" * 20_000
PROMPT = ["--prompt", "Entity 01: A Entity 02: B Question: What is it? Answer:"]
ASKED = [*PROMPT, "--answer", "A", "--versus", "B"]


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """What the commands import is not the time that they take."""
    import proofs.ledger  # noqa: F401

    load("embedded")


@pytest.fixture(autouse=True)
def _at_once() -> Iterator[None]:
    """A command that hangs fails; minutes, since machines may be busy."""

    def stop(*_: object) -> None:
        raise AssertionError("the command hangs")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(240)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "words",
    [
        ["evict", *ASKED, "--protect", "0-99999999999"],
        ["evict", *ASKED, "--protect", "nan"],
        ["evict", *ASKED, "--protect", LONG],
        ["execute", *ASKED, "--edit", "bits:1:2:1e30"],
        ["execute", *ASKED, "--edit", "bits:1:2:inf"],
        ["execute", *ASKED, "--edit", f"bits:1:2:{DIGITS}"],
        ["execute", *ASKED, "--edit", "odds:1:0-999999999:2"],
        ["execute", *ASKED, "--edit", f"odds:1:0-{DIGITS}:2"],
        ["execute", *ASKED, "--edit", f"odds:1.0-{DIGITS}:0:2"],
        ["execute", *ASKED, "--edit", f"odds:1:{LONG}:2"],
        ["restore", *ASKED, "--bits", DIGITS],
        ["restore", *ASKED, "--count", DIGITS, "--layers", "1"],
        ["steer", *ASKED, "--layer", "1", "--head", "0", "--ratio", f"{DIGITS}:0=2"],
        ["steer", *ASKED, "--layer", "1", "--head", "0", "--ratio", "1:2=1e-320"],
        ["steer", *ASKED, "--layer", "1", "--head", "0", "--ratio", "1:2=1e308"],
        ["score", *ASKED, "--device", "meta"],
        ["score", *ASKED, "--layers", f"0-{DIGITS}"],
        ["score", *ASKED, "--layers", "٣"],
        ["score", *ASKED, "--model", f"owner/name@{LONG}"],
        ["score", *ASKED, "--model", LONG],
        ["score", *PROMPT, "--answer", LONG, "--versus", "B"],
        ["score", "--prompt", "A " * 10_000, "--answer", "A", "--versus", "B"],
        ["score", "--prompt-file", "/dev/zero", "--answer", "A", "--versus", "B"],
        ["score", "--prompt-file", LONG, "--answer", "A", "--versus", "B"],
        ["score", *ASKED, "--json", LONG],
        ["score", *ASKED, "--json", "a\0b"],
        ["audit", "--cases", "1e20"],
        ["audit", "--cases", "nan"],
        ["audit", "--jobs", DIGITS, "--cases", "1"],
        ["verify", "--why", ""],
        ["verify", "--why", LONG],
        ["verify", "--cases", DIGITS],
        ["verify", "--jobs", DIGITS],
        ["run", "joint-kv", "--layers", f"0-{DIGITS}", "--out", "nowhere"],
        ["run", "joint-kv", "--workers", DIGITS, "--out", "nowhere"],
        ["status", LONG],
        ["status", ""],
        ["work", "/dev/zero"],
        ["replay", "a\0b"],
        ["again", ".", "x"],
    ],
    ids=lambda words: " ".join(word[:24] for word in words if word not in ASKED).replace("\0", "0"),
)
def test_it_is_told_in_a_few_lines(words: list[str], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = command(*words)
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 2, (result.exit_code, result.output[:500])
    # A frame of the width of a terminal around two thousand characters at most.
    assert 0 < len(result.output) < 8_000
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "x"), 1, "No space left on device (x)."),
        (OSError(errno.EROFS, "Read-only file system", "x"), 1, "Read-only file system (x)."),
        (MemoryError(), 1, "not enough memory"),
        (OverflowError("too big"), 2, "larger than anything"),
        (ValueError("`x` must be y; got z."), 2, "`x` must be y; got z."),
        (KeyboardInterrupt(), 130, ""),
    ],
    ids=lambda case: type(case).__name__ if isinstance(case, BaseException) else "",
)
def test_what_stops_a_command_has_its_exit_code(monkeypatch, error, code: int, words: str) -> None:
    from finite_calculus.harness import status

    def raised(_: Path) -> None:
        raise error

    monkeypatch.setattr("finite_calculus.cli.stops.or_stop", lambda make: make())
    monkeypatch.setattr("finite_calculus.cli.studies.or_stop", lambda make: make())
    monkeypatch.setattr(status, "status", raised)
    result = command("status", "x")
    assert result.exit_code == code, result.output
    assert words in result.output


def test_a_defect_of_ours_keeps_its_traceback(monkeypatch) -> None:
    from finite_calculus.harness import status

    monkeypatch.setattr(status, "status", lambda _: 1 / {}["x"])
    assert isinstance(command("status", "x").exception, KeyError)


def test_the_help_says_what_exit_codes_mean() -> None:
    text = " ".join(command("--help").output.split())
    assert guide.EXIT_CODES in text
    for code in (guide.DONE, guide.FAILED, guide.REFUSED, guide.SHUT, guide.INTERRUPTED):
        assert f"{code} " in guide.EXIT_CODES
    assert app.info.epilog == guide.EXIT_CODES
