"""What `finite-calculus score` does with a captured prompt: score, certify, calibrate, execute."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from finite_calculus.cli.question import Question, in_chat, prompt_text, token

if TYPE_CHECKING:
    from finite_calculus.models import Capture, Instrument
    from finite_calculus.search import ExecutedRow, Family, ScoreRow, ScoreTable, Verification
    from finite_calculus.search.table import Side


@dataclass(frozen=True, eq=False)
class Ranked:
    """All candidates of a prompt, the first of them, and what was executed, by row."""

    table: "ScoreTable"
    rows: "tuple[ScoreRow, ...]"
    done: "dict[int, ExecutedRow]"
    check: "Verification | None"


@dataclass(frozen=True)
class Ranking:
    """Which candidates there are, how they are scored, and how many of the first are executed."""

    top: int
    towards: str
    execute: int
    budget: int | None
    span: int
    odds: tuple[float, ...] | None
    donor_file: Path | None
    certify: bool
    sample: bool
    single: bool

    @property
    def by(self) -> str:
        """The order of the rows."""
        return "certain" if self.sample else "predicted"

    @property
    def side(self) -> "Side":
        """The direction of the ranking."""
        return cast("Side", self.towards)

    def of(self, instrument: "Instrument", question: Question, capture: "Capture") -> Ranked:
        """The ranking of a captured prompt."""
        import torch

        from finite_calculus.search import calibrate, certify_table, score

        table = score(
            capture,
            self._family(instrument, question, capture),
            dtype=torch.float32 if self.single else torch.float64,
            tokenizer=instrument.tokenizer,
        )
        if self.certify:
            question.say(f"certifying {len(table)} candidates ...")
            table = certify_table(table)
        if self.sample:
            question.say("executing a sample ...")
            table = calibrate(instrument, table)
        done, check = self._executed(instrument, table, question.quiet)
        rows = table.topk(max(self.top, self.execute), by=self.by, towards=self.side)
        return Ranked(table, rows, done, check)

    def _family(self, instrument: "Instrument", question: Question, capture: "Capture") -> "Family":
        from finite_calculus.search import donor_family, span_family, sweep_family

        if self.odds is not None:
            return sweep_family(self.odds, width=self.span)
        if self.donor_file is None:
            return span_family(self.span)
        text = prompt_text(replace(question, prompt=None, prompt_file=self.donor_file))
        text = in_chat(question, instrument.tokenizer, text)
        donor = instrument.capture(
            text,
            answer=token(str(question.answer)),
            versus=token(str(question.versus)),
            layers=capture.numbers,
        )
        if len(donor.ids) != len(capture.ids):
            raise ValueError(
                f"The donor must have the prompt's {len(capture.ids)} tokens; it has {len(donor.ids)}. "
                f"Choose words of equal token length."
            )
        return donor_family(donor, width=self.span)

    def _executed(
        self, instrument: "Instrument", table: "ScoreTable", quiet: bool
    ) -> "tuple[dict[int, ExecutedRow], Verification | None]":
        from finite_calculus.search import execute_rows, verify_top

        if not self.execute:
            return {}, None
        if self.budget is None:
            order = table.order(self.execute, by=self.by, towards=self.side)
            done = execute_rows(instrument, table, order, quiet=quiet)
            return {item.row.index: item for item in done}, None
        check = verify_top(
            instrument, table, self.execute, budget=self.budget, towards=self.side, quiet=quiet
        )
        return {item.row.index: item for item in check.executed}, check


def strengths(odds: str | None, donor_file: Path | None) -> tuple[float, ...] | None:
    """The numbers of --odds; refused beside a donor, or if one is no number."""
    if odds is None:
        return None
    if donor_file is not None:
        raise typer.BadParameter("Give --odds or --donor-file, not both.")
    try:
        return tuple(float(piece) for piece in odds.split(","))
    except ValueError:
        raise typer.BadParameter(f"--odds must be numbers, as in 2,8,32; got {odds!r}.") from None


def require_side(towards: str) -> str:
    """The direction of a ranking, which must be one of three."""
    if towards not in ("either", "answer", "versus"):
        raise typer.BadParameter(f"--towards must be answer, versus or either; got {towards!r}.")
    return towards
