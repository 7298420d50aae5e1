"""Write `first_look.ipynb` from its cells, executed: `python notebooks/make.py`. No Jupyter is needed.

What a cell ends with is shown as a notebook shows it: as HTML where the object has it, else as its repr.
"""

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

TARGET = Path(__file__).with_name("first_look.ipynb")
TITLE = """# A first look: one prompt, one capture, edits predicted and executed

Made by `python notebooks/make.py`."""
CELLS = (
    """from finite_calculus.checkpoints import load
from finite_calculus.models import Delete, KeyShift, Odds, ScaleValues, attach, local_check

model, tokenizer = load("embedded")
instrument = attach(model, tokenizer=tokenizer)
instrument""",
    """records = "Entity 01: A\\nEntity 02: B\\nQuestion: What is the label of Entity 02?\\nAnswer:"
message = [{"role": "user", "content": records}]
prompt = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
capture = instrument.capture(prompt, answer="B", versus="A", curvature=8)
capture""",
    """span = instrument.span(prompt, "02: B")
span""",
    """edits = [
    Delete(2, span),
    Odds(2, span, 4.0),
    ScaleValues(2, span, heads=(0, 1)),
    KeyShift(2, span, 16),
]
[capture.predict(edit).effect for edit in edits]""",
    """executed = instrument.execute(capture, edits)
executed.effects""",
    """pairs = zip(edits, executed.outcomes, strict=True)
[local_check(edit, outcome) for edit, outcome in pairs]""",
    """from finite_calculus.search import calibrate, score

table = score(capture, tokenizer=tokenizer)
table""",
    """calibrate(instrument, table)""",
    """passage = instrument.passage(prompt, instrument.log_probability("B"), readers=3)
(outcome,) = instrument.execute_passage(passage, [edits[1]])
passage.predict(edits[1]).effect, outcome.effect""",
    """instrument.close()
instrument""",
)


def run(cells: tuple[str, ...]) -> list[dict[str, Any]]:
    """Every cell with what it showed, all in one namespace."""
    names: dict[str, Any] = {}
    return [_run(number, source, names) for number, source in enumerate(cells, start=1)]


def _run(number: int, source: str, names: dict[str, Any]) -> dict[str, Any]:
    tree, printed, value = ast.parse(source), io.StringIO(), None
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue()})
    if value is not None:
        data = {"text/plain": repr(value)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_()
        result = {"output_type": "execute_result", "metadata": {}, "execution_count": number}
        outputs.append({**result, "data": data})
    return {
        "cell_type": "code",
        "id": f"cell-{number}",
        "metadata": {},
        "execution_count": number,
        "source": source,
        "outputs": outputs,
    }


def notebook(cells: tuple[str, ...]) -> dict[str, Any]:
    """The executed notebook."""
    title = {"cell_type": "markdown", "id": "title", "metadata": {}, "source": TITLE}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": [title, *run(cells)],
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


if __name__ == "__main__":
    TARGET.write_text(json.dumps(notebook(CELLS), indent=1, ensure_ascii=False) + "\n")
