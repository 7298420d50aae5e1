"""Tables that `finite-calculus summary` makes of an archive, numbers in full."""

import csv
import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


@functools.cache
def derived(archive: str) -> dict[str, list[dict[str, str]]]:
    """Every CSV table of an archive of results/, by name."""
    with tempfile.TemporaryDirectory() as made:
        command = ["summary", f"results/{archive}", "--out", made, "--quiet"]
        subprocess.run(
            [sys.executable, "-m", "finite_calculus", *command],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
        )
        return {path.stem: _read(path) for path in Path(made).glob("*.csv")}


def _read(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))
