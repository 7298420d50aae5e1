"""`finite-calculus score` and `execute`: rank edits from one backward pass, and run them on the model."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperCommand

from finite_calculus.cli.app import app
from finite_calculus.cli.guide import MODELS
from finite_calculus.cli.options import (
    Answer,
    Chat,
    Curvature,
    Device,
    JsonFile,
    Layers,
    Model,
    Prompt,
    PromptFile,
    Quiet,
    Versus,
)
from finite_calculus.cli.outputs import save_json
from finite_calculus.cli.question import (
    Question,
    captured,
    described,
    headline,
    in_chat,
    or_refuse,
    prompt_text,
    token,
)
from finite_calculus.cli.rows import (
    certified_counts,
    missed_words,
    row_entry,
    show_rows,
    summary_lines,
    trust_counts,
    trust_lines,
)

if TYPE_CHECKING:
    from finite_calculus.models import Capture, Instrument
    from finite_calculus.search import ExecutedRow, Family, ScoreTable, Verification
    from finite_calculus.search.table import Side


@app.command(rich_help_panel=MODELS)
def score(
    answer: Answer,
    versus: Versus,
    model: Model = "embedded",
    prompt: Prompt = None,
    prompt_file: PromptFile = None,
    chat: Chat = False,
    layers: Layers = "all",
    top: Annotated[int, typer.Option(min=1, help="Rows to show.")] = 10,
    towards: Annotated[
        str, typer.Option(help="Rank towards answer, towards versus, or either by absolute effect.")
    ] = "either",
    execute: Annotated[
        int, typer.Option(min=0, help="Execute the first K on the model, beside the prediction.")
    ] = 0,
    budget: Annotated[
        int | None,
        typer.Option(min=1, help="Go on executing until the first K settle, at most so many."),
    ] = None,
    span: Annotated[int, typer.Option(min=1, help="Edit spans of so many tokens.")] = 1,
    odds: Annotated[
        str | None, typer.Option(help="Only multiply odds, at these strengths, as in 2,8,32.")
    ] = None,
    donor_file: Annotated[
        Path | None,
        typer.Option(help="Only replace keys and values by those of the prompt in this file."),
    ] = None,
    certify: Annotated[
        bool, typer.Option(help="Certify signs and order of the local scores.")
    ] = True,
    curvature: Curvature = 8,
    sample: Annotated[
        bool,
        typer.Option(help="Execute a sample of the candidates, to say which predictions to trust."),
    ] = True,
    single: Annotated[bool, typer.Option("--float32", help="Score in float32.")] = False,
    json_file: JsonFile = None,
    device: Device = "cpu",
    quiet: Quiet = False,
) -> None:
    """Score every candidate edit of a prompt from one capture and one backward pass, and rank them.

    The family is fifteen edits of every token at every layer: odds times 1/16 to 64, deletion, silenced
    values, keys turned by ±16 positions in the fast, middle and slow band. Scores are exact for the
    edited attention write; the effect on the margin is a prediction, which --execute checks. A
    certificate says that the exact local score is within `bound` of `first-order`. `second` is the
    prediction to second order, along --curvature directions of each layer. One candidate in forty is
    executed to correct the others (`corrected`), and a sample of some hundred gives every prediction a
    band; what is not to be trusted is marked with ?. Rows are ranked by what remains certain: executed
    effects, then predictions less their band.

    Example: `finite-calculus score --model smollm2-135m-instruct --prompt "The capital of France is"
    --answer " Paris" --versus " London" --top 5 --execute 5`
    """
    import torch

    from finite_calculus.search import calibrate, certify_table, score as score_family

    side = _side(towards)
    question = Question(
        model,
        prompt,
        prompt_file,
        chat,
        answer,
        versus,
        layers,
        device,
        quiet,
        json_file,
        curvature,
    )
    with captured(question) as (instrument, capture):
        family = or_refuse(lambda: _family(instrument, question, capture, span, odds, donor_file))
        precision = torch.float32 if single else torch.float64
        table = or_refuse(
            lambda: score_family(capture, family, dtype=precision, tokenizer=instrument.tokenizer)
        )
        if certify:
            if not quiet:
                print(f"certifying {len(table)} candidates ...", flush=True)
            table = certify_table(table)
        if sample:
            if not quiet:
                print("executing a sample ...", flush=True)
            table = calibrate(instrument, table)
        by = "certain" if sample else "predicted"
        done, check = _executed(instrument, table, execute, budget, side, quiet, by)
    print(headline(question, capture))
    print("\n".join([*summary_lines(table), *trust_lines(table)]))
    rows = table.topk(max(top, execute), by=by, towards=side)
    show_rows(f"top {len(rows)} of {len(table)}, towards {towards}", rows, done, table=table)
    stopped = None if check is None else check.stopped
    if check is not None:
        print(f"{len(done)} executed; stopped: {stopped}{missed_words(check)}")
    content: dict[str, Any] = described(
        question, capture, candidates=len(table), towards=towards, **certified_counts(table)
    )
    content |= {"curvature": curvature, "ranked_by": by, **trust_counts(table)}
    content |= {"rows": [row_entry(row, done, table) for row in rows], "stopped": stopped}
    content["missed"] = None if check is None else check.missed
    content["executed"] = [row_entry(item.row, done, table) for item in done.values()]
    save_json(json_file, content)


class _EditCommand(TyperCommand):
    """A command whose help of --edit names the edits that there are; they are imported only then."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from finite_calculus.search.specs import edit_help

        for option in self.params:
            if option.name == "edit":
                option.help = edit_help()  # pyright: ignore[reportAttributeAccessIssue]
        super().format_help(ctx, formatter)


