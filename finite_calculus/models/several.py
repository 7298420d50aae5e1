"""Counterfactuals that edit several layers at once: predicted from one capture, and executed.

Each layer's write is exact for the baseline's query, so first orders add. The second order has a term for
every layer and one for every pair. It leaves out that an edited upper layer is read with a query that the
lower edit has moved: that is of second order too, and needs the model; execution has it.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor

from finite_calculus.models.baseline import batch_baseline, skipping
from finite_calculus.models.capture import Capture
from finite_calculus.models.edits import Edit, edited_bank
from finite_calculus.models.execute import attend_edited
from finite_calculus.models.layer import LayerBank
from finite_calculus.models.predict import Prediction, predict
from finite_calculus.models.prompt import PreparedPrompt
from finite_calculus.models.session import (
    AttentionCall,
    Session,
    active,
    by_module,
    keep_call,
    keep_output,
)
from finite_calculus.models.support import Site
from finite_calculus.models.words import short_repr


@dataclass(frozen=True, eq=False)
class SeveralPrediction:
    """The exact writes of every edited layer, and the predicted effect of all of them together.

    `effect` adds the first orders. With curvature, `second` adds the second-order terms of each layer
    and `cross`, the terms between layers along the directions of both; else both are None.
    """

    __repr__ = short_repr

    layers: tuple[Prediction, ...]
    effect: float
    second: float | None
    cross: float | None


@dataclass(frozen=True)
class SeveralOutcome:
    """The executed change of the margin beside its control, the same row of an unedited batch."""

    margin: float
    control: float

    @property
    def effect(self) -> float:
        """The change towards the answer."""
        return self.margin - self.control


def by_layer(edits: Sequence[Edit]) -> dict[int, tuple[Edit, ...]]:
    """Edits of each layer in their order, layers ascending."""
    if not edits:
        raise ValueError("`edits` must hold at least one edit; got none.")
    numbers = sorted({edit.layer for edit in edits})
    return {n: tuple(edit for edit in edits if edit.layer == n) for n in numbers}


def predict_several(capture: Capture, edits: Sequence[Edit]) -> SeveralPrediction:
    """Predict a counterfactual that may edit several layers, without the model."""
    parts = tuple(predict(capture.layer(n), own) for n, own in by_layer(edits).items())
    effect = sum(part.effect for part in parts)
    bend = capture.curvature
    if bend is None:
        return SeveralPrediction(parts, effect, None, None)
    terms = sum(float(bend.second(p.layer, p.write.float()[None]).term) for p in parts)
    cross = bend.cross({part.layer: part.write.float() for part in parts})
    return SeveralPrediction(parts, effect, effect + terms + cross, cross)


def execute_several(
    prompt: PreparedPrompt, capture: Capture, counterfactuals: Sequence[Sequence[Edit]]
) -> tuple[SeveralOutcome, ...]:
    """Execute counterfactuals in one native batch, resumed at the lowest edited layer; row 0 is unedited."""
    if not counterfactuals:
        return ()
    rows = len(counterfactuals) + 1
    banks: dict[int, dict[int, LayerBank]] = {}
    for row, edits in enumerate(counterfactuals, start=1):
        layers = by_layer(edits)
        for place, (number, own) in enumerate(layers.items()):
            bank = edited_bank(capture.layer(number), own)
            if place:
                _check_upper(number, bank)
            banks.setdefault(number, {})[row] = bank

    def attend(site: Site, call: AttentionCall) -> Tensor:
        own = banks.get(site.layer, {})
        if not own:
            return site.eager(
                site.module, call.query, call.key, call.value, call.mask, **call.options
            )[0]
        layer = capture.layer(site.layer)
        return attend_edited(site, call, {row: (layer, bank) for row, bank in own.items()})

    unedited = batch_baseline(prompt, rows)
    session = Session(by_module(prompt.sites), keep_call, keep_output, attend)
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(skipping(prompt.sites[: min(banks)], unedited.layers))
        stack.enter_context(active(session))
        margins: Tensor = capture.margin.of(prompt.run_last(rows=rows).double().cpu())
    controls = capture.margin.of(unedited.logits.double().cpu())
    return tuple(SeveralOutcome(float(margins[r]), float(controls[r])) for r in range(1, rows))


def _check_upper(number: int, bank: LayerBank) -> None:
    """An upper layer's last token has a key and value that the lower edit moved: they are not the bank's."""
    if bool(bank.changed[-1]):
        raise ValueError(
            f"Edits of layer {number} must leave the key and value of the last token as they are, "
            f"because an edit below moves them; got one that replaces them. Edit other tokens there."
        )
