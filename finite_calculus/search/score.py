"""Scoring a family from one capture: every candidate's predicted effect, without another model call.

`prepare_search` does what all strengths share; `PreparedSearch.score` evaluates every candidate. The
numbers are exact for the edited attention write, contracted with the baseline gradient: what the rest
of the network makes of it is a prediction, which execution checks. A capture with curvature adds the
second order downstream.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from finite_calculus.models import Capture
from finite_calculus.models.edits import Edits
from finite_calculus.models.layer import Wrap
from finite_calculus.models.spans import check_places
from finite_calculus.models.words import short_repr
from finite_calculus.search.block import Block, Places, block_of, effects_of
from finite_calculus.search.downstream import with_downstream
from finite_calculus.search.families import Family, token_family
from finite_calculus.search.listed import listed_part
from finite_calculus.search.stack import Stack, stacks_of, untracked
from finite_calculus.search.table import Part, ScoreTable, table_of


@dataclass(frozen=True, eq=False)
class PreparedSearch:
    """A family at a capture: blocks of candidates with their increments and statistics."""

    __repr__ = short_repr

    capture: Capture
    family: Family
    blocks: tuple[Block, ...]
    tokenizer: Any = None

    def __len__(self) -> int:
        """Number of candidates."""
        return sum(layers * groups for layers, groups in (block.shape for block in self.blocks))

    def score(self) -> ScoreTable:
        """The table of all candidates."""
        parts = [Part.of_block(block, effects_of(block)) for block in self.blocks]
        return _bent(table_of(self.capture, parts, tokenizer=self.tokenizer), self.blocks)


def score(
    capture: Capture,
    family: Family | Sequence[Edits] | None = None,
    *,
    dtype: torch.dtype = torch.float64,
    tokenizer: Any = None,
) -> ScoreTable:
    """Score every candidate of a family, or of a list of edits; default: the paper's instrument."""
    if family is None or isinstance(family, Family):
        return prepare_search(capture, family, dtype=dtype, tokenizer=tokenizer).score()
    return _bent(table_of(capture, [listed_part(capture, family)], tokenizer=tokenizer))


def prepare_search(
    capture: Capture,
    family: Family | None = None,
    *,
    dtype: torch.dtype = torch.float64,
    tokenizer: Any = None,
    wrap: Wrap = untracked,
) -> PreparedSearch:
    """Contract values with the gradient, prepare complements and form increments, once."""
    chosen = token_family() if family is None else family
    for place in chosen.places or ():
        check_places("places", place, capture)
    stacks = stacks_of(capture, dtype=dtype, wrap=wrap)
    blocks = [block for stack in stacks for block in _blocks(stack, chosen, wrap)]
    if not blocks:
        raise ValueError(
            "`family` must have a candidate at the captured layers; it has none. Its places must be "
            "attended tokens, and positional kinds need rotary layers."
        )
    return PreparedSearch(capture, chosen, tuple(blocks), tokenizer)


def _bent(table: ScoreTable, blocks: Sequence[Block] = ()) -> ScoreTable:
    """With the second order, if the capture has curvature."""
    return table if table.capture.curvature is None else with_downstream(table, blocks)


def _blocks(stack: Stack, family: Family, wrap: Wrap) -> list[Block]:
    shared: dict[bytes, list[Places]] = {}
    blocks = []
    for kind in family.kinds:
        usable = stack.columns
        for layer in stack.layers:
            usable = usable[kind.allowed(layer)[usable]]
        key = usable.numpy().tobytes()
        if key not in shared:
            groups = family.columns(stack.layers[0].first, usable)
            shared[key] = [Places(stack, columns) for columns in groups if len(columns)]
        for places in shared[key]:
            blocks.append(block_of(kind, places, wrap=wrap))
    return blocks
