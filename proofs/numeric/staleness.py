"""Which records of an audit are of other code than the code at hand, and what makes each again.

A record is held to its own digest by the tests; that it is of the code at hand is asked here, by the
nightly run, so that a change of the code need not wait for hours of audits.
"""

import itertools
from dataclasses import dataclass
from pathlib import Path

from proofs.numeric import exhaustive, record_files, stability
from proofs.numeric.audit import sources
from proofs.numeric.checks import CHECKS
from proofs.numeric.comparison import DTYPES, ReferenceComparison
from proofs.numeric.record_files import Row

# Cases of a check that has no record yet.
_CASES = 100_000
_GONE = "nothing has this name now; the next audit drops it"


@dataclass(frozen=True)
class Stale:
    """A record that is not of the code at hand: why, and the command that makes it again."""

    record: str
    reason: str
    command: str


def stale(folder: Path) -> list[Stale]:
    """The stale records of a folder, those that are missing and those of nothing that still exists."""
    records = record_files.read(folder)
    audits = [
        Stale(f"{name} {dtype}", reason, _audit_command(name, dtype, row, folder))
        for name, dtype in itertools.product(CHECKS, DTYPES)
        if (reason := _of_audit(name, row := records.audits.get((name, dtype))))
    ]
    sweeps = [
        Stale(
            f"{name}, every float32",
            reason,
            f"finite-calculus audit --exhaustive --function {name} --out {folder}",
        )
        for name in exhaustive.KERNELS
        if (reason := _of_sweep(name, records.sweeps.get(name)))
    ]
    again = f"finite-calculus audit --cases {_CASES} --out {folder}"
    leftovers = [
        Stale(" ".join(key), _GONE, again) for key in records.audits if key[0] not in CHECKS
    ] + [
        Stale(f"{name}, every float32", _GONE, f"finite-calculus audit --exhaustive --out {folder}")
        for name in records.sweeps
        if name not in exhaustive.KERNELS
    ]
    return audits + sweeps + leftovers


def _of_audit(name: str, row: Row | None) -> str | None:
    """Why a record of an audit does not stand; None if it does."""
    if row is None:
        return "there is no record"
    if row["settings"]["sources"] != sources(name):
        return "its code has changed"
    if not isinstance(CHECKS[name], ReferenceComparison):
        return None
    if "stability" not in row:
        return "no case was held against the problem"
    if row["stability"]["settings"]["sources"] != sources(name, stability.sample):
        return "the code of its sample has changed"
    return None


def _of_sweep(name: str, row: Row | None) -> str | None:
    if row is None:
        return "there is no record"
    return None if row["sources"] == exhaustive.sources(name) else "its code has changed"


def _audit_command(name: str, dtype: str, row: Row | None, folder: Path) -> str:
    settings = row["settings"] if row else {"cases": _CASES, "seed": 0}
    seed = f" --seed {settings['seed']}" if settings["seed"] else ""
    return (
        f"finite-calculus audit --cases {settings['cases']} --function {name} --dtype {dtype}{seed} "
        f"--out {folder}"
    )
