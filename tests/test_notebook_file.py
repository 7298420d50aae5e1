"""The saved notebook is what its cells give."""

import json
import re

from notebooks.make import CELLS, TARGET, run


def words(cell: dict) -> list[str]:
    """What a cell showed, without the digits, which depend on the machine."""
    return [re.sub(r"[-+]?\d[\d.e+-]*", "#", out["data"]["text/plain"]) for out in cell["outputs"]]


def test_the_notebook_has_ten_cells_and_shows_what_they_give() -> None:
    cells = json.loads(TARGET.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["source"] for cell in code] == list(CELLS)
    assert len(CELLS) == 10
    again = run(CELLS)
    assert [words(cell) for cell in again] == [words(cell) for cell in code]
    shown = [cell["outputs"][0]["data"] for cell in code]
    assert ["text/html" in data for data in shown].count(True) == 2
