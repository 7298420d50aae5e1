"""Scoring, executing and capturing over a file of prompts: what is done with each, and what is shown."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from finite_calculus.cli.counterfactuals import Asked, parsed, run_each, run_passage, run_together
from finite_calculus.cli.outputs import save_json
from finite_calculus.cli.prompt_rows import (
    CaptureRow,
    EditRow,
    local_columns,
    named,
    scored_row,
    show_prompts,
)
from finite_calculus.cli.prompts import TABLE, Job, Result, over_prompts, saved_rows
from finite_calculus.cli.question import Question, capture_of, made, sides
from finite_calculus.cli.ranking import Ranking
from finite_calculus.cli.rows import sampled_effects
from finite_calculus.provenance.digests import digest
from finite_calculus.tasks.prompt_file import PromptLine

if TYPE_CHECKING:
    from finite_calculus.models import Capture, Instrument

CAPTURE = "capture.safetensors"
Layers = tuple[int, ...]


def score_prompts(question: Question, ranking: Ranking, prompts: Path, out: Path | None) -> None:
    """The first rows of every prompt's ranking in one table; the best of each is shown."""
    if ranking.donor_file is not None:
        raise typer.BadParameter("--donor-file is of one prompt; it does not go with --prompts.")

    def work(instrument: "Instrument", layers: Layers, one: Question, line: PromptLine) -> Result:
        capture = capture_of(one, instrument, layers)
        ranked = ranking.of(instrument, one, capture)
        sampled, own = sampled_effects(ranked.table), _of_prompt(line, capture)
        floor = instrument.floor(capture)
        rows = [
            scored_row(row, ranked.done.get(row.index), sampled.get(row.index), floor, **own)
            for row in ranked.rows
        ]
        return Result(rows)

    options = asdict(replace(ranking, odds=None)) | {"odds": list(ranking.odds or ())}
    job = Job("score", EditRow, options, _check_sides, work)
    rows = over_prompts(job, question, prompts, out)
    best = list({row.line: row for row in reversed(rows)}.values())[::-1]
    _finish(question, "score", rows, best, f"the first of {len(best)} prompts", out)


def execute_prompts(question: Question, asked: Asked, prompts: Path, out: Path | None) -> None:
    """Edits executed on every prompt, those of its line or else the command's."""

    def own(line: PromptLine) -> Asked:
        return asked if line.edits is None else replace(asked, edits=line.edits)

    def check(instrument: "Instrument", one: Question, line: PromptLine) -> None:
        own(line).check(one)
        tokens = len(instrument.encode(one.text))
        if asked.objective == "margin":
            _check_sides(instrument, one, line)
        elif one.answer is not None:
            tokens += len(instrument.log_probability(one.answer).answer) - 1
        parsed(own(line).edits, tokens, instrument, one)

    def work(instrument: "Instrument", layers: Layers, one: Question, line: PromptLine) -> Result:
        if asked.passage:
            return Result(_passage_rows(instrument, layers, one, line, own(line)))
        capture = capture_of(one, instrument, layers)
        if asked.together:
            return Result([_together_row(instrument, one, line, own(line), capture)])
        table, done = run_each(instrument, one, capture, own(line))
        floor = instrument.floor(capture)
        rows = [
            scored_row(row, item, None, floor, **_of_prompt(line, capture), edit=text)
            for row, item, text in zip(table.rows(), done, own(line).edits, strict=True)
        ]
        return Result(rows)

    options = asdict(asked) | {"edits": list(asked.edits)}
    job = Job("execute", EditRow, options, check, work)
    rows = over_prompts(job, question, prompts, out)
    count = len({row.line for row in rows})
    _finish(question, "execute", rows, rows, f"{len(rows)} executed on {count} prompts", out)


def capture_prompts(question: Question, prompts: Path, out: Path | None) -> None:
    """A capture of every prompt, saved beside its row."""

    def work(instrument: "Instrument", layers: Layers, one: Question, line: PromptLine) -> Result:
        from finite_calculus.models.storage import capture_files

        capture = capture_of(one, instrument, layers)
        files = capture_files(capture, CAPTURE)
        row = CaptureRow(
            **_of_prompt(line, capture),
            answer=str(one.answer),
            versus=str(one.versus),
            sha256=digest(files[CAPTURE]),
            file=f"units/line-{line.number:05d}/{CAPTURE}",
        )
        return Result([row], files)

    job = Job("capture", CaptureRow, {}, _check_sides, work)
    rows = over_prompts(job, question, prompts, out)
    _finish(question, "capture", rows, rows, f"{len(rows)} captured", out)


def _check_sides(instrument: "Instrument", one: Question, line: PromptLine) -> None:
    """Refuse an answer that is no single token; with neither answer nor versus the likeliest are compared."""
    from finite_calculus.models.margins import margin

    if one.answer is not None and one.versus is not None:
        vocabulary = instrument.model.config.get_text_config(decoder=True).vocab_size
        margin(*sides(one, instrument), vocabulary=vocabulary, tokenizer=instrument.tokenizer)
    elif one.answer is not None or one.versus is not None:
        raise ValueError("give both an answer and a versus, or neither.")


def _of_prompt(line: PromptLine, capture: "Capture") -> dict[str, Any]:
    tokens = {"prompt_tokens": len(capture.ids), "baseline": capture.baseline}
    return {**named(line), **tokens}


def _together_row(
    instrument: "Instrument", one: Question, line: PromptLine, asked: Asked, capture: "Capture"
) -> EditRow:
    layers, predicted, outcome = run_together(instrument, one, capture, asked)
    return EditRow(
        **_of_prompt(line, capture),
        layer=",".join(map(str, layers)),
        tokens="",
        text="",
        edit=" + ".join(asked.edits),
        predicted=predicted.effect,
        second=predicted.second,
        executed=outcome.effect,
        resolved=instrument.floor(capture).resolves(outcome.effect),
    )


def _passage_rows(
    instrument: "Instrument", layers: Layers, one: Question, line: PromptLine, asked: Asked
) -> list[EditRow]:
    passage, done = run_passage(instrument, one, layers, asked)
    floor = instrument.floor(passage)
    return [
        EditRow(
            **named(line),
            prompt_tokens=len(passage.ids),
            baseline=passage.baseline,
            layer=str(row.layer),
            tokens=",".join(map(str, row.tokens)),
            text="",
            edit=row.edit,
            predicted=row.predicted,
            second=row.second,
            executed=row.outcome.effect,
            resolved=floor.resolves(row.outcome.effect),
            **local_columns(row.local),
        )
        for row in done
    ]


def _finish(
    question: Question,
    command: str,
    rows: list[Any],
    shown: list[Any],
    title: str,
    out: Path | None,
) -> None:
    """Show some rows, say where all of them are, and save them as JSON if that was asked for."""
    show_prompts(title, shown)
    print(f"{len(rows)} rows in {Path(str(out)) / TABLE}")
    save_json(question.json_file, {**made(question), "over": command, "rows": saved_rows(rows)})
