"""A long table for a page: columns compressed one by one, drawn by the page as they scroll.

Numbers are 64-bit floats, words are indices into a list of distinct words; both are deflated and in base64,
so that a hundred thousand rows cost what their information costs.
"""

import base64
import json
import zlib
from collections.abc import Sequence

import numpy as np

from finite_calculus.harness.tables import Cell, Table
from finite_calculus.report.texts import visible

# More rows than this are drawn as they scroll.
MOST_PLAIN = 60


def payload(table: Table) -> str:
    """The table as JSON whose columns are compressed; safe between script tags."""
    columns = [
        _column(name, [row[n] for row in table.rows]) for n, name in enumerate(table.columns)
    ]
    text = json.dumps({"rows": len(table.rows), "columns": columns}, ensure_ascii=True)
    return text.replace("<", "\\u003c")


def _column(name: str, cells: Sequence[Cell]) -> dict[str, object]:
    if all(cell is None or isinstance(cell, int | float) for cell in cells):
        numbers = np.array([np.nan if cell is None else float(cell) for cell in cells], "<f8")
        whole = all(isinstance(cell, int) for cell in cells if cell is not None)
        return {"name": name, "kind": "int" if whole else "float", "data": packed(numbers)}
    words = ["–" if cell is None else visible(str(cell)) for cell in cells]
    distinct = {word: n for n, word in enumerate(dict.fromkeys(words))}
    places = np.array([distinct[word] for word in words], "<u4")
    return {"name": name, "kind": "word", "words": list(distinct), "data": packed(places)}


def packed(array: np.ndarray) -> str:
    """An array as the page's script unpacks it."""
    # Bytes of equal weight side by side compress better than numbers one after the other.
    planes = np.ascontiguousarray(array.view(np.uint8).reshape(len(array), array.itemsize).T)
    return base64.b64encode(zlib.compress(planes.tobytes(), 9)).decode("ascii")
