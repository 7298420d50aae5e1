"""The command-line application that every command registers with."""

import typer

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Exact finite attention responses: verify the calculus and use it.",
)


@app.callback()
def _root() -> None:
    """Exact finite attention responses: verify the calculus and use it."""
