"""Rows of the benchmark table: what was measured beside what, and whether the target is met."""

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from finite_calculus.studies.runtime.timing import AT_LEAST, ROUNDS, take_turns


@dataclass(frozen=True)
class BenchRow:
    """One comparison; `ratio` is the comparator's time over ours, so that more is better."""

    name: str
    ours_ms: float
    other_ms: float
    other: str
    ratio: float
    target: float | None

    @property
    def misses(self) -> bool:
        """Whether there is a target and it is not met."""
        return self.target is not None and not self.ratio >= self.target


def side_by_side(
    ours: Callable[[], Any],
    other: Callable[[], Any],
    *,
    rounds: int = ROUNDS,
    at_least: float = AT_LEAST,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float]:
    """Median milliseconds of each, over the rounds of the runtime study's protocol."""
    times = take_turns(
        {"ours": ours, "other": other}, rounds=rounds, at_least=at_least, clock=clock
    )
    return 1e3 * statistics.median(times["ours"]), 1e3 * statistics.median(times["other"])


def write(rows: Sequence[BenchRow], path: Path) -> None:
    """Save rows as a JSON list."""
    path.write_text(json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False) + "\n")


def table(rows: Sequence[BenchRow]) -> Table:
    """The rows for a terminal; what misses its target says so."""
    view = Table(title="ours beside others, medians")
    for heading in ("work", "ours ms", "other ms", "other", "ratio", "target", ""):
        view.add_column(heading, justify="left" if heading in ("work", "other", "") else "right")
    for row in rows:
        target = "" if row.target is None else f"{row.target:.3g}"
        mark = "[bold red]misses[/]" if row.misses else ""
        numbers = (f"{row.ours_ms:.3g}", f"{row.other_ms:.3g}", row.other, f"{row.ratio:.3g}")
        view.add_row(row.name, *numbers, target, mark)
    return view
