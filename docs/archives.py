"""Saved runs as the pages read them: the tables that `finite-calculus summary` makes, numbers in full."""

import csv
import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
# How the pages call the models that have archives.
MODELS = {
    "smollm2-135m-instruct": "SmolLM2-135M",
    "stories15m": "stories15M",
    "tinyllama-1.1b": "TinyLlama-1.1B",
    "embedded": "embedded",
}
TASKS = {
    "corrupt": "Corrupt",
    "ordered": "Ordered",
    "retrieval": "retrieval",
    "sst2": "SST-2",
}
Rows = list[dict[str, str]]


def archives(study: str) -> list[str]:
    """Models with an archive of a study, in the order of `MODELS`."""
    return [name for name in MODELS if (ROOT / "results" / study / name).is_dir()]


@functools.cache
def archive_tables(study: str, archive: str) -> dict[str, Rows]:
    """Every table of an archive, by name."""
    with tempfile.TemporaryDirectory() as made:
        command = ["summary", f"results/{study}/{archive}", "--out", made, "--quiet"]
        subprocess.run(
            [sys.executable, "-m", "finite_calculus", *command],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
        )
        return {path.stem: _read(path) for path in Path(made).glob("*.csv")}


def error(value: float | str) -> str:
    """Three digits with a short exponent, or four decimals from a tenth on."""
    value = float(value)
    if value >= 0.1:
        return f"{value:.4f}"
    digits, power = f"{value:.2e}".split("e")
    return f"{digits}e{int(power)}"


def line(*cells: object) -> str:
    """One row of a Markdown table."""
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def heading(words: int, *columns: str) -> list[str]:
    """The head of a Markdown table whose first columns are words and whose others are numbers."""
    rule = "|" + "---|" * words + "---:|" * (len(columns) - words)
    return [line(*columns), rule]


def _read(path: Path) -> Rows:
    with path.open() as file:
        return list(csv.DictReader(file))
