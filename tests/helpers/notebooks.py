"""Runs a notebook as a reader would: every code cell in order, in one namespace, in a process of its own.

`python -m tests.helpers.notebooks FILE` ends with the number of cells that ran, or at the first that fails.
"""

import json
import sys
from pathlib import Path
from typing import Any


def code_cells(path: Path) -> list[str]:
    """The sources of the code cells; a cell that is not plain Python does not compile."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def main(path: Path) -> None:
    """Run all cells."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    cells = code_cells(path)
    for number, source in enumerate(cells, start=1):
        print(f"cell {number} of {len(cells)}", flush=True)
        exec(compile(source, f"{path.name}, cell {number}", "exec"), namespace)
    print(f"ran {len(cells)} cells")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
