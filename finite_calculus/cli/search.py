"""`finite-calculus score` and `execute`: rank edits from one backward pass, and run them on the model."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from finite_calculus.cli.app import app
from finite_calculus.cli.asking import asks
from finite_calculus.cli.guide import MODELS
from finite_calculus.cli.options import Curvature, Prompts, PromptsOut
from finite_calculus.cli.outputs import save_json
from finite_calculus.cli.question import Question, captured, described, headline, or_refuse
from finite_calculus.cli.ranking import Ranking, require_side, strengths
from finite_calculus.cli.rows import (
    certified_counts,
    missed_words,
    row_entry,
    sampled_effects,
    show_rows,
    summary_lines,
    tell_floor,
    trust_counts,
    trust_lines,
)


@app.command(rich_help_panel=MODELS)
@asks()
def score(
    question: Question,
    prompts: Prompts = None,
    out: PromptsOut = None,
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
    curvature: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Predict to second order, along so many directions; 8, or 0 in half precision.",
        ),
    ] = None,
    sample: Annotated[
        bool,
        typer.Option(help="Execute a sample of the candidates, to say which predictions to trust."),
    ] = True,
    single: Annotated[bool, typer.Option("--float32", help="Score in float32.")] = False,
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

    With --prompts every prompt of a file is scored, and its first --top rows go into one table.

    Example: `finite-calculus score --model smollm2-135m-instruct --prompt "The capital of France is"
    --answer " Paris" --versus " London" --top 5 --execute 5`
    """
    ranking = Ranking(
        top=top,
        towards=require_side(towards),
        execute=execute,
        budget=budget,
        span=span,
        odds=strengths(odds, donor_file),
        donor_file=donor_file,
        certify=certify,
        sample=sample,
        single=single,
    )
    if curvature is None:
        curvature = 0 if question.dtype in ("bfloat16", "float16") else 8
    question.curvature = curvature
    if prompts is not None:
        from finite_calculus.cli.many import score_prompts

        score_prompts(question, ranking, prompts, out)
        return
    with captured(question) as (instrument, capture):
        ranked = or_refuse(lambda: ranking.of(instrument, question, capture))
        floor = instrument.floor(capture)
    table, rows, done, check = ranked.table, ranked.rows, ranked.done, ranked.check
    print(headline(question, capture))
    print("\n".join([*summary_lines(table), *trust_lines(table)]))
    show_rows(
        f"top {len(rows)} of {len(table)}, towards {towards}", rows, done, table=table, floor=floor
    )
    executed = sampled_effects(table) | {index: item.effect for index, item in done.items()}
    tell_floor(floor, executed.values())
    stopped = None if check is None else check.stopped
    if check is not None:
        print(f"{len(done)} executed; stopped: {stopped}{missed_words(check)}")
    content: dict[str, Any] = described(
        question, capture, candidates=len(table), towards=towards, **certified_counts(table)
    )
    content |= {"curvature": curvature, "ranked_by": ranking.by, **trust_counts(table)}
    content["noise_floor"] = floor.value
    content |= {"rows": [row_entry(row, done, floor, table) for row in rows], "stopped": stopped}
    content["missed"] = None if check is None else check.missed
    content["executed"] = [row_entry(item.row, done, floor, table) for item in done.values()]
    save_json(question.json_file, content)


class _EditCommand(TyperCommand):
    """A command whose help of --edit names the edits that there are; they are imported only then."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from finite_calculus.search.specs import edit_help

        for option in self.params:
            if option.name == "edit":
                option.help = edit_help()  # pyright: ignore[reportAttributeAccessIssue]
        super().format_help(ctx, formatter)


@app.command(cls=_EditCommand, rich_help_panel=MODELS)
@asks(
    without=("layers",),
    answer=Annotated[
        str | None,
        typer.Option(help="One token, as text or #ID; with log-probability any text."),
    ],
    versus=Annotated[
        str | None, typer.Option(help="The token a margin is compared with, as text or #ID.")
    ],
)
def execute(
    question: Question,
    edit: Annotated[
        list[str] | None, typer.Option(help="KIND:LAYER:TOKENS[:AMOUNT], repeatable.")
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
    prompts: Prompts = None,
    out: PromptsOut = None,
    curvature: Curvature = 0,
) -> None:
    """Execute edits on the model and show predicted effect, executed effect and local error.

    Each edit runs on its own, from the untouched prefix, or all of them --together; with --curvature the
    prediction goes to second order, for several layers with the terms between them. The local error is the
    distance of the executed write from the exact one, beside the bound that float32 rounding allows. The
    last query sees an edit; with --readers several do, and for an answer of several tokens all that predict
    it: then the prediction adds up what each of them contributes, and the local error is the largest one.

    With --prompts the edits are executed on every prompt of a file, or those that its line holds.

    Example: `finite-calculus execute --model smollm2-135m-instruct --prompt "The capital of France is"
    --answer " Paris" --versus " London" --edit odds:20:3:64 --edit 'delete:20:" France"'`
    """
    from finite_calculus.cli import counterfactuals

    question.curvature = curvature
    asked = counterfactuals.Asked(tuple(edit or ()), objective, readers, together)
    if prompts is not None:
        from finite_calculus.cli.many import execute_prompts

        execute_prompts(question, asked, prompts, out)
        return
    or_refuse(lambda: asked.check(question))
    counterfactuals.execute(question, asked)
