"""Formula mutation: every statement with one thing changed, and what becomes of it.

What is changed is in proofs/prover/mutants.py, what becomes of it in proofs/prover/verdicts.py.
`python -m proofs.prover.mutation` tries a sample of every statement, drawn with a seed and printed with its
size, and exits with 1 on a survivor; `--each all` tries every mutant. `--record` tries them all, keeps what
became of them in `results/formula-mutants.json`, statement by statement, and takes up where the last run
stopped; `--stale` lists the statements whose row there is of another text or other code.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import random
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from proofs.prover import mutation_records as records
from proofs.prover.mutants import hypothesis_mutants, mutants
from proofs.prover.statements import Statement
from proofs.prover.verdicts import Verdict, judge, judge_hypothesis

FAILURES = (Verdict.SURVIVOR,)


@dataclass(frozen=True)
class MutantResult:
    """One mutant: the statement it came from, its text, and what became of it."""

    statement: str
    text: str
    verdict: Verdict


@dataclass(frozen=True)
class Report:
    """The mutants of a run, and how many there are in all."""

    results: tuple[MutantResult, ...]
    total: int = 0

    def count(self, verdict: Verdict) -> int:
        return sum(result.verdict is verdict for result in self.results)

    def of(self, verdict: Verdict) -> list[MutantResult]:
        return [result for result in self.results if result.verdict is verdict]

    @property
    def ok(self) -> bool:
        return not any(self.of(verdict) for verdict in FAILURES)

    def texts(self) -> dict[str, list[str]]:
        """The mutants by what became of them."""
        return {str(v): [result.text for result in self.of(v)] for v in Verdict if self.of(v)}

    def __str__(self) -> str:
        counts = ", ".join(f"{self.count(verdict)} {verdict}" for verdict in Verdict)
        size = len(self.results)
        return f"{size} of {max(size, self.total)} mutants: {counts}"


def mutate(statement: Statement, *, most: int | None = None, seed: int = 0) -> Report:
    """Run the method of one statement on its mutants, or on `most` of them, drawn with a seed."""
    pool: list[tuple[Statement, str]] = [(m, "") for m in mutants(statement)]
    pool += hypothesis_mutants(statement)
    places: Iterable[int] = range(len(pool))
    if most is not None and most < len(pool):
        places = sorted(random.Random(f"{seed}|{statement.name}").sample(places, most))
    results = [
        MutantResult(m.name, f"{m} from {changed}", judge_hypothesis(m))
        if changed
        else MutantResult(m.name, str(m), judge(m))
        for m, changed in (pool[place] for place in places)
    ]
    return Report(tuple(results), len(pool))


def mutate_catalogue(
    *, most: int | None = None, seed: int = 0, processes: int = 2
) -> Iterator[Report]:
    """One report for each statement of the catalogue, as they are finished."""
    # Workers build the catalogue themselves: its samplers cannot be sent to another process.
    work = functools.partial(_mutate_position, most=most, seed=seed)
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(work, range(len(_statements())))


def record(path: Path = records.RECORD, *, processes: int = 2) -> Iterator[tuple[str, Report]]:
    """Try every mutant of the statements whose row is missing or of other code, and keep it at once."""
    kept, statements = records.read(path), {s.name: s for s in _statements()}
    rows = {name: row for name, row in kept.items() if name in statements}
    waiting = set(records.stale(rows, statements.values()))
    positions = [i for i, name in enumerate(statements) if name in waiting]
    work = functools.partial(_mutate_position, most=None, seed=0)
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for position, report in zip(positions, pool.imap(work, positions), strict=True):
            statement = _statements()[position]
            rows[statement.name] = records.row(statement, report.texts())
            records.write(rows, path)
            yield statement.name, report


def combine(reports: Iterable[Report]) -> Report:
    """One report of several."""
    reports = tuple(reports)
    results = tuple(result for report in reports for result in report.results)
    return Report(results, sum(report.total for report in reports))


@functools.cache
def _statements() -> tuple[Statement, ...]:
    """The statements of the catalogue, each once though entries share some."""
    from proofs.catalogue import entries

    by_name = {statement.name: statement for entry in entries() for statement in entry.statements}
    return tuple(by_name.values())


def _mutate_position(position: int, *, most: int | None, seed: int) -> Report:
    return mutate(_statements()[position], most=most, seed=seed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Mutate the catalogue and list the mutants that are true or undecided."""
    parser = argparse.ArgumentParser(description="Every statement with one thing changed.")
    parser.add_argument("--each", default="24", help="mutants of a statement, or all (default: 24)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--record", action="store_true", help="try all that is not recorded")
    parser.add_argument("--stale", action="store_true", help="list what is not recorded")
    options = parser.parse_args(arguments)
    if options.stale or options.record:
        return _list_stale() if options.stale else _record(options.processes)
    most = None if options.each == "all" else int(options.each)
    started = time.monotonic()
    reports = mutate_catalogue(most=most, seed=options.seed, processes=options.processes)
    report = combine(reports)
    for verdict in (Verdict.TRUE, Verdict.GENERAL, Verdict.UNDECIDED, *FAILURES):
        for result in sorted(report.of(verdict), key=lambda result: result.statement):
            print(f"{verdict}: {result.statement}\n    {result.text}")
    budget = "all" if most is None else f"at most {most} of each statement, seed {options.seed}"
    print(f"{report} ({budget}; {time.monotonic() - started:.0f} s, {options.processes} processes)")
    return 0 if report.ok else 1


def _list_stale() -> int:
    outdated = records.stale(records.read(), _statements())
    print(*outdated, f"{len(outdated)} of {len(_statements())} statements are stale", sep="\n")
    return 1 if outdated else 0


def _record(processes: int) -> int:
    for name, report in record(processes=processes):
        print(f"{name}: {report}", flush=True)
    rows = records.read().values()
    counts = {v: sum(row.get(v, 0) for row in rows) for v in map(str, Verdict)}
    print(f"{sum(row['mutants'] for row in rows)} mutants:", counts)
    return 1 if counts[Verdict.SURVIVOR] else 0


if __name__ == "__main__":
    sys.exit(main())
