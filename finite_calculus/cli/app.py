"""The command-line application that every command registers with."""

from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Exact finite attention responses: verify the calculus and use it.",
)


def _show_version(wanted: bool) -> bool:
    if wanted:
        from importlib.metadata import version

        print(f"finite-calculus {version('finite_calculus')}")
        raise typer.Exit
    return wanted


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Exact finite attention responses: verify the calculus and use it."""
