"""`python -m native_checks`: preflights of other code than this are made again, `--stale` lists them.

Each file of `results/preflight` is of the model that it is called after, and of the precision that follows
its name, as in embedded-bfloat16; float32 is not named. A record counts check by check, for the code that the
checks reach; what loads a model or writes a report can change without voiding it.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from finite_calculus.models.precision import PRECISIONS
from native_checks.gate import code_of_checks, gate

RECORDS = Path("results/preflight")


def stale(folder: Path) -> list[Path]:
    """The records of a folder in which a check is of other code than the code at hand."""
    code = code_of_checks()
    files = sorted(folder.glob("*.json"))
    return [file for file in files if json.loads(file.read_text()).get("code") != code]


def model_of(stem: str) -> tuple[str, str]:
    """Model and precision of a record from the name of its file."""
    name, dash, last = stem.rpartition("-")
    return (name, last) if dash and last in PRECISIONS else (stem, "float32")


def main(arguments: Sequence[str] | None = None) -> int:
    """Make what is stale again, or list it; 1 if a gate is shut, or if anything is stale."""
    parser = argparse.ArgumentParser(description="Preflights of other code, made again.")
    parser.add_argument("--stale", action="store_true", help="list them; exit code 1 if any")
    parser.add_argument("--folder", type=Path, default=RECORDS, help=f"default: {RECORDS}")
    options = parser.parse_args(arguments)
    files, shut = stale(options.folder), 0
    for file in files:
        if options.stale:
            print(file.stem)
            continue
        name, dtype = model_of(file.stem)
        report = gate(name, dtype=dtype, references=())
        report.save(file)
        shut += not report.passed
        print(report.verdict(), flush=True)
    print(f"{len(files)} stale records in {options.folder}")
    return 1 if shut or (options.stale and files) else 0


if __name__ == "__main__":
    sys.exit(main())
