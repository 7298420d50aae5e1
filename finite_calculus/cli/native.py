"""`finite-calculus models` and `preflight`: which checkpoints are here, and whether a model is sound."""

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from finite_calculus.cli.app import app
from finite_calculus.cli.guide import DONE, MODELS, SHUT
from finite_calculus.cli.options import Device, Dtype, JsonFile, ModelArgument, Quiet
from finite_calculus.cli.outputs import save_json, writable
from finite_calculus.cli.question import or_refuse


@app.command(rich_help_panel=MODELS)
def models(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON with every pin in full.")
    ] = False,
) -> None:
    """List the checkpoints that are known by name, where they come from and whether they are here.

    Wherever a command takes a model, it also takes a folder that `save_pretrained` wrote, or a hub id as
    owner/name or owner/name@revision. Only safetensors are read, and no code of a repository is run.

    Example: `finite-calculus models --json`
    """
    from finite_calculus.checkpoints.commands import models_command

    models_command(json=as_json)


@app.command(rich_help_panel=MODELS)
def preflight(
    model: ModelArgument = "embedded",
    prompt: Annotated[
        str | None,
        typer.Option(help="A prompt for the checks of MODEL; default: two dozen random tokens."),
    ] = None,
    batch: Annotated[int, typer.Option(min=2, help="Rows of the executed batches.")] = 8,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    transform: Annotated[
        str | None,
        typer.Option(
            help="Check a transform of stored keys and values instead: package:function, or as kv-error."
        ),
    ] = None,
    allow: Annotated[
        float | None,
        typer.Option(min=0, help="With --transform: the largest relative change of a write."),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option(help="With --transform: write JUnit XML to this file.", callback=writable),
    ] = None,
    only_target: Annotated[
        bool, typer.Option("--only-target", help="Leave out the tiny Qwen2 and Llama.")
    ] = False,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Check a model natively before any experiment stands on it.

    The checks run on a tiny random Qwen2, on a tiny random Llama and on MODEL: captured tensors are
    replayed in float64, edits are executed on independent paths, caches and rows are checked for leaks,
    and each figure is held to a bound derived for the model's precision; float32 has to keep the paper's
    tolerance too. Exit code 3 and the
    names of the checks if the gate is shut; a model that the instrument cannot measure shuts it with
    the reason. The records hold a fingerprint with the hash of the weights and where they came from.

    With --transform, the checks are those of a cache: shapes, no later token that reaches an earlier one,
    and writes that change by rounding alone, or by no more than --allow.

    Example: `finite-calculus preflight smollm2-135m-instruct --json preflight.json`
    """
    from finite_calculus.checkpoints import CheckpointError
    from native_checks.gate import REFERENCES, gate

    if transform is not None:
        _transform_preflight(model, prompt, device, dtype, transform, allow, json_file, junit)
    references = () if only_target else REFERENCES
    try:
        report = gate(
            model,
            prompt=prompt,
            batch=batch,
            dtype=dtype,
            device=device,
            references=references,
            quiet=quiet,
        )
    except (CheckpointError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None
    if json_file is not None:
        report.save(json_file)
    for line in [report.verdict(), *report.reasons()] if quiet else report.lines():
        print(line)
    raise typer.Exit(DONE if report.passed else SHUT)


def _transform_preflight(
    model: str,
    prompt: str | None,
    device: str,
    dtype: str,
    name: str,
    allow: float | None,
    json_file: Path | None,
    junit: Path | None,
) -> NoReturn:
    """The gate of a cache: prints its checks and ends with 0 if it is open, 3 if it is shut."""
    import torch

    from finite_calculus.cache import named_transform, transform_gate
    from finite_calculus.checkpoints import load
    from finite_calculus.models.margins import prompt_ids

    loaded, tokenizer = or_refuse(lambda: load(model, dtype=dtype, device=device))
    size = loaded.config.get_text_config(decoder=True).vocab_size
    draw = torch.Generator().manual_seed(0)
    text = torch.randint(size, (24,), generator=draw) if prompt is None else prompt
    ids = or_refuse(lambda: prompt_ids(text, vocabulary=size, tokenizer=tokenizer))
    function = or_refuse(lambda: named_transform(name))
    report = or_refuse(lambda: transform_gate(loaded, function, ids, name=name, allow=allow))
    for check in report.checks:
        print(f"{'passed' if check.passed else 'FAILED'}  {check.name}: {check.words}")
    save_json(json_file, {"model": model, **report.content()})
    if junit is not None:
        report.save_junit(junit)
    raise typer.Exit(DONE if report.passed else SHUT)
