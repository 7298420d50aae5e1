"""The rows of `--prompts`: one table for scored and executed edits of many prompts, and one for captures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from finite_calculus.cli.question import show
from finite_calculus.harness.rows import Row

if TYPE_CHECKING:
    from finite_calculus.models import Floor, LocalCheck
    from finite_calculus.search import ExecutedRow, ScoreRow
    from finite_calculus.tasks.prompt_file import PromptLine

_SHOWN = 40
# What is shown of them; the table in the folder has all columns.
_COLUMNS = (
    *(
        "line",
        "name",
        "baseline",
        "answer",
        "versus",
        "layer",
        "tokens",
        "text",
        "edit",
        "predicted",
    ),
    *("second", "corrected", "executed", "local_error", "local_bound", "file"),
)


@dataclass(frozen=True)
class EditRow(Row):
    """One edit of one prompt: predicted, and executed if it was; None where a command has no such figure.

    `prompt_tokens` counts the tokens that ran, `tokens` are the edited ones, `band` that of a calibrated
    prediction; `resolved` says whether an executed effect is above the noise floor of its prompt; the local
    figures are those of the query that is closest to its bound.
    """

    line: int
    name: str
    prompt_tokens: int
    baseline: float
    layer: str
    tokens: str
    text: str
    edit: str
    predicted: float
    second: float | None = None
    corrected: float | None = None
    band: float | None = None
    trusted: bool | None = None
    executed: float | None = None
    resolved: bool | None = None
    local_error: float | None = None
    local_bound: float | None = None
    probable_bound: float | None = None
    beyond: int | None = None
    unlikely: int | None = None


@dataclass(frozen=True)
class CaptureRow(Row):
    """One captured prompt; `file` is the capture in the folder, for `load_capture`."""

    line: int
    name: str
    prompt_tokens: int
    baseline: float
    answer: str
    versus: str
    sha256: str
    file: str


def named(line: "PromptLine") -> dict[str, Any]:
    """The columns of a row that say which prompt it is of."""
    return {"line": line.number, "name": line.name or ""}


def scored_row(
    row: "ScoreRow", done: "ExecutedRow | None", sampled: float | None, floor: "Floor", **own: Any
) -> EditRow:
    """A row of a score table, with its execution or what a sample executed of it."""
    executed = floor.entry(sampled if done is None else done.effect)
    columns: dict[str, Any] = {
        "layer": str(row.layer),
        "tokens": ",".join(map(str, row.tokens)),
        "text": row.text,
        "edit": row.kind,
        "predicted": row.effect,
        "second": row.second,
        "corrected": row.corrected,
        "band": row.band,
        "trusted": row.trusted,
        "executed": executed["effect"],
        "resolved": executed["resolved"],
        **({} if done is None else local_columns([done.local])),
    }
    return EditRow(**{**columns, **own})


def local_columns(checks: "Sequence[LocalCheck]") -> dict[str, Any]:
    """The local figures of the query closest to its bound; entries beyond theirs, surely and probably."""
    worst = max(checks, key=lambda check: check.error / max(check.bound, 1e-300))
    return {
        "local_error": worst.error,
        "local_bound": worst.bound,
        "probable_bound": worst.probable_bound,
        "beyond": sum(check.beyond for check in checks),
        "unlikely": sum(check.unlikely for check in checks),
    }


def show_prompts(title: str, rows: Sequence[Any], *, first: int = _SHOWN) -> None:
    """Rows of many prompts on the console: columns that hold something, and not more rows than are read."""
    shown = rows[:first]
    names = [
        name
        for name in _COLUMNS
        if any(getattr(row, name, None) not in (None, "") for row in shown)
    ]
    cells = [[_cell(name, row) for name in names] for row in shown]
    more = f", the first {first} of {len(rows)}" if len(rows) > first else ""
    show(title + more, [name.replace("_", " ") for name in names], cells)


def _cell(name: str, row: Any) -> str:
    value = getattr(row, name)
    if value is None:
        return ""
    if name in ("text", "name"):
        return repr(value)
    if name == "local_error":
        return f"{value:.1e}"
    if name == "local_bound":
        failed = " FAILED" if row.beyond else " WARNING" if row.unlikely else ""
        return f"{value:.1e}{failed}"
    if name == "executed" and row.resolved is False:
        return f"({value:+.4f})"
    doubt = " ?" if name == "corrected" and row.trusted is False else ""
    return f"{value:+.4f}{doubt}" if isinstance(value, float) else str(value)
