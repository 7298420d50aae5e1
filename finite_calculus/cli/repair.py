"""`finite-calculus repair`: an answer scored, edited, executed and checked, from a case in a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from finite_calculus.cli.app import app
from finite_calculus.cli.guide import MODELS
from finite_calculus.cli.options import Device, Dtype, JsonFile, Model, Quiet
from finite_calculus.cli.outputs import save_json
from finite_calculus.cli.question import or_refuse, show

if TYPE_CHECKING:
    from finite_calculus.studies.answer_repair.rows import Case, Continuation


@app.command(rich_help_panel=MODELS)
def repair(
    case_file: Annotated[Path, typer.Argument(help="The case: prompt, functions, checks, target.")],
    model: Model = "embedded",
    tries: Annotated[int, typer.Option(min=1, help="Ranked edits that are executed.")] = 3,
    tokens: Annotated[int, typer.Option(min=1, help="Most tokens of an answer.")] = 32,
    json_file: JsonFile = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    quiet: Quiet = False,
) -> None:
    """Repair a generated answer by one attention edit, ranked towards a target that the case supplies.

    The model answers as it is, with an edit installed that does nothing, with each emphasised prompt, and
    with the best ranked edits of the family (15 kinds, every token, every layer). Every answer is run
    through the case's checks, in a confined process and never by eval. A repair shows that an edit can
    lead to a passing answer in this case, and says nothing of others.

    Example: `finite-calculus repair docs/repair-case.json --model smollm2-135m-instruct`
    """
    from finite_calculus.checkpoints import load, origin_of, require_tokenizer
    from finite_calculus.models import attach
    from finite_calculus.studies.answer_repair.case_file import read_case
    from finite_calculus.studies.answer_repair.prompts import prompt_of
    from finite_calculus.studies.answer_repair.settings import RepairSettings
    from finite_calculus.studies.answer_repair.unit import run_case

    case = or_refuse(lambda: read_case(case_file))
    if not quiet:
        print(f"loading {model} ...", flush=True)
    loaded, given = or_refuse(lambda: load(model, dtype=dtype, device=device))
    tokenizer = or_refuse(lambda: require_tokenizer(loaded, given))
    settings = RepairSettings(model=model, tries=tries, tokens=tokens)
    context = int(loaded.config.get_text_config(decoder=True).max_position_embeddings)
    prompt = or_refuse(lambda: prompt_of(case, tokenizer, context))
    with attach(loaded, tokenizer=tokenizer) as instrument:
        done = or_refuse(lambda: run_case(instrument, settings, prompt, arms=("ranked",)))
    rows: Any = done.rows["continuations"]
    (asked,) = done.rows["cases"]
    label = origin_of(loaded)
    _show(model if label is None else label.label, asked, rows)  # pyright: ignore[reportArgumentType]
    failed = [check.name for check in done.checks if check.failed]
    if failed:
        print(f"checks FAILED: {', '.join(failed)}")
    content = {"model": model, "case": vars(asked), "continuations": [vars(row) for row in rows]}
    save_json(json_file, {**content, "checks_failed": failed})
    if failed:
        raise typer.Exit(1)


def _show(model: str, asked: "Case", rows: "list[Continuation]") -> None:
    from finite_calculus.harness.metrics import unresolved_note
    from finite_calculus.models.floor import effect_cell

    print(
        f"{model}, {asked.prompt_tokens} tokens: logit({asked.target!r}) − logit({asked.versus!r}) = "
        f"{asked.margin:+.4f}; {asked.candidates} candidates"
    )
    cells = [
        [
            row.arm if row.arm != "ranked" else f"ranked {row.tried}",
            "" if row.edit is None else f"{row.edit}, layer {row.layer}, token {row.token}",
            "" if row.predicted is None else f"{row.predicted:+.4f}",
            "" if row.effect is None or row.edit is None else effect_cell(row.effect, row.resolved),
            repr(row.expression),
            f"{row.passed}/{row.checks}",
            row.reason,
        ]
        for row in rows
    ]
    columns = ["branch", "edit", "predicted", "executed", "generated", "checks", "not computed"]
    show("answers and their checks", columns, cells)
    told = unresolved_note(row.resolved for row in rows).strip()
    if told:
        print(told)
    ordinary = rows[0]
    best = next((row for row in rows if row.arm == "ranked" and row.right), None)
    if ordinary.right:
        print("the answer passes as it is")
    elif best is None:
        print("no ranked edit that was tried repairs the answer")
    else:
        again = "the same tokens" if best.repeated else "OTHER tokens"
        print(f"repaired by ranked {best.tried}; run again alone: {again}")
