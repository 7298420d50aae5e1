"""A table as a notebook shows it: the prompt, each token coloured by its strongest edit, and the first rows.

Blue is towards the answer, red towards what it is compared with. Every text of the prompt is escaped.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

_ROWS = 10
_BLUE, _RED = "33, 102, 172", "178, 24, 43"
_STYLE = "font-family: monospace; white-space: pre-wrap"


def table_html(table: Any, *, rows: int = _ROWS) -> str:
    """The prompt and the first rows of a table, by what is certain where it is calibrated."""
    calibrated = table.downstream is not None and table.downstream.calibrated is not None
    first = table.topk(rows, by="certain" if calibrated else "predicted")
    title = f"{len(first)} of {len(table)} candidates; blue towards the answer, red against it"
    # What was executed of the first rows, None for a row that was not.
    effects: list[float | None] | None = None
    if calibrated:
        executed = table.calibrated.executed
        effects = [
            None if executed[row.index].isnan() else float(executed[row.index]) for row in first
        ]
    else:
        title += "; predicted, nothing was executed"
    return f"<div>{_prompt(table)}<p>{title}</p>{_rows(first, effects)}</div>"


def strongest(table: Any) -> dict[int, int]:
    """The row of the largest predicted effect at each token that some candidate edits."""
    best: dict[int, int] = {}
    sizes = table.predicted.abs().tolist()
    for part, start in zip(table.parts, table.starts.tolist(), strict=False):
        for inside in range(len(part.effect)):
            for token in part.place(inside)[1]:
                row = start + inside
                if token not in best or sizes[row] > sizes[best[token]]:
                    best[token] = row
    return best


def _prompt(table: Any) -> str:
    best = strongest(table)
    effects = {token: float(table.predicted[row]) for token, row in best.items()}
    largest = max(map(abs, effects.values()), default=0.0) or 1.0
    spans = []
    for token, text in enumerate(table.text):
        if token not in best:
            spans.append(f"<span>{escape(text)}</span>")
            continue
        row, effect = table.row(best[token]), effects[token]
        words = escape(
            f"{token}: layer {row.layer}, {row.kind}, {effect:+.4f}{_mark(row)}", quote=True
        )
        style = f"background-color: {_colour(effect / largest)}"
        spans.append(f'<span style="{style}" title="{words}">{escape(text)}</span>')
    return f'<div style="{_STYLE}">{"".join(spans)}</div>'


def _rows(rows: Sequence[Any], effects: Sequence[float | None] | None) -> str:
    columns = ("layer", "tokens", "text", "edit", "predicted", *(["executed"] if effects else []))
    cells = [_cells(row) for row in rows]
    if effects:
        done = ("" if effect is None else f"{effect:+.4f}" for effect in effects)
        cells = [(*line, cell) for line, cell in zip(cells, done, strict=True)]
    head = "".join(f"<th>{name}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in line)}</tr>" for line in cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cells(row: Any) -> tuple[str, ...]:
    known = (row.corrected, row.second, row.effect)
    effect = next(number for number in known if number is not None)
    tokens = ",".join(map(str, row.tokens))
    text = f"<code>{escape(repr(row.text))}</code>"
    return str(row.layer), tokens, text, escape(row.kind), f"{effect:+.4f}{_mark(row)}"


def _mark(row: Any) -> str:
    """What execution says of a prediction that is not to be trusted."""
    return " ?" if row.trusted is False else ""


def _colour(strength: float) -> str:
    return f"rgba({_BLUE if strength > 0 else _RED}, {0.75 * abs(strength):.3f})"
