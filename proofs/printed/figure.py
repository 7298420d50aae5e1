"""The shape of one derived figure of the paper, and shorthands for families of them.

The shorthands only arrange strings: a range becomes two figures, a table one figure per
row. What the names of formulas and relations mean is defined in `proofs/printed/arithmetic.py`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from proofs.printed.tables import TABLES, Cells, Table


@dataclass(frozen=True)
class Figure:
    """One derived figure: `formula` on each row of `inputs`, joined by `across`.

    The id is the description in words; `where` names the paper's labels of every place
    that prints the figure.
    """

    id: str
    where: str
    printed: str
    inputs: tuple[Cells, ...]
    formula: str = "value"
    across: str = "only"
    relation: str = "meets"


def columns(rows: Table, *indices: int, having: Sequence[str] = ()) -> list[Cells]:
    """The chosen cells of every row whose key contains all the words in `having`."""
    matches = [cells for key, cells in rows.items() if set(having) <= set(key)]
    return [tuple(cells[i] for i in indices) for cells in matches]


def singles(where: str, text: str, *, relation: str = "meets") -> list[Figure]:
    """Figures from lines `description | printed | formula and its inputs`."""
    return [
        Figure(name, where, result, (tuple(rule.split()[1:]),), rule.split()[0], "only", relation)
        for name, result, rule in _lines(text)
    ]


def ranges(where: str, text: str, *, relation: str = "meets") -> list[Figure]:
    """Ranges from lines `description | least most | formula label columns | words of the rows`."""
    figures = []
    for name, ends, rule, having in _lines(text):
        formula, label, *indices = rule.split()
        rows = columns(TABLES[label], *map(int, indices), having=having.split())
        figures += span(name, where, ends, rows, formula, relation=relation)
    return figures


def span(
    name: str,
    where: str,
    ends: str,
    rows: Iterable[Cells],
    formula: str = "value",
    *,
    relation: str = "meets",
) -> list[Figure]:
    """A printed range as two figures, its smallest and its largest member."""
    low, high = ends.split()
    inputs = tuple(rows)
    return [
        Figure(f"{name}: least", where, low, inputs, formula, "minimum", relation),
        Figure(f"{name}: most", where, high, inputs, formula, "maximum", relation),
    ]


def rowwise(
    name: str, label: str, output: int, inputs: Sequence[int], formula: str
) -> list[Figure]:
    """One figure per row: the cell `output` from the cells `inputs` of the same row."""
    rows = columns(TABLES[label], *inputs)
    return [
        Figure(f"{name}: {' '.join(key)}", label, cells[output], (row,), formula)
        for (key, cells), row in zip(TABLES[label].items(), rows, strict=True)
    ]


def repeats(label: str, originals: Sequence[Cells]) -> list[Figure]:
    """Each cell of a table against the same cell of the table it repeats."""
    return [
        figure
        for (key, cells), original in zip(TABLES[label].items(), originals, strict=True)
        for figure in same(f"cells {' '.join(key)}", label, cells[: len(original)], original)
    ]


def same(name: str, where: str, again: Sequence[str], first: Sequence[str]) -> list[Figure]:
    """Numbers that repeat others, in order."""
    return [
        Figure(f"{name}, repeat {i}", where, later, ((earlier,),), relation="identical")
        for i, (later, earlier) in enumerate(zip(again, first, strict=True))
    ]


def bracket(name: str, where: str, cells: Cells, formula: str = "clearance") -> Figure:
    """A printed estimate, or with another formula a derived one, lies between two ends."""
    return Figure(f"{name}: in bracket", where, "0", (cells,), formula, relation="above")


def negative(name: str, where: str, high: str) -> Figure:
    """The upper end of a printed bracket is below zero."""
    return Figure(f"{name}: bracket negative", where, "0", ((high,),), relation="below")


def _lines(text: str) -> Iterator[list[str]]:
    for line in text.strip().splitlines():
        yield [part.strip() for part in line.split("|")]
