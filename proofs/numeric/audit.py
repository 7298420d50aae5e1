"""The audit: every public function on as many adversarial cases as are asked for.

Each function and precision is cut into pieces that run in parallel and are tallied; a finished tally
is a record that names the sources it was made with (`proofs.numeric.record_files` keeps them). An audit
run again takes up where it stopped: records of as many cases or more are kept. A violation is an error
beyond its derived bound. Such a bound grows with the error of the code, so where there is a reference
a sample of the cases is also held against the problem itself (`proofs.numeric.stability`).
"""

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, cast

from finite_calculus import rounding
from proofs.numeric import audit_records, record_files, stability
from proofs.numeric.audit_records import Result
from proofs.numeric.checks import CHECKS, CheckResult, checks_of
from proofs.numeric.comparison import BATCH, CasePlace, ReferenceComparison, Tally
from proofs.numeric.parallel import Progress, parallel
from proofs.numeric.sources import fingerprint
from proofs.numeric.stability import Stability, allowed_bits

# Cases of one piece of work: enough to pay for its start, few enough for a steady progress bar.
PIECE, SAMPLE = 4 * BATCH, 24 * stability.BATCH
# One case in so many is held against the problem, and no fewer than one piece.
_EVERY = 64


def sources(name: str, measurement: Any = Tally) -> str:
    """Hash of the code that a check runs: the function, its rounding rules, its reference, its cases."""
    return fingerprint(CHECKS[name], rounding.Tracked, measurement)


def selected(function: str | None) -> list[str]:
    """Names of the checks of one public function, or of all."""
    if function is None:
        return list(CHECKS)
    if function in CHECKS:
        return [function]
    names = [check.function for check in checks_of(function)]
    if not names:
        choices = ", ".join(sorted(CHECKS))
        raise ValueError(
            f"`function` must be a checked function; got {function!r}. Known: {choices}."
        )
    return names


def sampled(cases: int) -> int:
    """How many cases are held against the problem where so many are held to their bounds."""
    return max(SAMPLE, cases // _EVERY)


def measured_piece(
    name: str, dtype: str, seed: int, cases: int, *, digits: bool = False
) -> Tally | Stability:
    """The tally of some cases from a seed on, or with `digits` what they lose against the problem."""
    piece = _Piece(name, dtype, seed, cases)
    return _sample_piece(piece) if digits else _tally_piece(piece)


def audit(
    names: list[str],
    dtypes: list[str],
    *,
    cases: int,
    seed: int = 0,
    jobs: int | None = None,
    out: Path | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> Iterator[CheckResult]:
    """Audit each check in each dtype; with `out`, keep records there and skip what is already done."""
    jobs = jobs or os.cpu_count() or 1
    with contextlib.ExitStack() as stack:
        records = (
            stack.enter_context(record_files.writing(out)) if out else record_files.AuditRecords()
        )

        def keep(record: dict[str, Any]) -> None:
            records.audits[record["function"], record["dtype"]] = record
            if out:
                record_files.write(out, records)

        leftovers = [key for key in records.audits if key[0] not in CHECKS]
        for key in leftovers:
            del records.audits[key]
        if out and leftovers:
            record_files.write(out, records)
        for name, dtype in itertools.product(names, dtypes):
            saved = records.audits.get((name, dtype), {})
            stage = f"{name} {dtype}"
            work = _tallying(name, dtype, cases, seed)
            tally, record = _complete(work, saved, jobs, stage, progress)
            if record != saved:
                keep(record)
            stability = None
            if isinstance(CHECKS[name], ReferenceComparison):
                work, stage = _sampling(name, dtype, cases, seed), f"{stage}, digits kept"
                stability, part = _complete(work, saved.get("stability"), jobs, stage, progress)
                if (whole := {**record, "stability": part}) != saved:
                    keep(whole)
            yield CheckResult(tally, stability)


@dataclass(frozen=True)
class _Piece:
    name: str
    dtype: str
    seed: int
    cases: int


@dataclass(frozen=True)
class _Work(Generic[Result]):
    """A measurement to be made: its settings, what it starts from, how a piece is run, the pieces."""

    settings: dict[str, Any]
    start: Result
    run: Callable[[_Piece], Result]
    pieces: list[_Piece]


def _tallying(name: str, dtype: str, cases: int, seed: int) -> _Work[Tally]:
    settings = {"cases": cases, "seed": seed, "sources": sources(name)}
    pieces = _pieces(name, dtype, settings, size=PIECE, batch=BATCH)
    return _Work(settings, Tally(name, dtype), _tally_piece, pieces)


def _sampling(name: str, dtype: str, cases: int, seed: int) -> _Work[Stability]:
    settings = {
        "cases": sampled(cases),
        "seed": seed,
        "sources": sources(name, stability.sample),
    }
    pieces = _pieces(name, dtype, settings, size=SAMPLE, batch=stability.BATCH)
    return _Work(settings, Stability(allowed_bits(dtype)), _sample_piece, pieces)


def _pieces(
    name: str, dtype: str, settings: dict[str, Any], *, size: int, batch: int
) -> list[_Piece]:
    """The cases in pieces; each batch has a seed of its own."""
    cases, seed = settings["cases"], settings["seed"]
    return [
        _Piece(name, dtype, seed + start // batch, min(size, cases - start))
        for start in range(0, cases, size)
    ]


def _complete(
    work: _Work[Result],
    saved: dict[str, Any] | None,
    jobs: int,
    stage: str,
    progress: Progress,
) -> tuple[Result, dict[str, Any]]:
    """The measurement and its part of the record: the saved one if that will do, else made now."""
    cases, size = work.settings["cases"], work.pieces[0].cases
    earlier = audit_records.kept(type(work.start), saved, work.settings)
    if saved and earlier is not None:
        progress(stage, cases, cases)
        return earlier, saved

    def report(done: int, total: int) -> None:
        progress(stage, min(cases, done * size), cases)

    for _, part in parallel(report, work.run, work.pieces, jobs):
        work.start.merge(part)
    first = work.pieces[0]
    return work.start, audit_records.part(work.start, first.name, first.dtype, work.settings)


def _tally_piece(piece: _Piece) -> Tally:
    tally = Tally(piece.name, piece.dtype)
    for number, start in enumerate(range(0, piece.cases, BATCH)):
        seed, count = piece.seed + number, min(BATCH, piece.cases - start)
        for index, sample in enumerate(CHECKS[piece.name].samples(piece.dtype, seed, count)):
            tally.add(sample, CasePlace(seed, count, index))
    return tally


def _sample_piece(piece: _Piece) -> Stability:
    check = cast(ReferenceComparison, CHECKS[piece.name])
    return stability.sample(check, piece.dtype, piece.cases, seed=piece.seed)
