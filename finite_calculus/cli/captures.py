"""`finite-calculus capture`: captures of every prompt of a file, for predictions without the model."""

from pathlib import Path
from typing import Annotated

import typer

from finite_calculus.cli.app import app
from finite_calculus.cli.asking import asks
from finite_calculus.cli.guide import MODELS
from finite_calculus.cli.options import Curvature
from finite_calculus.cli.outputs import writable_folder
from finite_calculus.cli.question import Question


@app.command(rich_help_panel=MODELS)
@asks(without=("prompt", "prompt_file"))
def capture(
    question: Question,
    prompts: Annotated[
        Path,
        typer.Option(help="JSON lines with prompt, and answer, versus or name."),
    ],
    out: Annotated[
        Path,
        typer.Option(help="The folder of the captures and their table.", callback=writable_folder),
    ],
    curvature: Curvature = 0,
) -> None:
    """Capture every prompt of a file: one forward and one backward pass each, saved with its sha256.

    A capture predicts any edit of its prompt without the model: `load_capture` of finite_calculus.models
    reads one, and the table names them. The same command goes on where it stopped.

    Example: `finite-calculus capture --model smollm2-135m-instruct --prompts prompts.jsonl --out captures`
    """
    from finite_calculus.cli.many import capture_prompts

    question.curvature = curvature
    capture_prompts(question, prompts, out)
