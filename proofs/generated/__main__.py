"""`python -m proofs.generated [--cases N] [--seed N]`: the coverage of generated references by label."""

from __future__ import annotations

import argparse
import sys

from proofs.catalogue import entries
from proofs.generated.entries import check_entry, coverage, is_required


def main() -> int:
    """Check the whole catalogue; the exit code is 1 when a required label is missing."""
    parser = argparse.ArgumentParser(prog="python -m proofs.generated", description=__doc__)
    parser.add_argument("--cases", type=int, default=2, help="cases of each statement")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    checks = []
    for entry in entries():
        check = check_entry(entry, options.cases, options.seed)
        checks.append(check)
        verdict = "generated" if check.passed else "MISSING"
        need = "" if is_required(entry) else " (not required)"
        print(
            f"{check.label}: {verdict}{need}, {check.kind}, {check.statements} statements, "
            f"{check.definitions} definitions, {check.cases} cases, {check.bits} bits, "
            f"worst {check.worst:.1e}"
        )
        for failure in check.failures:
            print(f"    {failure}")
    covered, missing = coverage(checks)
    print(
        f"{len(covered)} of {len(covered) + len(missing)} required labels have a generated reference"
    )
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
