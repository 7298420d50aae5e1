"""`finite-calculus steer`: requested attention ratios, solved on a real head and executed."""

import math
from dataclasses import asdict
from typing import Annotated

import typer

from finite_calculus.cli.app import app
from finite_calculus.cli.asking import asks
from finite_calculus.cli.guide import MODELS
from finite_calculus.cli.options import Answer, Versus
from finite_calculus.cli.outputs import save_json
from finite_calculus.cli.question import (
    Question,
    captured,
    described,
    headline,
    or_refuse,
    show,
)
from finite_calculus.cli.rows import tell_floor


@app.command(rich_help_panel=MODELS)
@asks(without=("layers",), answer=Answer, versus=Versus)
def steer(
    question: Question,
    layer: Annotated[int, typer.Option(min=0, help="The layer of the head.")],
    head: Annotated[int, typer.Option(min=0, help="The query head.")],
    ratio: Annotated[
        list[str],
        typer.Option(help="ABOVE:BELOW=RATIO by token index, as in 12:30=4; repeatable."),
    ],
    shift: Annotated[
        str | None,
        typer.Option(help="First turn the keys of TOKENS by AMOUNT positions, as in 5-8:16."),
    ] = None,
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

    question.layers = str(layer)
    with captured(question) as (instrument, capture):
        limit = len(capture.ids)
        requests = [or_refuse(lambda r=r: parse_request(r, limit=limit)) for r in ratio]
        moved = None
        if shift is not None:
            tokens, _, amount = shift.rpartition(":")
            places = or_refuse(lambda: parse_numbers(tokens, limit=limit))
            moved = KeyShift(layer, places, or_refuse(lambda: float(amount)))
        steering = or_refuse(lambda: solve(instrument, capture, layer, head, requests, shift=moved))
        check = check_preserving(instrument, capture, layer, head)
        floor = instrument.floor(capture)
    print(headline(question, capture))
    columns = ["request", "asked", "before", "after shift", "achieved", "log ratio off by"]
    rows = []
    for text, request, *ratios in zip(
        ratio, requests, steering.before, steering.shifted, steering.achieved, strict=True
    ):
        off = math.log(ratios[2] / request.ratio)
        rows.append(
            [text, f"{request.ratio:g}", *(f"{number:.6g}" for number in ratios), f"{off:+.1e}"]
        )
    show(f"layer {layer}, head {head}: native attention ratios", columns, rows)
    print(
        f"edit of the head's input: norm {steering.edit_norm:.4g}, rank {steering.control.rank}, "
        f"{'feasible' if steering.control.feasible else 'NOT feasible'}; executed effect "
        f"{floor.cell(steering.effect)}"
    )
    print(
        f"attention-preserving directions: {check.kept} of {check.inputs}. One of them, executed at the "
        f"input's own norm: largest change of a weight {check.moved:.1e}, of the output "
        f"{check.response:.1e} (float32 allows {check.bound:.1e}); a controllable direction of that "
        f"size: {check.other:.1e}"
    )
    tell_floor(floor, [steering.effect])
    content = described(
        question, capture, layer=layer, head=head, feasible=steering.control.feasible
    )
    content |= {
        "requests": [asdict(request) for request in requests],
        "before": steering.before,
        "shifted": steering.shifted,
        "achieved": steering.achieved,
        "residual": steering.control.residual.tolist(),
        "edit": steering.control.edit.tolist(),
        "edit_norm": steering.edit_norm,
        **floor.entry(steering.effect),
        "noise_floor": floor.value,
        "preserving": asdict(check),
    }
    save_json(question.json_file, content)
    if not steering.control.feasible:
        print(f"The residual of the log ratios is {steering.control.residual.tolist()}.")
    raise typer.Exit(0 if steering.control.feasible else 1)
