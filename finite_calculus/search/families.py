"""Families of candidates: which kinds of edits, at which tokens. Data, not objects per candidate.

A kind is an edit without a place (`Odds.anywhere(64)`); its increments at all tokens of a layer follow
from one edited bank, and no candidate needs an object of its own.

The kinds of Appendix H are those of `finite_calculus.models.kinds`; spans, sweeps and donors are the same
family with other kinds or places.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from finite_calculus.models import Capture, Edit, Odds, Replace
from finite_calculus.models.edits import Tokens
from finite_calculus.models.kinds import (
    MULTIPLIERS as MULTIPLIERS,
    SHIFT as SHIFT,
    TOKEN_KINDS as TOKEN_KINDS,
)


@dataclass(frozen=True)
class Family:
    """Every kind at every place: single tokens, all spans of `width` tokens, or the `places` given.

    `places` are groups of token indices; groups of different length are kept apart by length.
    """

    kinds: tuple[Edit, ...] = TOKEN_KINDS
    width: int = 1
    places: tuple[Tokens, ...] | None = None

    def __post_init__(self) -> None:
        if not self.kinds:
            raise ValueError("`kinds` must hold at least one kind of edit; got none.")
        whole = [type(kind).__name__ for kind in self.kinds if not kind.by_column]
        if whole:
            raise ValueError(
                f"`kinds` must act on each token by itself (by_column); {whole[0]} does not. "
                f"Score such edits as a list."
            )
        parts = [
            kind for kind in self.kinds if kind.heads is not None and not isinstance(kind, Odds)
        ]
        if parts:
            raise ValueError(
                f"`kinds` must act on all heads, but for Odds; {type(parts[0]).__name__} names heads "
                f"{parts[0].heads}. Score such edits as a list."
            )
        if self.width < 1:
            raise ValueError(f"`width` must be at least 1 token; got {self.width}.")
        if self.places is not None and not all(len(set(p)) == len(p) > 0 for p in self.places):
            raise ValueError(
                "`places` must be groups of distinct tokens, none of them empty; got "
                f"{next(p for p in self.places if len(set(p)) != len(p) or not p)}."
            )

    def columns(
        self, first: int, usable: Int[Tensor, " columns"]
    ) -> list[Int[Tensor, "groups members"]]:
        """Groups of usable key columns, one tensor for each length of group."""
        if self.places is None:
            return [_spans(usable, self.width)]
        columns = set(usable.tolist())
        groups: dict[int, list[list[int]]] = {}
        for place in self.places:
            inside = [token - first for token in place]
            if columns.issuperset(inside):
                groups.setdefault(len(inside), []).append(inside)
        return [torch.tensor(rows) for rows in groups.values()]


def token_family() -> Family:
    """The paper's instrument: fifteen kinds at every token (Appendix H)."""
    return Family()


def span_family(width: int, *, kinds: Iterable[Edit] = TOKEN_KINDS) -> Family:
    """The same kinds at every span of `width` consecutive tokens."""
    return Family(tuple(kinds), width=width)


def sweep_family(multipliers: Iterable[float], *, width: int = 1) -> Family:
    """Odds multiplied at many strengths."""
    return Family(tuple(Odds.anywhere(value) for value in multipliers), width=width)


def donor_family(
    donor: Capture,
    *,
    strengths: Iterable[float] = (1.0,),
    width: int = 1,
    places: tuple[Tokens, ...] | None = None,
) -> Family:
    """Replacement by a donor prompt's keys and values: keys alone, values alone and both."""
    sides = ((True, False), (False, True), (True, True))
    kinds = tuple(Replace.anywhere(donor, s, k, v) for s in strengths for k, v in sides)
    return Family(kinds, width=width, places=places)


def _spans(usable: Tensor, width: int) -> Tensor:
    """Every run of `width` consecutive usable columns."""
    if len(usable) < width:
        return usable.new_zeros(0, width)
    runs = usable.unfold(0, width, 1)
    return runs[runs[:, -1] - runs[:, 0] == width - 1]
