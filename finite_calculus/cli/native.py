"""`finite-calculus models` and `preflight`: which checkpoints are here, and whether a model is sound."""

from typing import Annotated

import typer

from finite_calculus.cli.app import app
from finite_calculus.cli.options import Device, JsonFile, ModelArgument, Quiet


@app.command()
def models(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON with every pin in full.")
    ] = False,
) -> None:
    """List the checkpoints that are known by name, where they come from and whether they are here.

    Wherever a command takes a model, it also takes a folder that `save_pretrained` wrote, or a hub id as
    owner/name or owner/name@revision. Only safetensors are read, and no code of a repository is run.
    """
    from finite_calculus.checkpoints.commands import models_command

    models_command(json=as_json)


@app.command()
def preflight(
    model: ModelArgument = "embedded",
    prompt: Annotated[
        str | None,
        typer.Option(help="A prompt for the checks of MODEL; default: two dozen random tokens."),
    ] = None,
    batch: Annotated[int, typer.Option(min=2, help="Rows of the executed batches.")] = 8,
    device: Device = "cpu",
    only_target: Annotated[
        bool, typer.Option("--only-target", help="Leave out the tiny Qwen2 and Llama.")
    ] = False,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Check a model natively before any experiment stands on it.

    The checks run on a tiny random Qwen2, on a tiny random Llama and on MODEL: captured tensors are
    replayed in float64, edits are executed on independent paths, caches and rows are checked for leaks,
    and each figure is held to a derived float32 bound beside the paper's tolerance. Exit code 1 and the
    names of the checks if the gate is shut; a model that the instrument cannot measure shuts it with
    the reason. The records hold a fingerprint with the hash of the weights and where they came from.

    Example: `finite-calculus preflight smollm2-135m-instruct --json preflight.json`
    """
    from finite_calculus.checkpoints import CheckpointError
    from native_checks.gate import REFERENCES, gate

    references = () if only_target else REFERENCES
    try:
        report = gate(
            model, prompt=prompt, batch=batch, device=device, references=references, quiet=quiet
        )
    except (CheckpointError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None
    if json_file is not None:
        report.save(json_file)
    for line in [report.verdict(), *report.reasons()] if quiet else report.lines():
        print(line)
    raise typer.Exit(0 if report.passed else 1)
