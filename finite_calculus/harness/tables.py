"""Tables as Markdown, LaTeX and CSV: one text per number, the same in all three but for markup."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

Cell = str | int | float | None


@dataclass(frozen=True)
class Table:
    """A titled table; `only_csv` marks one that is too long to be read."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    only_csv: bool = False


def as_markdown(table: Table) -> str:
    """A Markdown table under its title."""
    header = ["| " + " | ".join(word.replace("|", r"\|") for word in table.columns) + " |"]
    numeric = [_numeric(table, n) for n in range(len(table.columns))]
    header.append("|" + "|".join("---:" if right else "---" for right in numeric) + "|")
    body = ["| " + " | ".join(_text(cell) for cell in row) + " |" for row in table.rows]
    note = [f"\n{table.note}"] if table.note else []
    return "\n".join([f"## {table.title}\n", *header, *body, *note]) + "\n"


def as_latex(table: Table) -> str:
    """A LaTeX table environment with booktabs rules."""
    align = "".join("r" if _numeric(table, n) else "l" for n in range(len(table.columns)))
    lines = [
        r"\begin{table}[htbp]",
        r"\centering\small",
        rf"\caption{{{_escape(' '.join(f'{table.title}. {table.note}'.split()))}}}",
        rf"\label{{tab:{table.name}}}",
        rf"\begin{{tabular}}{{{align}}}",
        r"\toprule",
        " & ".join(_escape(word) for word in table.columns) + r"\\",
        r"\midrule",
        *(" & ".join(_latex_cell(cell) for cell in row) + r"\\" for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def as_csv(table: Table) -> str:
    """Comma-separated values, numbers in full."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([["" if cell is None else cell for cell in row] for row in table.rows])
    return buffer.getvalue()


def number(value: float) -> str:
    """Four significant digits, with an exponent where zeros would fill the line."""
    if value == 0:
        return "0"
    return f"{value:.4g}" if 1e-3 <= abs(value) < 1e5 else f"{value:.2e}"


def _text(cell: Cell) -> str:
    if cell is None:
        return "–"
    return number(cell) if isinstance(cell, float) else str(cell)


def _numeric(table: Table, column: int) -> bool:
    cells: Sequence[Cell] = [row[column] for row in table.rows]
    return any(isinstance(cell, int | float) for cell in cells)


def _latex_cell(cell: Cell) -> str:
    text = _text(cell)
    if not isinstance(cell, float) or "e" not in text:
        return _escape(text) if isinstance(cell, str) else text.replace("–", "---")
    mantissa, exponent = text.split("e")
    return rf"${mantissa}\times10^{{{int(exponent)}}}$"


_MARKS = {
    "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "α": r"$\alpha$", "−": "$-$", "–": "--",
    "≤": r"$\le$", "|": r"$|$", "×": r"$\times$", "Δ": r"$\Delta$",
}  # fmt: skip


def _escape(text: str) -> str:
    return "".join(_MARKS.get(mark, mark) for mark in text)
