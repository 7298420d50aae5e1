"""Progress of long commands over units of work: how many are done, how fast, how long it will take."""

import time
from collections.abc import Callable
from typing import Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from finite_calculus.cli.display import console


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:.2f}/s" if speed else "–/s")


class Units:
    """Progress over units: a bar with rate and time left on a terminal, a line now and then elsewhere."""

    def __init__(self, quiet: bool, title: str, *, every: float = 10.0) -> None:
        terminal = console()
        columns = (
            TextColumn("{task.description:>16}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=terminal, disable=quiet or not terminal.is_terminal)
        self._plain = not quiet and not terminal.is_terminal
        self._title, self._every = title, every
        self._task: Any = None
        self._start = self._shown = 0.0

    def __enter__(self) -> Callable[[str, int, int], None]:
        return self._report

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def _report(self, unit: str, done: int, total: int) -> None:
        if self._task is None:
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=total)
            self._start = time.monotonic()
        self._bar.update(self._task, completed=done, total=total, description=unit or self._title)
        now = time.monotonic()
        if self._plain and done and (now - self._shown >= self._every or done == total):
            self._shown = now
            rate = done / max(now - self._start, 1e-9)
            left = (total - done) / rate
            print(f"{unit}  {done}/{total}  {rate:.2f}/s  {left:.0f} s left", flush=True)
