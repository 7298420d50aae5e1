"""Many counterfactuals of one layer, each as a bank of the key columns alone that it touches.

Edits that act on each of their columns by themselves (`Edit.by_column`) are applied at once where they
are equal but for their tokens, on all their columns side by side, and taken apart again: a thousand
spans cost a few tensor operations instead of some ten each. Any other edit may look at any column: its
whole bank is made first.
"""

from collections.abc import Sequence
from dataclasses import fields, replace

import torch
from torch import Tensor

from finite_calculus.models.edits import (
    Edit,
    Edits,
    apply_edits,
    as_tuple,
    check_bank,
    edited_bank,
)
from finite_calculus.models.layer import LayerBank, LayerCapture


def edited_columns(layer: LayerCapture, counterfactuals: Sequence[Edits]) -> list[LayerBank]:
    """The banks after each counterfactual, of the columns that it touches."""
    alike: dict[tuple[object, ...], list[int]] = {}
    tuples = [as_tuple(edits) for edits in counterfactuals]
    for index, edits in enumerate(tuples):
        alike.setdefault(_likeness(index, edits), []).append(index)
    banks: dict[int, LayerBank] = {}
    for indices in alike.values():
        if len(indices) == 1:
            banks[indices[0]] = _touched(layer, tuples[indices[0]])
        else:
            sides = _side_by_side(layer, [tuples[i][0] for i in indices])
            banks |= zip(indices, sides, strict=True)
    return [banks[index] for index in range(len(tuples))]


def _likeness(index: int, edits: tuple[Edit, ...]) -> tuple[object, ...]:
    """Equal for single edits that differ in nothing but their tokens; tensors count by identity."""
    edit = edits[0]
    # Tokens named twice would be edited once alone and twice side by side.
    distinct = len(set(edit.tokens)) == len(edit.tokens)
    if len(edits) > 1 or not edit.by_column or not edit.tokens or not distinct:
        return (index,)
    values = (getattr(edit, field.name) for field in fields(edit) if field.name != "tokens")
    return (type(edit), *(v if isinstance(v, int | float | str | tuple) else id(v) for v in values))


def _side_by_side(layer: LayerCapture, edits: list[Edit]) -> list[LayerBank]:
    """Equal edits applied at once to the columns of all, which their banks share out."""
    sizes = [len(edit.tokens) for edit in edits]
    tokens = tuple(token for edit in edits for token in edit.tokens)
    columns = _columns(layer, tokens)
    # Not through apply_edits: what one deletes, the others still attend to.
    whole = layer.bank(columns)
    bank = layer.rounded(replace(edits[0], tokens=tokens).apply(layer, whole), whole)
    parts = zip(
        bank.keys.split(sizes, 1),
        bank.values.split(sizes, 1),
        bank.bias.split(sizes, 1),
        bank.changed.split(sizes),
        bank.removed.split(sizes),
        columns.split(sizes),
        strict=True,
    )
    banks = [LayerBank(bank.query, *part) for part in parts]
    for part in banks:
        check_bank(layer, part)
    return banks


def _touched(layer: LayerCapture, edits: tuple[Edit, ...]) -> LayerBank:
    if all(edit.by_column for edit in edits):
        tokens = sorted({token for edit in edits for token in edit.tokens})
        return apply_edits(layer, edits, layer.bank(_columns(layer, tokens)))
    bank = edited_bank(layer, edits)
    touched = (bank.changed | bank.removed | (bank.bias != 0).any(0)).nonzero().squeeze(-1)
    return LayerBank(
        bank.query,
        bank.keys[:, touched],
        bank.values[:, touched],
        bank.bias[:, touched],
        bank.changed[touched],
        bank.removed[touched],
        touched,
    )


def _columns(layer: LayerCapture, tokens: Sequence[int]) -> Tensor:
    return torch.tensor([layer.column(token) for token in tokens], dtype=torch.long)