@app.command(cls=_EditCommand, rich_help_panel=MODELS)
def execute(
    edit: Annotated[list[str], typer.Option(help="KIND:LAYER:TOKENS[:AMOUNT], repeatable.")],
    answer: Annotated[
        str | None,
        typer.Option(help="One token, as text or #ID; with log-probability any text."),
    ] = None,
    versus: Annotated[
        str | None, typer.Option(help="The token a margin is compared with, as text or #ID.")
    ] = None,
    objective: Annotated[
        str,
        typer.Option(
            help="margin of --answer over --versus, log-probability of --answer, or divergence from the "
            "unedited run."
        ),
    ] = "margin",
    readers: Annotated[
        str | None,
        typer.Option(help="Which queries see the edits: how many of the last, or positions 4-9."),
    ] = None,
    together: Annotated[
        bool, typer.Option("--together", help="All edits at once, of several layers too.")
    ] = False,
    model: Model = "embedded",
    prompt: Prompt = None,
    prompt_file: PromptFile = None,
    chat: Chat = False,
    curvature: Curvature = 0,
    json_file: JsonFile = None,
    device: Device = "cpu",
    quiet: Quiet = False,
) -> None:
    """Execute edits on the model and show predicted effect, executed effect and local error.

    Each edit runs on its own, from the untouched prefix, or all of them --together. The local error is the
    distance of the executed write from the exact one, beside the bound that float32 rounding allows. The
    last query sees an edit; with --readers several do, and for an answer of several tokens all that predict
    it: then the prediction adds up what each of them contributes, and the local error is the largest one.

    Example: `finite-calculus execute --model smollm2-135m-instruct --prompt "The capital of France is"
    --answer " Paris" --versus " London" --edit odds:20:3:64 --edit 'delete:20:" France"'`
    """
    from finite_calculus.cli import counterfactuals

    question = Question(
        model, prompt, prompt_file, chat, answer, versus, "all", device, quiet, json_file, curvature
    )
    counterfactuals.check(objective, answer, versus, readers, together, curvature)
    if together:
        counterfactuals.execute_together(question, edit)
    elif objective != "margin" or readers is not None:
        counterfactuals.execute_passage(question, edit, objective, readers)
    else:
        counterfactuals.execute_each(question, edit)


def _side(towards: str) -> "Side":
    if towards not in ("either", "answer", "versus"):
        raise typer.BadParameter(f"--towards must be answer, versus or either; got {towards!r}.")
    return cast("Side", towards)


def _family(
    instrument: "Instrument",
    question: Question,
    capture: "Capture",
    span: int,
    odds: str | None,
    donor_file: Path | None,
) -> "Family":
    from finite_calculus.search import donor_family, span_family, sweep_family

    if odds is not None and donor_file is not None:
        raise ValueError("Give --odds or --donor-file, not both.")
    if odds is not None:
        return sweep_family([float(piece) for piece in odds.split(",")], width=span)
    if donor_file is None:
        return span_family(span)
    text = prompt_text(replace(question, prompt=None, prompt_file=donor_file))
    text = in_chat(question, instrument.tokenizer, text)
    donor = instrument.capture(
        text,
        answer=token(str(question.answer)),
        versus=token(str(question.versus)),
        layers=[layer.layer for layer in capture.layers],
    )
    if len(donor.ids) != len(capture.ids):
        raise ValueError(
            f"The donor must have the prompt's {len(capture.ids)} tokens; it has {len(donor.ids)}. "
            f"Choose words of equal token length."
        )
    return donor_family(donor, width=span)


def _executed(
    instrument: "Instrument",
    table: "ScoreTable",
    count: int,
    budget: int | None,
    side: "Side",
    quiet: bool,
    by: str,
) -> "tuple[dict[int, ExecutedRow], Verification | None]":
    from finite_calculus.search import execute_rows, verify_top

    if not count:
        return {}, None
    if budget is None:
        order = table.order(count, by=by, towards=side)
        done = execute_rows(instrument, table, order, quiet=quiet)
        return {item.row.index: item for item in done}, None
    check = or_refuse(
        lambda: verify_top(instrument, table, count, budget=budget, towards=side, quiet=quiet)
    )
    return {item.row.index: item for item in check.executed}, check
