"""No command opens a socket unless it must fetch something: with sockets denied they do what they do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

DENIED = """
import sys
def deny(event, words):
    if event.startswith("socket.") and event not in ("socket.gethostname", "socket.__new__"):
        raise AssertionError(f"{event} {words}")
sys.addaudithook(deny)
import socket
try:
    socket.create_connection(("localhost", 9))
except AssertionError:
    print("denied")
from typer.testing import CliRunner
from finite_calculus.cli import app
out = sys.argv[1]
asked = ["--prompt", "A B", "--answer", "A", "--versus", "B"]
for words in (
    ["models"],
    ["score", *asked, "--layers", "1"],
    ["run", "toy", "--out", out, "--quiet"],
    ["status", out],
    ["replay", out, "--quiet"],
    ["summary", out, "--archive", out + "-archive"],
    ["report", out, "--out", out + ".html"],
):
    result = CliRunner().invoke(app, words)
    print(words[0], result.exit_code, result.output if result.exit_code else "", repr(result.exception))
"""


@pytest.mark.usefixtures("toy_installed")
def test_commands_need_no_socket(tmp_path: Path) -> None:
    words = [sys.executable, "-c", DENIED, str(tmp_path / "run")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    lines = result.stdout.splitlines()
    assert lines[0] == "denied", result.stderr
    assert [line.split()[:2] for line in lines[1:]] == [
        [name, "0"] for name in ("models", "score", "run", "status", "replay", "summary", "report")
    ], result.stdout
