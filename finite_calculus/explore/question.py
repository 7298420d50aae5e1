"""What is asked at one time: a captured prompt, its table, a donor, the stack of edits, what was done."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from finite_calculus.explore.grid import Grid, grid_of
from finite_calculus.explore.steps import Step
from finite_calculus.explore.wording import DONORS, KINDS, edit_of, kind_of, words
from finite_calculus.models import Capture, Edit
from finite_calculus.report.long_tables import packed
from finite_calculus.report.texts import visible
from finite_calculus.search import Family, ScoreTable, score


@dataclass(frozen=True, eq=False)
class Donor:
    """Another prompt of the same length, whose keys and values may be put in."""

    text: str
    capture: Capture
    tokens: tuple[str, ...]


@dataclass(eq=False)
class Question:
    """A captured prompt and what a person has done with it.

    An executed effect below `floor`, where there is one, is not resolved.
    """

    text: str
    capture: Capture
    tokenizer: Any
    floor: float | None = None
    donors: list[Donor] = field(default_factory=list)
    stack: tuple[str, ...] = ()
    before: list[tuple[str, ...]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    views: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rescore()

    def rescore(self) -> None:
        """Score every kind again: a new donor brings three more."""
        self.kinds = (*KINDS, *(f"{word}:1.0" for word in DONORS if self.donors))
        templates = tuple(kind_of(kind, self.donor) for kind in self.kinds)
        self.table: ScoreTable = score(self.capture, Family(templates), tokenizer=self.tokenizer)
        self.grid: Grid = grid_of(self.table, templates)
        self.views.clear()

    @property
    def donor(self) -> Capture | None:
        """The capture of the last donor."""
        return self.donors[-1].capture if self.donors else None

    def edits(self, texts: Sequence[str]) -> list[Edit]:
        """Edits from their texts, each with a layer that was captured."""
        edits = [edit_of(text, len(self.capture.ids), self.donor) for text in texts]
        for edit in edits:
            self.capture.layer(edit.layer)
        return edits

    def row(self, texts: Sequence[str]) -> int | None:
        """The row of the table that a single edit of one token is, if it is one."""
        if len(texts) != 1:
            return None
        word, place, tokens, *amount = texts[0].split(":")
        kind = _key(word, amount)
        if not place.isdigit() or not tokens.isdigit():
            return None
        kinds = [_key(*_split(each)) for each in self.kinds]
        if kind not in kinds:
            return None
        layer = self.capture.numbers.index(int(place))
        row = int(self.grid.row[kinds.index(kind), layer, int(tokens)])
        return None if row < 0 else row

    def change(self, stack: Sequence[str]) -> None:
        """Put another stack in the place of this one, which `undo` brings back."""
        self.before.append(self.stack)
        self.stack = tuple(stack)

    def state(self, model: str, *, chat: bool) -> dict[str, Any]:
        """Everything that the page shows, as plain data."""
        capture, donor = self.capture, self.donors[-1] if self.donors else None
        answer, versus = (
            self.tokenizer.decode([i]) for i in (capture.margin.answer, capture.margin.versus)
        )
        return {
            "model": visible(model),
            "chat": chat,
            "prompt": self.text,
            "answer": visible(answer),
            "versus": visible(versus),
            "baseline": capture.baseline,
            "logits": capture.logits.tolist(),
            "tokens": [visible(token) for token in self.table.text],
            "layers": capture.numbers,
            "heads": [layer.heads for layer in capture.layers],
            "kinds": list(self.kinds),
            "words": words(self.donor),
            "effects": pack(self.grid.effect),
            "views": {name: pack(view) for name, view in self.views.items()},
            "calibrated": self._calibrated(),
            "donor": None
            if donor is None
            else {
                "prompt": donor.text,
                "baseline": donor.capture.baseline,
                "tokens": [visible(token) for token in donor.tokens],
            },
            "stack": list(self.stack),
            "undo": len(self.before),
            "steps": [step.shown() for step in self.steps],
        }

    def _calibrated(self) -> dict[str, Any] | None:
        """The level of the band, and 1 where the grid may be trusted."""
        beyond = self.table.downstream
        if beyond is None or beyond.calibrated is None:
            return None
        done = beyond.calibrated
        trusted = torch.where(self.grid.row >= 0, done.trusted[self.grid.row].double(), torch.nan)
        return {"level": done.level, "trusted": pack(trusted)}


def pack(array: Tensor) -> str:
    """Numbers for the page, as long tables are packed."""
    return packed(array.double().flatten().numpy().astype("<f8"))


def _split(kind: str) -> tuple[str, list[str]]:
    word, *amount = kind.split(":")
    return word, amount


def _key(word: str, amount: list[str]) -> tuple[str, float | None]:
    return word, float(amount[0]) if amount else None
