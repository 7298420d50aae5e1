"""The fixture `compare`, and the table and bench/latest.json at the end of a run."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from bench.rows import BenchRow, side_by_side, table, write
from finite_calculus.studies.runtime.timing import AT_LEAST, ROUNDS

_ROWS = pytest.StashKey[list[BenchRow]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where the rows go, and a quick run that measures little."""
    group = parser.getgroup("finite-calculus bench")
    here = Path(__file__).parent
    group.addoption("--rows", type=Path, default=here / "latest.json", help="where to write rows")
    group.addoption(
        "--processor",
        action="store_true",
        help="processor time, which other processes hardly change",
    )
    group.addoption("--quick", action="store_true", help="one short round: shows that it runs")


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    with torch.inference_mode():
        yield


@pytest.fixture
def compare(benchmark: Any, request: pytest.FixtureRequest) -> Callable[..., BenchRow]:
    """Measure two functions side by side and add a row; the first is ours."""

    def measure(
        name: str,
        ours: Callable[[], Any],
        other: Callable[[], Any],
        *,
        named: str,
        target: float | None = None,
        rounds: int = ROUNDS,
        items: tuple[int, int] = (1, 1),
    ) -> BenchRow:
        """`items` says how much work each call does; times are those of one item."""
        quick = request.config.getoption("--quick")
        protocol = (1, 0.0) if quick else (rounds, AT_LEAST)
        processor = request.config.getoption("--processor")
        clock = time.process_time if processor else time.perf_counter
        for warm_up in (ours, other):
            warm_up()
        mine, theirs = benchmark.pedantic(
            lambda: side_by_side(
                ours, other, rounds=protocol[0], at_least=protocol[1], clock=clock
            ),
            rounds=1,
        )
        mine, theirs = mine / items[0], theirs / items[1]
        row = BenchRow(name, mine, theirs, named, theirs / mine, target)
        benchmark.extra_info.update(vars(row))
        request.config.stash.setdefault(_ROWS, []).append(row)
        return row

    return measure


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write and print the rows that this run measured."""
    rows = session.config.stash.get(_ROWS, [])
    if rows:
        write(rows, session.config.option.rows)
        Console(width=140).print(table(rows))
