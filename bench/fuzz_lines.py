"""Command lines that users get wrong, drawn for every command: exit codes, and whatever was a traceback.

Lines run in a process that may open no socket, in an empty folder, each for some seconds at most: one that
is at work for longer is stopped and counted so; its words are kept, since it may be work or a hang. `explore`
is not drawn: it serves until it is stopped.
"""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

SECONDS = 5
MEMORY = 12 << 30
ROOT = Path(__file__).parents[1]
WORDS = (
    "", " ", "0", "-1", "1", "2", "1e3", "1e999", "99999999999999999999", "nan", "inf", "-inf", "٣", "é",
    "\0", "x" * 20_000, "../..", "/dev/null/x", "/proc/nothing", "nowhere", "a file", ".", "A",
    "odds:1:0-999999999:2", "bits:1:2:inf", "delete:0:1", "value:99:1:1", "1:2=4", "1:2=1e-320", "0-3", "9-1",
    "none", "cpu", "cuda:999", "float16", "s3://", "file:///x", "http://127.0.0.1:9", "[", "{}", "--help",
    "main:joint", "1e-320", "odds:1:2:8", "all",
)  # fmt: skip
LEFT_OUT = ("explore",)
DOCUMENTED = {0, 1, 2, 3, 130}


class StoppedError(BaseException):
    """A line is at work for longer than it may."""


def fuzz_lines(lines: int, seed: int) -> dict[str, Any]:
    """So many lines over all commands, in a process of their own."""
    with tempfile.TemporaryDirectory(prefix="fuzz-lines-") as place:
        ended = subprocess.run(
            [sys.executable, "-m", "bench.fuzz_lines", str(lines), str(seed)],
            cwd=place,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            check=True,
        )
    return json.loads(ended.stdout.splitlines()[-1])


def main(count: int, seed: int) -> None:
    """Run the lines and say what came of them, by command."""
    from typer.main import get_command
    from typer.testing import CliRunner

    from finite_calculus.cli import app

    draw, results = random.Random(seed), dict[str, Counter[str]]()
    findings: dict[str, dict[str, str]] = {}
    stopped: dict[str, list[str]] = {}
    commands = commands_of(get_command(app))
    Path("a file").write_text("{}")
    deny_sockets()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, stop)
    start = time.thread_time()
    for number in range(count):
        name = sorted(commands)[number % len(commands)]
        line = drawn(draw, name, commands[name])
        signal.alarm(SECONDS)
        try:
            result = CliRunner().invoke(app, line)
            error, code = result.exception, str(result.exit_code)
        except StoppedError as late:
            error, code = late, "stopped"
        finally:
            signal.alarm(0)
        tally = results.setdefault(name, Counter())
        said = " ".join(word if len(word) < 60 else f"{word[:9]}… ({len(word)})" for word in line)
        if isinstance(error, StoppedError):
            tally["stopped"] += 1
            stopped.setdefault(name, []).append(said)
        elif error is not None and not isinstance(error, SystemExit):
            tally["found"] += 1
            findings.setdefault(name, {})[said] = f"{type(error).__name__}: {str(error)[:200]}"
        elif int(code) not in DOCUMENTED:
            tally["found"] += 1
            findings.setdefault(name, {})[said] = f"exit code {code}"
        else:
            tally[code] += 1
    total = {
        name: {
            "executions": tally.total(),
            "exit_codes": {key: tally[key] for key in sorted(tally) if key.isdigit()},
            "stopped": tally["stopped"],
            "stopped_lines": stopped.get(name, [])[:5],
            "found": tally["found"],
            "findings": findings.get(name, {}),
        }
        for name, tally in sorted(results.items())
    }
    print(f"{count} lines, {time.thread_time() - start:.0f} s", file=sys.stderr)
    for name, lines in findings.items():
        for said, words in lines.items():
            print(f"  FOUND {name}: {said}: {words}", file=sys.stderr)
    print(json.dumps(total))


def stop(*_: object) -> None:
    raise StoppedError


def deny_sockets() -> None:
    """No line may reach another machine, or this one."""

    def deny(event: str, words: Any) -> None:
        if event in ("socket.connect", "socket.getaddrinfo", "socket.bind"):
            raise OSError("no sockets here")

    sys.addaudithook(deny)


def commands_of(group: Any) -> dict[str, Any]:
    """Every command with its parameters, studies of `run` too."""
    from finite_calculus.cli.study_commands import study_command
    from finite_calculus.harness.registry import find_study, study_names

    commands = {name: each for name, each in group.commands.items() if name not in LEFT_OUT}
    commands.pop("run")
    return commands | {f"run {name}": study_command(find_study(name)) for name in study_names()}


def drawn(draw: random.Random, name: str, command: Any) -> list[str]:
    """A line: some of the command's options, mostly with words that do not fit."""
    line = name.split()
    for each in draw.sample(command.params, min(len(command.params), draw.randrange(5))):
        if each.param_type_name == "argument":
            continue
        line.append(draw.choice(each.opts))
        line += [] if getattr(each, "is_flag", False) else [draw.choice(WORDS)]
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    line += [draw.choice(WORDS) for _ in arguments if draw.random() < 0.9]
    return line + ([draw.choice(WORDS)] if draw.random() < 0.05 else [])


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
