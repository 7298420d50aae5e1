"""`finite-calculus models` and `preflight`: which checkpoints are here, and whether one is sound."""

from pathlib import Path
from typing import Annotated

import typer

from finite_calculus.cli.app import app


@app.command()
def models(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON with every pin in full.")
    ] = False,
) -> None:
    """List the checkpoints that are known, where they come from and whether they are here."""
    from finite_calculus.checkpoints.commands import models_command

    models_command(json=as_json)


@app.command()
def preflight(
    model: Annotated[
        str, typer.Argument(help="A name that `finite-calculus models` lists.")
    ] = "embedded",
    prompt: Annotated[
        str | None, typer.Option(help="A prompt for the checks; default: two dozen random tokens.")
    ] = None,
    batch: Annotated[int, typer.Option(min=2, help="Rows of the executed batches.")] = 8,
    device: Annotated[str, typer.Option(help="torch device; only cpu has been tested.")] = "cpu",
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Save the records and the fingerprint here.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the gate only.")] = False,
) -> None:
    """Check a model natively before any experiment stands on it.

    Captured tensors are replayed in float64, edits are executed on two paths, caches and rows are
    checked for leaks, and each figure is held to a derived float32 bound beside the paper's tolerance.
    Exit code 1 if the gate is shut.

    Example: `finite-calculus preflight tiny-llama`
    """
    from finite_calculus.checkpoints import CheckpointError, load
    from native_checks.preflight import preflight as run_preflight

    try:
        loaded, tokenizer = load(model, device=device)
    except (CheckpointError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None
    report = run_preflight(loaded, tokenizer, prompt=prompt, batch=batch, quiet=quiet)
    if json_file is not None:
        report.save(json_file)
    for line in report.lines() if not quiet else report.lines()[-1:]:
        print(line)
    raise typer.Exit(0 if report.passed else 1)
