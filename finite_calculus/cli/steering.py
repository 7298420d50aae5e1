"""`finite-calculus steer`: requested attention ratios, solved on a real head and executed."""

import math
from dataclasses import asdict
from typing import Annotated

import typer

from finite_calculus.cli.app import app
from finite_calculus.cli.options import (
    Answer,
    Chat,
    Device,
    JsonFile,
    Model,
    Prompt,
    PromptFile,
    Quiet,
    Versus,
)
from finite_calculus.cli.question import (
    Question,
    captured,
    described,
    headline,
    or_refuse,
    save,
    show,
)


@app.command()
def steer(
    layer: Annotated[int, typer.Option(min=0, help="The layer of the head.")],
    head: Annotated[int, typer.Option(min=0, help="The query head.")],
    ratio: Annotated[
        list[str],
        typer.Option(help="ABOVE:BELOW=RATIO by token index, as in 12:30=4; repeatable."),
    ],
    answer: Answer,
    versus: Versus,
    shift: Annotated[
        str | None,
        typer.Option(help="First turn the keys of TOKENS by AMOUNT positions, as in 5-8:16."),
    ] = None,
    model: Model = "embedded",
    prompt: Prompt = None,
    prompt_file: PromptFile = None,
    chat: Chat = False,
    json_file: JsonFile = None,
    device: Device = "cpu",
    quiet: Quiet = False,
) -> None:
    """Solve requested attention ratios for the smallest edit of a head's query input, and execute it.

    Ratios are read from the model's own attention weights: before, after the shift alone, and after the
    edit. Then the directions of the query that change no attention weight are counted, and one of them
    is executed. A request that the head cannot meet is reported with its residual and exit code 1.

    Example: `finite-calculus steer --model smollm2-135m-instruct --prompt "The capital of France is"
    --answer " Paris" --versus " London" --layer 20 --head 4 --ratio 3:1=4 --ratio 2:0=1 --shift 3:16`
    """
    from finite_calculus.models import KeyShift
    from finite_calculus.search import check_preserving, steer as solve
    from finite_calculus.search.specs import parse_numbers, parse_request

    asked = Question(model, prompt, prompt_file, chat, answer, versus, str(layer), device, quiet)
    with captured(asked) as (instrument, capture):
        limit = len(capture.ids)
        requests = [or_refuse(lambda r=r: parse_request(r, limit=limit)) for r in ratio]
        moved = None
        if shift is not None:
            tokens, _, amount = shift.rpartition(":")
            places = or_refuse(lambda: parse_numbers(tokens, limit=limit))
            moved = KeyShift(layer, places, or_refuse(lambda: float(amount)))
        found = or_refuse(lambda: solve(instrument, capture, layer, head, requests, shift=moved))
        kept = check_preserving(instrument, capture, layer, head)
    print(headline(asked, capture))
    columns = ["request", "asked", "before", "after shift", "achieved", "log ratio off by"]
    rows = []
    for text, asked_for, *seen in zip(
        ratio, requests, found.before, found.shifted, found.achieved, strict=True
    ):
        off = math.log(seen[2] / asked_for.ratio)
        rows.append([text, f"{asked_for.ratio:g}", *(f"{s:.6g}" for s in seen), f"{off:+.1e}"])
    show(f"layer {layer}, head {head}: native attention ratios", columns, rows)
    print(
        f"edit of the head's input: norm {found.edit_norm:.4g}, rank {found.control.rank}, "
        f"{'feasible' if found.control.feasible else 'NOT feasible'}; executed effect "
        f"{found.effect:+.4f}"
    )
    print(
        f"attention-preserving directions: {kept.kept} of {kept.inputs}. One of them, executed at the "
        f"input's own norm: largest change of a weight {kept.moved:.1e}, of the output "
        f"{kept.response:.1e} (float32 allows {kept.bound:.1e}); a controllable direction of that "
        f"size: {kept.other:.1e}"
    )
    content = described(asked, capture, layer=layer, head=head, feasible=found.control.feasible)
    content |= {
        "requests": [asdict(request) for request in requests],
        "before": found.before,
        "shifted": found.shifted,
        "achieved": found.achieved,
        "residual": found.control.residual.tolist(),
        "edit": found.control.edit.tolist(),
        "edit_norm": found.edit_norm,
        "effect": found.effect,
        "preserving": asdict(kept),
    }
    save(json_file, content)
    if not found.control.feasible:
        print(f"The residual of the log ratios is {found.control.residual.tolist()}.")
    raise typer.Exit(0 if found.control.feasible else 1)
