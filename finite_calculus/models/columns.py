"""Many counterfactuals of one layer, each as a bank of the key columns alone that it touches.

Edits act on each of their columns by itself, so that equal edits of different tokens are applied at
once, on all their columns side by side, and taken apart again: a thousand spans cost a few tensor
operations instead of some ten each. An edit that somebody else defined may look at any column: its
whole bank is made first.
"""

from collections.abc import Sequence
from dataclasses import fields, replace

import torch
from torch import Tensor

from finite_calculus.models.edits import (
    Delete,
    Edit,
    Edits,
    KeyShift,
    Odds,
    Quantise,
    QueryEdit,
    Replace,
    Restore,
    ScaleValues,
    applied,
    as_tuple,
    edited_bank,
)
from finite_calculus.models.layer import Bank, LayerCapture

# Deletion looks at what is left of the whole row, a query edit at no column.
_BY_COLUMN = (KeyShift, Replace, Odds, ScaleValues, Quantise, Restore)
_OWN = (*_BY_COLUMN, Delete, QueryEdit)


def edited_columns(layer: LayerCapture, counterfactuals: Sequence[Edits]) -> list[Bank]:
    """The banks after each counterfactual, of the columns that it touches."""
    alike: dict[tuple[object, ...], list[int]] = {}
    given = [as_tuple(edits) for edits in counterfactuals]
    for index, edits in enumerate(given):
        alike.setdefault(_likeness(index, edits), []).append(index)
    banks: dict[int, Bank] = {}
    for indices in alike.values():
        if len(indices) == 1:
            banks[indices[0]] = _one(layer, given[indices[0]])
        else:
            banks |= zip(indices, _together(layer, [given[i][0] for i in indices]), strict=True)
    return [banks[index] for index in range(len(given))]


def _likeness(index: int, edits: tuple[Edit, ...]) -> tuple[object, ...]:
    """Equal for single edits that differ in nothing but their tokens; tensors count by identity."""
    edit = edits[0]
    # Tokens named twice would be edited once alone and twice side by side.
    distinct = len(set(edit.tokens)) == len(edit.tokens)
    if len(edits) > 1 or type(edit) not in _BY_COLUMN or not edit.tokens or not distinct:
        return (index,)
    values = (getattr(edit, field.name) for field in fields(edit) if field.name != "tokens")
    return (type(edit), *(v if isinstance(v, int | float | tuple) else id(v) for v in values))


def _together(layer: LayerCapture, edits: list[Edit]) -> list[Bank]:
    """Equal edits applied side by side."""
    sizes = [len(edit.tokens) for edit in edits]
    tokens = tuple(token for edit in edits for token in edit.tokens)
    bank = applied(layer, (replace(edits[0], tokens=tokens),), layer.bank(_columns(layer, tokens)))
    parts = zip(
        bank.keys.split(sizes, 1),
        bank.values.split(sizes, 1),
        bank.bias.split(sizes, 1),
        bank.changed.split(sizes),
        bank.removed.split(sizes),
        _columns(layer, tokens).split(sizes),
        strict=True,
    )
    return [Bank(bank.query, *part) for part in parts]


def _one(layer: LayerCapture, edits: tuple[Edit, ...]) -> Bank:
    if all(type(edit) in _OWN for edit in edits):
        tokens = sorted({token for edit in edits for token in edit.tokens})
        return applied(layer, edits, layer.bank(_columns(layer, tokens)))
    bank = edited_bank(layer, edits)
    touched = (bank.changed | bank.removed | (bank.bias != 0).any(0)).nonzero().squeeze(-1)
    return Bank(
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
