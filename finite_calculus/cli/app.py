"""The command-line application that every command registers with."""

from typing import Annotated

import typer

from finite_calculus.cli.guide import EXIT_CODES, Guide

app = typer.Typer(
    cls=Guide,
    rich_markup_mode="markdown",
    epilog=EXIT_CODES,
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
    """Exact finite attention responses: verify the calculus and use it.

    Without a command: where to begin.
    """
