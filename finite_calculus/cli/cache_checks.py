"""`finite-calculus kv-error` and `compare-cache`: what a cache does, and rounding or a fault."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from finite_calculus.cli.app import app
from finite_calculus.cli.asking import asks
from finite_calculus.cli.cache_policy import emitted, error_entry, show_layers
from finite_calculus.cli.guide import CACHE
from finite_calculus.cli.outputs import save_json, writable
from finite_calculus.cli.question import (
    Question,
    captured,
    described,
    headline,
    in_chat,
    or_refuse,
    prompt_text,
    show,
)

if TYPE_CHECKING:
    from finite_calculus.cache import CacheComparison

Existing = Annotated[
    Path | None, typer.Option(exists=True, dir_okay=False, help="A cache as safetensors.")
]


@app.command("kv-error", rich_help_panel=CACHE)
@asks()
def kv_error(
    question: Question,
    transform: Annotated[
        str,
        typer.Option(
            help="package:function, (sym|asym)BITS/AXIS with vector, channel or group32, merge/NUMBER, "
            "disk/TYPE, or a policy's file."
        ),
    ] = "sym4/vector",
    window: Annotated[int, typer.Option(min=1, help="The last so many queries.")] = 8,
    top: Annotated[int, typer.Option(min=1, help="Heads to show, heaviest first.")] = 12,
    emit_policy: Annotated[
        Path | None,
        typer.Option(
            help="Search bits for every key and value instead, and write them here.",
            callback=writable,
        ),
    ] = None,
    budget: Annotated[
        float | None, typer.Option(min=0, help="Bits of memory a number, scales included.")
    ] = None,
    levels: Annotated[str, typer.Option(help="Bits that a policy chooses from.")] = "2,3,4,8",
    rounding: Annotated[str, typer.Option(help="How a policy rounds.")] = "asym/vector",
) -> None:
    """What a transform of the stored keys and values does to every layer and head, heaviest first.

    The change of each head's write is exact for each of the last queries and split into a key part, a value
    part and their interaction; the certificate bounds how far the last query's local score may lie from
    its first order. Effect and KL of the next token are executed, with one layer's cache transformed, and
    with all.

    With --emit-policy the bits of every key and value are searched by the exact cost of losing some, within
    --budget; the report is then of that policy, and `restore --policy` or --transform apply it.

    Example: `finite-calculus kv-error --model smollm2-135m-instruct --prompt "The capital of France is"
    --transform asym2/group32`
    """
    from finite_calculus.cache import cache_error, named_transform, watch

    function = or_refuse(lambda: named_transform(transform))
    with captured(question) as (instrument, capture):
        numbers = [layer.layer for layer in capture.layers]
        windows = watch(instrument.model, capture.ids, queries=window, layers=numbers)
        policy, named = None, transform
        if emit_policy is not None:
            function, policy = emitted(
                windows,
                emit_policy,
                budget=budget,
                levels=levels,
                rounding=rounding,
                quiet=question.quiet,
            )
            named = emit_policy.name
        error = or_refuse(lambda: cache_error(instrument, capture, windows, function))
        floor = instrument.floor(capture)
    print(headline(question, capture))
    show_layers(error, f"{named}, each layer on its own", floor)
    heads = sorted((h for x in error.layers for h in x.heads), key=lambda head: -head.write)
    rows = [
        [
            str(head.layer),
            str(head.head),
            *(f"{x:.4g}" for x in (head.write, head.key, head.value, head.interaction)),
            f"{head.divergence:.2e}",
            f"{head.first_order:+.4f}",
            f"{head.bound:.4f}",
        ]
        for head in heads[:top]
    ]
    columns = [
        "layer",
        "head",
        "‖Δo_h‖",
        "key",
        "value",
        "interaction",
        "KL(p‖p')",
        "first-order",
        "± bound",
    ]
    show(f"the heaviest {len(rows)} of {len(heads)} heads", columns, rows)
    entry = error_entry(error, floor)
    figures = described(question, capture, transform=named, noise_floor=floor.value, error=entry)
    save_json(question.json_file, figures | ({} if policy is None else {"policy": policy}))


@app.command("compare-cache", rich_help_panel=CACHE)
@asks(without=("answer", "versus", "layers"))
def compare_cache(
    question: Question,
    reference: Existing = None,
    other: Existing = None,
    rows: Annotated[
        int, typer.Option(min=1, help="Compare with a batch of so many rows, without --other.")
    ] = 1,
    chunk: Annotated[
        int | None, typer.Option(min=1, help="Compare with a prefill in such chunks.")
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(help="What the runs of files computed in; what --dtype says unless given."),
    ] = None,
    save_run: Annotated[
        Path | None, typer.Option(help="Write this model's own run as safetensors.")
    ] = None,
) -> None:
    """Two caches of one prompt: rounding, or the layer and head where a fault is first seen.

    The reference is a run of the model unless --reference names a file; the other comes from --other, or from
    a run as one of several --rows or in --chunk pieces. What rounding may do is derived for this model and
    prompt from the roundings of its operations. Exit code 1 if rounding does not explain the difference.

    Example: `finite-calculus compare-cache --model smollm2-135m-instruct --prompt "The capital of France is"
    --chunk 2`
    """
    from finite_calculus.cache import CacheRecord, compare_caches, record, rounding_spread
    from finite_calculus.checkpoints import load, require_tokenizer
    from finite_calculus.models.margins import prompt_ids

    text = prompt_text(question)
    loaded, tokens = or_refuse(
        lambda: load(question.model, dtype=question.dtype, device=question.device)
    )
    tokenizer = or_refuse(lambda: require_tokenizer(loaded, tokens))
    text = or_refuse(lambda: in_chat(question, tokenizer, text))
    size = loaded.config.get_text_config(decoder=True).vocab_size
    ids = or_refuse(lambda: prompt_ids(text, vocabulary=size, tokenizer=tokenizer))

    def compared() -> "CacheComparison":
        own = record(loaded, ids)
        if save_run is not None:
            own.save(save_run)
        first = own if reference is None else CacheRecord.load(reference)
        second = (
            record(loaded, ids, rows=rows, chunk=chunk)
            if other is None
            else CacheRecord.load(other)
        )
        return compare_caches(
            first, second, rounding_spread(loaded, ids), precision=precision or question.dtype
        )

    comparison = or_refuse(compared)
    lines: list[list[str]] = [
        [
            str(layer.layer),
            f"{layer.keys:.3g}",
            f"{layer.values:.3g}",
            "" if layer.outputs is None else f"{layer.outputs:.3g}",
        ]
        for layer in comparison.layers
    ]
    show(
        "largest difference over what rounding allows",
        ["layer", "keys", "values", "outputs"],
        lines,
    )
    first = comparison.first
    if first is None:
        print("rounding: every difference is within what rounding allows")
    else:
        print(
            f"a fault: first in the {first.part} of layer {first.layer}, heads {list(first.heads)}, tokens "
            f"{_few(first.tokens)}: {first.ratio:.3g} times what rounding allows\nlooks like: {first.guess}"
        )
    content: dict[str, Any] = {
        "model": question.model,
        "rounding": comparison.rounding,
        "precision": precision,
    }
    save_json(question.json_file, content | {"tokens": len(ids), **asdict(comparison)})
    raise typer.Exit(0 if comparison.rounding else 1)


def _few(tokens: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, tokens[:8]))
    return f"[{shown}]" if len(tokens) <= 8 else f"[{shown}, ...] ({len(tokens)})"
