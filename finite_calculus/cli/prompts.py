"""`--prompts FILE`: a command over a file of prompts, one after the other, into one table.

The folder is a run directory as studies have it: every prompt is a unit that is written whole or not at all,
the same command goes on where it stopped, and other options, another model or other prompts are refused.
Prompts run one at a time, so that none is padded.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from finite_calculus.cli.progress import Units
from finite_calculus.cli.question import Question, in_chat, opened, or_refuse
from finite_calculus.harness import directory
from finite_calculus.harness.claims import claimed
from finite_calculus.harness.directory import RunRecord, StagePlan
from finite_calculus.harness.identity import Identity
from finite_calculus.harness.records import gather
from finite_calculus.harness.rows import Row, decode_rows, encode_rows, encode_table
from finite_calculus.harness.shards import commit, discard_part, parts_of, unit_words
from finite_calculus.provenance.digests import digest
from finite_calculus.provenance.files import replace_file
from finite_calculus.provenance.sources import source_digests
from finite_calculus.tasks.prompt_file import PromptLine, each_line, read_prompts

if TYPE_CHECKING:
    from finite_calculus.models import Instrument

ROWS = "rows"
TABLE = "table.parquet"
_CODE = ("finite_calculus.models", "finite_calculus.search", "finite_calculus.harness.rows")


@dataclass(frozen=True, eq=False)
class Result:
    """What came of one prompt: its rows, and files beside them."""

    rows: list[Any]
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Job:
    """A command over prompts: its rows, the options that change them, what to check and what to do.

    `check` refuses a prompt before any is run; `work` gets the model, the layers and the prompt's question.
    """

    command: str
    kind: type[Row]
    options: Mapping[str, Any]
    check: "Callable[[Instrument, Question, PromptLine], None]"
    work: "Callable[[Instrument, tuple[int, ...], Question, PromptLine], Result]"


def over_prompts(job: Job, question: Question, path: Path, out: Path | None) -> list[Any]:
    """Run a job over a file of prompts into a folder, or go on with it; all rows in the order of the file."""
    folder = _folder(question, out)
    lines = or_refuse(lambda: read_prompts(path))
    or_refuse(lambda: directory.require_free(folder))
    question.recorded = True
    with opened(question) as (instrument, layers):
        asked = or_refuse(lambda: _asked(job, question, instrument, path, lines))
        units = {f"line-{line.number:05d}": pair for line, pair in zip(lines, asked, strict=True)}
        plan = StagePlan(
            stage="prompts",
            units=tuple(units),
            manifest={name: digest(dataclasses.asdict(line)) for name, (_, line) in units.items()},
        )
        record = or_refuse(lambda: _begin(job, question, layers, folder, plan))
        survey = directory.survey(folder, record, plan)
        foreign = directory.foreign_entries(folder, record, [plan])
        or_refuse(lambda: directory.require_sound([*survey.problems, *foreign]))
        with Units(question.quiet, job.command) as report:
            report("", len(survey.done), len(units))
            for done, name in enumerate(survey.missing, start=len(survey.done) + 1):
                one, line = units[name]

                def work(one: Question = one, line: PromptLine = line) -> Result:
                    return job.work(instrument, layers, one, line)

                _run_unit(job, folder, record, name, line, work)
                report(name, done, len(units))
    return _finish(job, folder, tuple(units))


def _folder(question: Question, out: Path | None) -> Path:
    if question.prompt is not None or question.prompt_file is not None:
        raise typer.BadParameter("give one of --prompt, --prompt-file and --prompts.")
    if out is None:
        raise typer.BadParameter("--prompts needs --out, the folder of its table.")
    return out


def _asked(
    job: Job,
    question: Question,
    instrument: "Instrument",
    path: Path,
    lines: tuple[PromptLine, ...],
) -> tuple[tuple[Question, PromptLine], ...]:
    """The question of every line, each of them checked as far as that can be done without a run."""

    def asked(line: PromptLine) -> tuple[Question, PromptLine]:
        own = line.answer is not None or line.versus is not None
        one = replace(
            question,
            prompt=line.prompt,
            answer=line.answer if own else question.answer,
            versus=line.versus if own else question.versus,
            quiet=True,
        )
        one.text = in_chat(question, instrument.tokenizer, line.prompt)
        instrument.encode(one.text)
        job.check(instrument, one, line)
        return one, line

    return each_line(path, ((line.number, lambda line=line: asked(line)) for line in lines))


def _begin(
    job: Job, question: Question, layers: tuple[int, ...], folder: Path, plan: StagePlan
) -> RunRecord:
    settings = {
        "command": job.command,
        "layers": list(layers),
        "curvature": question.curvature,
        "chat": question.chat,
        "answer": question.answer,
        "versus": question.versus,
        **job.options,
    }
    sources = source_digests(dict.fromkeys(_CODE))
    identity = Identity(settings, plan.sha256, question.fingerprint, sources)
    directory.require_same(folder, job.command, identity)
    folder.mkdir(parents=True, exist_ok=True)
    record = directory.open_run(folder, job.command, identity)
    directory.keep_plan(folder, plan)
    return record


def _run_unit(
    job: Job,
    folder: Path,
    record: RunRecord,
    name: str,
    line: PromptLine,
    work: Callable[[], Result],
) -> None:
    """Compute one prompt and commit it, unless another process has it."""
    shard = folder / directory.UNITS / name
    with claimed(folder, name) as mine:
        if not mine or shard.exists():
            return
        for part in parts_of(shard):
            discard_part(part)
        try:
            result = work()
        except (ValueError, TypeError) as error:
            raise typer.BadParameter(
                f"line {line.number}: {error}\nFinished prompts are kept in {folder}."
            ) from None
        words = unit_words(job.command, name, record.fingerprint)
        files = {f"{ROWS}.parquet": encode_rows(result.rows, job.kind, **words), **result.files}
        commit(shard, files, fingerprint=record.fingerprint)


def _finish(job: Job, folder: Path, units: tuple[str, ...]) -> list[Any]:
    """Write the one table of all prompts and read its rows."""
    if not all((folder / directory.UNITS / name).exists() for name in units):
        raise typer.BadParameter(
            f"Another process is at work in {folder}; the last one to finish writes the table."
        )
    table = gather(folder, list(units))[ROWS]
    replace_file(folder / TABLE, encode_table(table))
    return decode_rows(table, job.kind)


def saved_rows(rows: list[Any]) -> list[dict[str, Any]]:
    """Rows as plain data."""
    return [json.loads(json.dumps(dataclasses.asdict(row))) for row in rows]
