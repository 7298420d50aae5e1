"""Commands that read a run's records load no model, so they import no transformers."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from finite_calculus.entry import main

try:
    main()
except SystemExit as stop:
    code = stop.code
print(f"exit code {code}, transformers imported: {'transformers' in sys.modules}")
"""


@pytest.mark.parametrize(
    "words",
    [["--help"], ["run", "--help"], ["status", "RUN"], ["replay", "RUN"], ["summary", "RUN"]],
)
def test_reading_a_run_imports_no_transformers(words: list[str], copied: Path) -> None:
    command = [str(copied) if word == "RUN" else word for word in words]
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command], capture_output=True, text=True, check=True
    )
    assert result.stdout.endswith("exit code 0, transformers imported: False\n"), result.stdout
