"""How commands show themselves: the console, progress bars."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


def console() -> Console:
    """The terminal as it is; elsewhere wide enough for the ledger."""
    console = Console()
    return console if console.is_terminal else Console(width=165)


class Stages:
    """A progress bar per stage on a terminal, one line per stage elsewhere, nothing when quiet."""

    def __init__(self, console: Console, quiet: bool) -> None:
        columns = (
            TextColumn("{task.description:>18}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._bars = Progress(*columns, console=console, disable=quiet or not console.is_terminal)
        self._plain = not quiet and not console.is_terminal
        self._stages: dict[str, object] = {}

    def __enter__(self):
        self._bars.start()
        return self._report

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def _report(self, stage: str, done: int, total: int) -> None:
        if stage not in self._stages:
            self._stages[stage] = self._bars.add_task(stage, total=total)
            if self._plain:
                print(f"{stage} ({total}) ...", flush=True)
        self._bars.update(self._stages[stage], completed=done, total=total)  # pyright: ignore
