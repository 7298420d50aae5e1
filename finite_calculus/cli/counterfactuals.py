"""What `finite-calculus execute` does: edits each on its own, all at once, or seen by several queries."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

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
from finite_calculus.cli.rows import LOCAL_COLUMNS, local_cells, row_entry, show_rows, tell_floor

if TYPE_CHECKING:
    from finite_calculus.models import (
        Capture,
        Edit,
        Instrument,
        LocalCheck,
        Passage,
        PassageOutcome,
        SeveralOutcome,
        SeveralPrediction,
    )
    from finite_calculus.search import ExecutedRow, ScoreTable

_OBJECTIVES = ("margin", "log-probability", "divergence")


@dataclass(frozen=True)
class Asked:
    """What is to be executed: edits as text, the objective, who sees them, and whether all at once."""

    edits: tuple[str, ...]
    objective: str = "margin"
    readers: str | None = None
    together: bool = False

    @property
    def passage(self) -> bool:
        """Whether several queries are read or see the edits."""
        return self.objective != "margin" or self.readers is not None

    def check(self, question: Question) -> None:
        """Refuse what does not go together, before anything is loaded."""
        answer, versus = question.answer, question.versus
        if not self.edits:
            raise ValueError("give at least one --edit, as in --edit delete:1:3.")
        if self.objective not in _OBJECTIVES:
            raise ValueError(
                f"--objective must be one of {', '.join(_OBJECTIVES)}; got {self.objective!r}."
            )
        if self.objective == "margin" and (answer is None) != (versus is None):
            raise ValueError("give both --answer and --versus, or neither.")
        if self.objective == "log-probability" and (answer is None or versus is not None):
            raise ValueError("--objective log-probability takes --answer and no --versus.")
        if self.objective == "divergence" and (answer is not None or versus is not None):
            raise ValueError("--objective divergence takes neither --answer nor --versus.")
        if self.together and self.passage:
            raise ValueError("--together takes the margin at the last query alone.")
        if question.curvature and self.passage:
            raise ValueError("--curvature is of the margin at the last query alone.")


def execute(question: Question, asked: Asked) -> None:
    """Execute, show and save what is asked of one prompt."""
    if asked.passage:
        _passage(question, asked)
    elif asked.together:
        _together(question, asked)
    else:
        _each(question, asked)


def run_each(
    instrument: "Instrument", question: Question, capture: "Capture", asked: Asked
) -> "tuple[ScoreTable, tuple[ExecutedRow, ...]]":
    """Each edit on its own at the last query: the table of predictions, and what was executed."""
    from finite_calculus.search import execute_rows, score

    edits = parsed(asked.edits, len(capture.ids), instrument, question)
    table = score(capture, edits, tokenizer=instrument.tokenizer)
    return table, execute_rows(instrument, table, range(len(table)), quiet=question.quiet)


def run_together(
    instrument: "Instrument", question: Question, capture: "Capture", asked: Asked
) -> "tuple[list[int], SeveralPrediction, SeveralOutcome]":
    """All edits as one counterfactual, of one layer or of several: layers, prediction, outcome."""
    from finite_calculus.models import predict_several

    edits = parsed(asked.edits, len(capture.ids), instrument, question)
    predicted = predict_several(capture, edits)
    (outcome,) = instrument.execute_several(capture, [edits])
    return [part.layer for part in predicted.layers], predicted, outcome


def run_passage(
    instrument: "Instrument", question: Question, layers: tuple[int, ...], asked: Asked
) -> "tuple[Passage, list[PassageRow]]":
    """Each edit on its own, seen by several queries."""
    from finite_calculus.models import local_check
    from finite_calculus.models.precision import precision_of

    passage = instrument.passage(
        question.text,
        _objective(instrument, question, asked.objective),
        readers=_readers(asked.readers),
        layers=layers,
    )
    edits = parsed(asked.edits, len(passage.ids), instrument, question)
    rows, smooth = [], not precision_of(instrument.model.dtype).half
    for text, edit, outcome in zip(
        asked.edits,
        edits,
        instrument.execute_passage(passage, edits, quiet=question.quiet),
        strict=True,
    ):
        predicted = passage.predict(edit).effect
        second = predicted + instrument.second_order(passage, edit) if smooth else None
        local = [local_check(edit, query) for query in outcome.queries]
        rows.append(PassageRow(text, edit.layer, edit.tokens, predicted, second, outcome, local))
    return passage, rows


@dataclass(frozen=True, eq=False)
class PassageRow:
    """An edit of a passage: predicted to first and second order, executed, and each query's local check.

    There is no second order in half precision.
    """

    edit: str
    layer: int
    tokens: tuple[int, ...]
    predicted: float
    second: float | None
    outcome: "PassageOutcome"
    local: "list[LocalCheck]"


def parsed(
    texts: tuple[str, ...], tokens: int, instrument: "Instrument", question: Question
) -> "list[Edit]":
    """Edits from their texts, for a prompt of so many tokens; places that the model lacks are refused."""
    from finite_calculus.search.specs import parse_edit

    edits = [
        parse_edit(text, tokens, find=lambda piece: instrument.span(question.text, piece))
        for text in texts
    ]
    count = len(instrument.support.sites)
    heads = instrument.model.config.get_text_config(decoder=True).num_attention_heads
    for text, edit in zip(texts, edits, strict=True):
        if edit.layer >= count:
            raise ValueError(f"LAYER must lie in 0..{count - 1}; got {edit.layer} in {text!r}.")
        if max(edit.heads or (0,)) >= heads:
            raise ValueError(f"HEADS must name heads in 0..{heads - 1}; got {text!r}.")
    return edits


def _each(question: Question, asked: Asked) -> None:
    with captured(question) as (instrument, capture):
        table, done = or_refuse(lambda: run_each(instrument, question, capture, asked))
        floor = instrument.floor(capture)
    print(headline(question, capture))
    by_row = {item.row.index: item for item in done}
    show_rows(f"{len(done)} executed", table.rows(), by_row, names=list(asked.edits), floor=floor)
    rows = [
        row_entry(row, by_row, floor) | {"edit": text}
        for row, text in zip(table.rows(), asked.edits, strict=True)
    ]
    tell_floor(floor, [item.effect for item in done])
    save_json(
        question.json_file,
        described(question, capture, objective="margin", noise_floor=floor.value, rows=rows),
    )


def _together(question: Question, asked: Asked) -> None:
    with captured(question) as (instrument, capture):
        layers, predicted, outcome = or_refuse(
            lambda: run_together(instrument, question, capture, asked)
        )
        floor = instrument.floor(capture)
    print(headline(question, capture))
    # The second order is there with --curvature; `cross` is the part of it between layers.
    bent = (
        {} if predicted.second is None else {"second": predicted.second, "cross": predicted.cross}
    )
    figures = {"predicted": predicted.effect, **bent}
    cells = [" ".join(map(str, layers)), *(f"{figure:+.4f}" for figure in figures.values())]
    cells.append(floor.cell(outcome.effect))
    show(f"{len(asked.edits)} edits at once", ["layers", *figures, "executed"], [cells])
    result = {"edits": asked.edits, "layers_edited": layers, "effect": predicted.effect, **bent}
    result |= {"executed": outcome.effect, "resolved": floor.resolves(outcome.effect)}
    result["margin"] = outcome.margin
    tell_floor(floor, [outcome.effect])
    save_json(
        question.json_file,
        described(question, capture, objective="margin", noise_floor=floor.value, together=result),
    )


def _passage(question: Question, asked: Asked) -> None:
    with attached(question) as (instrument, layers):
        question.say("capturing: the prefix, the queries that are read and one backward pass ...")
        passage, done = or_refuse(lambda: run_passage(instrument, question, layers, asked))
        floor = instrument.floor(passage)
    first, last = passage.readers.start, passage.readers.stop - 1
    print(
        f"{question.label}, {len(passage.ids)} tokens, {asked.objective} = {passage.baseline:+.4f}; edits "
        f"are seen by the queries {first}-{last}"
    )
    columns = ["edit", "predicted", "second", "executed", *LOCAL_COLUMNS]
    shown, rows = [], []
    for row in done:
        second = "" if row.second is None else f"{row.second:+.4f}"
        effect = floor.cell(row.outcome.effect)
        numbers = [f"{row.predicted:+.4f}", second, effect]
        worst = max(row.local, key=lambda check: check.error / max(check.bound, 1e-300))
        shown.append([row.edit, *numbers, *local_cells(worst)])
        executed = floor.entry(row.outcome.effect) | {"value": row.outcome.value}
        executed["local"] = [asdict(check) for check in row.local]
        rows.append(
            {"edit": row.edit, "effect": row.predicted, "second": row.second, "executed": executed}
        )
    show(f"{len(rows)} executed", columns, shown)
    tell_floor(floor, [row.outcome.effect for row in done])
    readers = [first, last]
    save_json(
        question.json_file,
        described(
            question,
            passage,
            objective=asked.objective,
            readers=readers,
            noise_floor=floor.value,
            rows=rows,
        ),
    )


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
