"""`finite-calculus evict` and `restore`: cache decisions with exact distortions and benefits."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from finite_calculus.cli.app import app
from finite_calculus.cli.asking import asks
from finite_calculus.cli.cache_policy import applied
from finite_calculus.cli.guide import CACHE
from finite_calculus.cli.outputs import save_json
from finite_calculus.cli.progress import Units
from finite_calculus.cli.question import (
    Question,
    captured,
    described,
    headline,
    or_refuse,
    show,
)
from finite_calculus.cli.rows import LOCAL_COLUMNS, local_cells, tell_floor

if TYPE_CHECKING:
    from finite_calculus.cache import Eviction
    from finite_calculus.models import Capture, Edit, Floor, Instrument
    from finite_calculus.search import LocalCheck

Generate = Annotated[
    int, typer.Option(min=0, help="Generate so many tokens without and with the edits in place.")
]


@app.command(rich_help_panel=CACHE)
@asks()
def evict(
    question: Question,
    budget: Annotated[
        float | None,
        typer.Option(
            min=0, help="Largest ‖Δo‖ of a layer's writes, as a fraction of ‖o‖; 0.01 unless given."
        ),
    ] = None,
    absolute: Annotated[
        bool, typer.Option("--absolute", help="The budget is a norm, not a fraction.")
    ] = False,
    count: Annotated[
        int | None, typer.Option(min=0, help="Evict so many entries of a layer instead.")
    ] = None,
    fraction: Annotated[
        float | None, typer.Option(min=0, max=1, help="Evict this share of a layer instead.")
    ] = None,
    window: Annotated[
        int, typer.Option(min=1, help="Hold the last so many queries to the budget.")
    ] = 1,
    over: Annotated[str, typer.Option(help="The worst or the mean of them.")] = "worst",
    scope: Annotated[
        str, typer.Option(help="Heads lose entries all together (token), by group, or each (head).")
    ] = "token",
    shared: Annotated[
        bool, typer.Option("--shared", help="One budget or number for all layers together.")
    ] = False,
    protect: Annotated[
        str | None, typer.Option(help="Tokens to keep, as in 0,5-9; the last one always is.")
    ] = None,
    protect_first: Annotated[int, typer.Option(min=0, help="Keep so many first tokens.")] = 0,
    protect_last: Annotated[int, typer.Option(min=0, help="Keep so many last tokens.")] = 1,
    protect_ends: Annotated[
        float, typer.Option(min=0, max=0.5, help="Keep this share of the prompt at each end.")
    ] = 0.0,
    generate: Generate = 0,
) -> None:
    """Evict cache entries while the last queries' writes stay within a distortion budget.

    Each layer is planned and executed on its own; distortions are exact for the queries planned for and
    for the whole evicted set, KL is that of the next token. Without --answer and --versus the two likeliest
    tokens are compared. With --generate all layers are evicted together and stay so for the tokens that
    follow, which no plan has seen.

    Example: `finite-calculus evict --model smollm2-135m-instruct --prompt "Rome is in Italy and Berlin
    is in Germany. The capital of France is" --answer " Paris" --versus " Rome" --layers 10-12
    --budget 0.1 --generate 8`
    """
    from finite_calculus.cache import Protected, evict as plan, execute_evictions, watch
    from finite_calculus.search.specs import parse_numbers

    if budget is None and count is None and fraction is None:
        budget = 0.01
    if generate and scope != "token":
        raise typer.BadParameter("--generate needs --scope token.")
    with captured(question) as (instrument, capture):
        numbers = [layer.layer for layer in capture.layers]
        named = () if protect is None else protect

        def planned() -> "tuple[Eviction, ...]":
            tokens = parse_numbers(named, limit=len(capture.ids), name="--protect") if named else ()
            keep = Protected(protect_first, protect_last, protect_ends, tokens)
            source: Any = capture
            if window > 1:
                source = watch(instrument.model, capture.ids, queries=window, layers=numbers)
            with Units(question.quiet, "layers") as report:
                return plan(
                    source,
                    budget,
                    count=count,
                    fraction=fraction,
                    relative=not absolute,
                    protect=keep,
                    over=over,  # pyright: ignore[reportArgumentType]
                    scope=scope,  # pyright: ignore[reportArgumentType]
                    shared=shared,
                    told=lambda done, total: report("planned", done, total),
                )

        plans = or_refuse(planned)
        edits: list[Edit] = []
        if scope == "token":
            plans = execute_evictions(instrument, capture, plans)
            edits = [item.edit for item in plans if item.edit is not None]
        text = _generated(instrument, capture, edits, generate)
        floor = instrument.floor(capture)
    print(headline(question, capture))
    total = sum(item.entries for item in plans)
    rows = [
        [
            str(item.layer),
            f"{item.entries}/{len(capture.ids) * len(item.by_block)}",
            f"{max(item.distortions):.4g}",
            f"{item.figure:.4g}",
            *_local(item.local),
            floor.cell(item.effect),
            "" if item.divergence is None else f"{item.divergence:.2e}",
        ]
        for item in plans
    ]
    figure = f"{over}/‖o‖" if not absolute else over
    columns = ["layer", "evicted", "‖Δo‖", figure, *_LOCAL, "effect", "KL"]
    asked = f"within {budget:g}" if budget is not None else "as many as asked"
    show(f"{total} entries evicted in {len(plans)} layers, {asked}", columns, rows)
    tell_floor(floor, [item.effect for item in plans])
    _show_generated(text)
    evictions = [_json(item, floor) | {"tokens": list(item.tokens)} for item in plans]
    found = described(
        question, capture, noise_floor=floor.value, evictions=evictions, generated=text
    )
    save_json(question.json_file, found)


@app.command(rich_help_panel=CACHE)
@asks()
def restore(
    question: Question,
    bits: Annotated[int, typer.Option(min=2, max=32, help="Bits of the quantised prefix.")] = 4,
    count: Annotated[int, typer.Option(min=0, help="Entries to restore at each layer.")] = 4,
    method: Annotated[
        str,
        typer.Option(
            help="exact, first-order, second-order, attention, value-norm or fisher; all but exact "
            "are controls."
        ),
    ] = "exact",
    policy: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Read the cache as a file of kv-error --emit-policy says.",
        ),
    ] = None,
    window: Annotated[
        int, typer.Option(min=1, help="With --policy: report the last so many queries.")
    ] = 8,
    generate: Generate = 0,
) -> None:
    """Quantise the prefix of a layer and restore the entries whose exact benefit is largest.

    After each restoration all benefits are evaluated again. Each layer is executed on its own; with
    --generate all layers are quantised and repaired together. With --policy every key and value of the
    prompt is read with the bits that it has there.

    Example: `finite-calculus restore --model smollm2-135m-instruct --prompt "The capital of France is"
    --answer " Paris" --versus " London" --layers 7 --bits 2 --count 2`
    """
    from finite_calculus.cache import execute_repairs, restore as repair

    if policy is not None:
        if (bits, count, method) != (4, 4, "exact"):
            raise typer.BadParameter("--policy comes without --bits, --count and --method.")
        applied(question, policy, window=window, generate=generate)
        return
    with captured(question) as (instrument, capture):
        repairs = or_refuse(lambda: repair(capture, bits, count, method=method))  # pyright: ignore
        repairs = execute_repairs(instrument, capture, repairs)
        edits = [edit for item in repairs for edit in item.edits]
        text = _generated(instrument, capture, edits, generate)
        floor = instrument.floor(capture)
    print(headline(question, capture))
    rows = [
        [
            str(item.layer),
            " ".join(map(str, item.restored)),
            f"{item.errors[0]:.4g}",
            f"{item.errors[-1]:.4g}",
            f"{item.relative_error:.4f}",
            *_local(item.local),
            floor.cell(item.effect),
        ]
        for item in repairs
    ]
    columns = ["layer", "tokens", "error", "after", "relative", *_LOCAL, "effect"]
    show(f"{bits} bits, {count} entries restored at each layer by {method}", columns, rows)
    tell_floor(floor, [item.effect for item in repairs])
    _show_generated(text)
    entries = [_json(item, floor) for item in repairs]
    found = described(question, capture, noise_floor=floor.value, repairs=entries, generated=text)
    save_json(question.json_file, found)


_LOCAL = ["executed ‖Δo‖", *LOCAL_COLUMNS]


def _local(check: "LocalCheck | None") -> list[str]:
    return ["" if check is None else f"{check.executed:.4g}", *local_cells(check)]


def _json(item: Any, floor: "Floor") -> dict[str, Any]:
    entry = {name: value for name, value in vars(item).items() if name != "local"}
    entry |= floor.entry(item.effect)
    return entry | {"local": None if item.local is None else asdict(item.local)}


def _generated(
    instrument: "Instrument", capture: "Capture", edits: "Sequence[Edit]", tokens: int
) -> dict[str, str] | None:
    from finite_calculus.cache import generate_with

    if not tokens:
        return None
    return asdict(or_refuse(lambda: generate_with(instrument, capture, edits, tokens=tokens)))


def _show_generated(text: dict[str, str] | None) -> None:
    if text is not None:
        rows = [[name, repr(words)] for name, words in text.items()]
        show("generated, all layers together", ["cache", "generated"], rows)
