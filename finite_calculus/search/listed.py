"""Edits given one by one: combinations, queries, anything that is not a kind at a place.

Each is predicted on its own by `finite_calculus.models.predict`, dense and exact; use a `Family` for
thousands. Combinations of disjoint edits at one layer are listed edits too.
"""

from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor

from finite_calculus.margin import contract
from finite_calculus.models import Capture, Prediction
from finite_calculus.models.edits import Edits, as_tuple
from finite_calculus.search.table import Part, ScoreTable


def listed_part(capture: Capture, edits: Sequence[Edits]) -> Part:
    """Predicted effects of listed edits and their parts."""
    if not edits:
        raise ValueError("`family` must hold at least one edit; got an empty list.")
    rows = [_row(capture, edit) for edit in edits]
    total, key, value, interaction = torch.tensor(rows, dtype=torch.float64).unbind(-1)
    return Part(
        layers=torch.tensor([as_tuple(edit)[0].layer for edit in edits]),
        tokens=None,
        kind=None,
        listed=tuple(edits),
        effect=total,
        key=key,
        value=value,
        interaction=interaction,
    )


def combine(table: ScoreTable, rows: Sequence[int], *, size: int = 2) -> list[Edits]:
    """All combinations of `size` rows that edit disjoint tokens of one layer, as edits to score."""
    if size < 2:
        raise ValueError(f"`size` must be at least 2, the edits of a combination; got {size}.")
    candidates = [(table.row(index), table.edit(index)) for index in rows]
    edits: list[Edits] = []
    for chosen in combinations(candidates, size):
        tokens = [token for row, _ in chosen for token in row.tokens]
        one_layer = len({row.layer for row, _ in chosen}) == 1
        if one_layer and len(set(tokens)) == len(tokens):
            edits.append(tuple(part for _, edit in chosen for part in as_tuple(edit)))
    return edits


def _row(capture: Capture, edit: Edits) -> list[float]:
    """Effect, key, value and interaction; with deletions all of it counts as the key's."""
    predicted = capture.predict(edit)
    if predicted.parts is None:
        return [predicted.effect, predicted.effect, 0.0, 0.0]
    parts = predicted.parts
    split = [_effect(capture, predicted, p) for p in (parts.key, parts.value, parts.interaction)]
    return [predicted.effect, *split]


def _effect(capture: Capture, predicted: Prediction, response: Tensor) -> float:
    layer = capture.layer(predicted.layer)
    weights = layer.output_projection.double()
    return float(contract(response, weights, layer.gradient_write.double()))
