"""What `finite-calculus execute` does: edits each on its own, all at once, or seen by several queries."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from finite_calculus.cli.outputs import save_json
from finite_calculus.cli.question import (
    Question,
    attached,
    captured,
    described,
    headline,
    or_refuse,
    show,
    sides,
)
from finite_calculus.cli.rows import LOCAL_COLUMNS, local_cells, row_entry, show_rows

if TYPE_CHECKING:
    from finite_calculus.models import Capture, Edit, Instrument, LocalCheck, Passage

_OBJECTIVES = ("margin", "log-probability", "divergence")


def check(
    objective: str,
    answer: str | None,
    versus: str | None,
    readers: str | None,
    together: bool,
    curvature: int,
) -> None:
    """Refuse options that do not go together, before anything is loaded."""
    if objective not in _OBJECTIVES:
        raise typer.BadParameter(
            f"--objective must be one of {', '.join(_OBJECTIVES)}; got {objective!r}."
        )
    if objective == "margin" and (answer is None) != (versus is None):
        raise typer.BadParameter("give both --answer and --versus, or neither.")
    if objective == "log-probability" and (answer is None or versus is not None):
        raise typer.BadParameter("--objective log-probability takes --answer and no --versus.")
    if objective == "divergence" and (answer is not None or versus is not None):
        raise typer.BadParameter("--objective divergence takes neither --answer nor --versus.")
    if together and (objective != "margin" or readers is not None):
        raise typer.BadParameter("--together takes the margin at the last query alone.")
    if curvature and (together or objective != "margin" or readers is not None):
        raise typer.BadParameter("--curvature is of single edits at the last query.")


def execute_each(question: Question, texts: list[str]) -> None:
    """Each edit on its own at the last query."""
    from finite_calculus.search import execute_rows, score as score_edits

    with captured(question) as (instrument, capture):
        edits = _edits(texts, capture, instrument, question)
        table = or_refuse(lambda: score_edits(capture, edits, tokenizer=instrument.tokenizer))
        done = execute_rows(instrument, table, range(len(table)), quiet=question.quiet)
    print(headline(question, capture))
    by_row = {item.row.index: item for item in done}
    show_rows(f"{len(done)} executed", table.rows(), by_row, names=texts)
    rows = [
        row_entry(row, by_row) | {"edit": text}
        for row, text in zip(table.rows(), texts, strict=True)
    ]
    save_json(question.json_file, described(question, capture, objective="margin", rows=rows))


def execute_together(question: Question, texts: list[str]) -> None:
    """All edits as one counterfactual, of one layer or of several."""
    from finite_calculus.models import predict_several

    with captured(question) as (instrument, capture):
        edits = _edits(texts, capture, instrument, question)
        predicted = or_refuse(lambda: predict_several(capture, edits))
        (outcome,) = or_refuse(lambda: instrument.execute_several(capture, [edits]))
    print(headline(question, capture))
    layers = sorted({edit.layer for edit in edits})
    columns = ["layers", "predicted", "executed"]
    cells = [" ".join(map(str, layers)), f"{predicted.effect:+.4f}", f"{outcome.effect:+.4f}"]
    show(f"{len(edits)} edits at once", columns, [cells])
    result = {"edits": texts, "layers_edited": layers, "effect": predicted.effect}
    result |= {"executed": outcome.effect, "margin": outcome.margin}
    save_json(question.json_file, described(question, capture, objective="margin", together=result))


def execute_passage(
    question: Question, texts: list[str], objective: str, readers: str | None
) -> None:
    """Each edit on its own, seen by several queries."""
    with attached(question) as (instrument, layers):
        question.say("capturing: the prefix, the queries that are read and one backward pass ...")
        asked = or_refuse(lambda: _objective(instrument, question, objective))
        seen = or_refuse(lambda: _readers(readers))
        passage = or_refuse(
            lambda: instrument.passage(question.text, asked, readers=seen, layers=layers)
        )
        edits = _edits(texts, passage, instrument, question)
        predictions = [or_refuse(lambda edit=edit: passage.predict(edit)) for edit in edits]
        bends = [instrument.second_order(passage, edit) for edit in edits]
        outcomes = or_refuse(
            lambda: instrument.execute_passage(passage, edits, quiet=question.quiet)
        )
    checks = [_checks(edit, outcome) for edit, outcome in zip(edits, outcomes, strict=True)]
    first, last = passage.readers.start, passage.readers.stop - 1
    print(
        f"{question.label}, {len(passage.ids)} tokens, {objective} = {passage.baseline:+.4f}; edits are "
        f"seen by the queries {first}-{last}"
    )
    columns = ["edit", "predicted", "second", "executed", *LOCAL_COLUMNS]
    shown, rows = [], []
    for text, predicted, bend, outcome, local in zip(
        texts, predictions, bends, outcomes, checks, strict=True
    ):
        second = predicted.effect + bend
        numbers = [f"{x:+.4f}" for x in (predicted.effect, second, outcome.effect)]
        worst = max(local, key=lambda check: check.error / max(check.bound, 1e-300))
        shown.append([text, *numbers, *local_cells(worst)])
        executed: dict[str, Any] = {"effect": outcome.effect, "value": outcome.value}
        executed["local"] = [asdict(check) for check in local]
        rows.append(
            {"edit": text, "effect": predicted.effect, "second": second, "executed": executed}
        )
    show(f"{len(rows)} executed", columns, shown)
    content = described(question, passage, objective=objective, readers=[first, last], rows=rows)
    save_json(question.json_file, content)


def _edits(
    texts: list[str], capture: "Capture | Passage", instrument: "Instrument", question: Question
) -> "list[Edit]":
    from finite_calculus.search.specs import parse_edit

    def find(piece: str) -> tuple[int, ...]:
        return instrument.span(question.text, piece)

    return [or_refuse(lambda text=text: parse_edit(text, capture, find=find)) for text in texts]


def _objective(instrument: "Instrument", question: Question, name: str) -> Any:
    from finite_calculus.models import Divergence
    from finite_calculus.models.margins import margin

    if name == "divergence":
        return Divergence()
    if name == "log-probability":
        return instrument.log_probability(question.answer or "")
    vocabulary = instrument.model.config.get_text_config(decoder=True).vocab_size
    pair = sides(question, instrument)
    return margin(*pair, vocabulary=vocabulary, tokenizer=instrument.tokenizer)


def _readers(text: str | None) -> int | range | None:
    """How many of the last queries, or a range of positions as in 4-9."""
    if text is None:
        return None
    first, dash, last = text.partition("-")
    if not first.isdigit() or (dash and not last.isdigit()):
        raise ValueError(f"--readers must be a number or a range as in 4-9; got {text!r}.")
    return range(int(first), int(last) + 1) if dash else int(first)


def _checks(edit: "Edit", outcome: Any) -> "list[LocalCheck]":
    from finite_calculus.models import local_check

    return [local_check(edit, query) for query in outcome.queries]
