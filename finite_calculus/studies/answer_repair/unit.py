"""One case: what the model says, the family scored, and every arm's continuations with their checks.

All continuations of one prompt run as rows of one batch, each with a cache and edits of its own; row 0 is
ordinary and row 1 has an edit installed that does nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from finite_calculus.cache import Generated, Row as Branch, generate_rows
from finite_calculus.harness import UnitResult, compare, count
from finite_calculus.models import Capture, Edit, Floor, Instrument, Odds, local_check
from finite_calculus.models.edits import as_tuple
from finite_calculus.search.families import token_family
from finite_calculus.search.score import prepare_search
from finite_calculus.search.table import ScoreTable
from finite_calculus.studies.answer_repair.answers import Checker, expression_of, line_ended
from finite_calculus.studies.answer_repair.arms import arm_rows
from finite_calculus.studies.answer_repair.prompts import CasePrompt
from finite_calculus.studies.answer_repair.rows import EDITED, Case, Continuation
from finite_calculus.studies.answer_repair.settings import RepairSettings


@dataclass(frozen=True, eq=False)
class Planned:
    """One continuation to be executed: its arm, its place in the arm's ranking, its row of the table."""

    arm: str
    tried: int
    branch: Branch
    row: int | None = None


def run_case(
    instrument: Instrument,
    settings: RepairSettings,
    prompt: CasePrompt,
    *,
    arms: Sequence[str] = EDITED,
) -> UnitResult:
    """Every branch of one case; `arms` are those whose edits are tried."""
    ids = torch.tensor(prompt.ids)
    versus, target_first = first_words(instrument, ids, prompt.target)
    capture = instrument.capture(ids, answer=prompt.target, versus=versus)
    prepared = prepare_search(capture, token_family(), tokenizer=instrument.tokenizer)
    table = prepared.score()
    # The prompt's own ids make the draws of each case its own.
    seed = (settings.seed, 12, *prompt.ids)
    chosen = arm_rows(prepared, table, prompt.places, settings.tries, seed)
    planned = [
        Planned("ordinary", 1, Branch()),
        Planned("no-op", 1, Branch((idle_edit(capture),))),
        Planned("target forced", 1, Branch(first=prompt.target)),
        *(
            Planned(arm, tried, Branch(as_tuple(table.edit(row))), row)
            for arm in arms
            for tried, row in enumerate(chosen[arm], start=1)
        ),
    ]
    generated = continued(instrument, settings, ids, [each.branch for each in planned], capture)
    check = Checker(prompt.case)
    floor = instrument.floor(capture)
    continuations = _continuations(instrument, prompt, check, table, planned, generated, floor)
    continuations = _repeated(instrument, settings, capture, planned, generated, continuations)
    continuations += _emphasised(instrument, settings, prompt, check)
    best = table.edit(chosen["ranked"][0])
    (outcome,) = instrument.execute(capture, [best], batch=settings.batch).outcomes
    local = local_check(best, outcome)
    decode = instrument.tokenizer.decode
    case = Case(
        prompt.stream,
        prompt.case.name,
        prompt.case.kind,
        prompt_tokens=len(prompt.ids),
        candidates=len(table),
        target=decode([prompt.target]),
        versus=decode([versus]),
        margin=capture.baseline,
        target_first=target_first,
    )
    checks = [
        count("no-op: tokens of the ordinary answer", [generated.tokens[0] != generated.tokens[1]]),
        compare("first ranked edit: executed write", [(local.error, local.bound)]),
    ]
    return UnitResult({"cases": [case], "continuations": continuations}, checks)


def first_words(instrument: Instrument, ids: torch.Tensor, target: int) -> tuple[int, bool]:
    """The likeliest first token that is not the target, and whether the target is likelier still."""
    with torch.no_grad():
        logits = instrument.prompt(ids).run_last()[0]
    first, second = logits.topk(2).indices.tolist()
    return (second, True) if first == target else (first, False)


def idle_edit(capture: Capture) -> Edit:
    """An edit that is installed and changes nothing: odds times one, at the first token of every head."""
    return Odds(capture.layers[len(capture.layers) // 2].layer, (0,), 1.0)


def continued(
    instrument: Instrument,
    settings: RepairSettings,
    ids: torch.Tensor,
    branches: Sequence[Branch],
    capture: Capture | None = None,
) -> Generated:
    """Greedy continuations until the expression is complete."""
    return generate_rows(
        instrument,
        ids,
        branches,
        capture=capture,
        tokens=settings.tokens,
        stop=line_ended(instrument.tokenizer),
    )


def _continuations(
    instrument: Instrument,
    prompt: CasePrompt,
    check: Checker,
    table: ScoreTable,
    planned: Sequence[Planned],
    generated: Generated,
    floor: Floor,
) -> list[Continuation]:
    margins = table.capture.margin.of(generated.logits.double())
    rows = []
    for number, each in enumerate(planned):
        place = None if each.row is None else table.row(each.row)
        effect = None if place is None else float(margins[number] - margins[0])
        rows.append(
            _row(
                prompt,
                check,
                each.arm,
                each.tried,
                expression_of(generated.tokens[number], instrument.tokenizer),
                len(generated.tokens[number]),
                layer=None if place is None else place.layer,
                token=None if place is None else place.tokens[0],
                edit=None if place is None else place.kind,
                predicted=None if place is None else place.effect,
                effect=effect,
                resolved=floor.resolves(effect),
            )
        )
    return rows


def _repeated(
    instrument: Instrument,
    settings: RepairSettings,
    capture: Capture,
    planned: Sequence[Planned],
    generated: Generated,
    rows: list[Continuation],
) -> list[Continuation]:
    """The first ranked edit that repairs, run once more alone: the batch must not have been the cause."""
    if rows[0].right:
        return rows
    number = next((n for n, row in enumerate(rows) if row.arm == "ranked" and row.right), None)
    if number is None:
        return rows
    alone = continued(instrument, settings, capture.ids, [planned[number].branch], capture)
    same = alone.tokens[0] == generated.tokens[number]
    return [replace(row, repeated=same) if n == number else row for n, row in enumerate(rows)]


def _emphasised(
    instrument: Instrument, settings: RepairSettings, prompt: CasePrompt, check: Checker
) -> list[Continuation]:
    rows = []
    for tried, ids in enumerate(prompt.emphasised[: settings.tries], start=1):
        tokens = continued(instrument, settings, torch.tensor(ids), [Branch()]).tokens[0]
        expression = expression_of(tokens, instrument.tokenizer)
        rows.append(_row(prompt, check, "emphasis", tried, expression, len(tokens)))
    return rows


def _row(
    prompt: CasePrompt,
    check: Checker,
    arm: str,
    tried: int,
    expression: str,
    generated: int,
    *,
    layer: int | None = None,
    token: int | None = None,
    edit: str | None = None,
    predicted: float | None = None,
    effect: float | None = None,
    resolved: bool | None = None,
) -> Continuation:
    answer = check(expression)
    return Continuation(
        prompt.stream,
        prompt.case.name,
        prompt.case.kind,
        arm=arm,
        tried=tried,
        layer=layer,
        token=token,
        edit=edit,
        predicted=predicted,
        effect=effect,
        expression=answer.expression,
        generated=generated,
        passed=answer.passed,
        checks=answer.checks,
        ended=answer.ended,
        reason=answer.reason,
        repeated=None,
        resolved=resolved,
    )
