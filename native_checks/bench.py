"""What the native checks share: one captured prompt, a battery of edits, and their execution."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from finite_calculus.models import (
    Capture,
    Delete,
    Edit,
    Execution,
    Instrument,
    KeyShift,
    LayerCapture,
    Odds,
    Quantise,
    QueryEdit,
    Replace,
    ScaleValues,
)
from finite_calculus.models.edits import Edits
from native_checks.budget import margin_budget


@dataclass(frozen=True, eq=False)
class Bench:
    """An attached instrument with a prompt and a margin; the rest is computed on first use."""

    instrument: Instrument
    ids: Tensor
    answer: int
    versus: int
    batch: int

    @cached_property
    def capture(self) -> Capture:
        """All layers of the prompt."""
        return self.instrument.capture(self.ids, answer=self.answer, versus=self.versus)

    @cached_property
    def donor(self) -> Capture:
        """All layers of a prompt of the same length with other tokens in its second half."""
        ids = self.ids.clone()
        half = ids.shape[0] // 2
        ids[half:-1] = ids[half:-1].flip(0).roll(1)
        return self.instrument.capture(ids, answer=self.answer, versus=self.versus)

    @cached_property
    def edits(self) -> tuple[Edits, ...]:
        """One edit of each kind, and a composition, at every layer."""
        pairs = zip(self.capture.layers, self.donor.layers, strict=True)
        return tuple(edit for layer, donor in pairs for edit in battery(layer, donor))

    @cached_property
    def idle(self) -> tuple[Edits, ...]:
        """Edits that change nothing, at every layer."""
        return tuple(edit for layer in self.capture.layers for edit in idle_edits(layer))

    @cached_property
    def resumed(self) -> Execution:
        """The battery, executed from the edited layer upwards."""
        return self.instrument.execute(self.capture, self.edits, batch=self.batch)

    @cached_property
    def whole(self) -> Execution:
        """The battery, executed through the whole model."""
        return self.instrument.execute(self.capture, self.edits, batch=self.batch, path="whole")

    @cached_property
    def shared(self) -> Execution:
        """The battery, executed on the fast path."""
        return self.instrument.execute(self.capture, self.edits, batch=self.batch, path="shared")

    @cached_property
    def budget(self) -> float:
        """Rounding of one margin, to first order and with high probability."""
        return margin_budget(self.instrument, self.ids, self.capture.margin)


def battery(layer: LayerCapture, donor: LayerCapture) -> list[Edits]:
    """Every kind of edit at one layer, on tokens that it attends to, the last one among them."""
    seen = [layer.first + int(i) for i in layer.attended.nonzero().squeeze(-1)]
    i, early, late = layer.layer, tuple(seen[:2]), tuple(seen[-2:])
    generator = torch.Generator().manual_seed(i)
    nudge = torch.randn(layer.query.shape, generator=generator) * 0.1 * layer.query.std()
    single: list[Edit] = [
        Replace(i, tuple(seen[:-1]), donor),
        Replace(i, late, donor, strength=0.5, values=False),
        Odds(i, early, 3.0),
        Odds(i, late, 0.2, heads=(layer.heads - 1,)),
        Delete(i, early),
        ScaleValues(i, early),
        Quantise(i, tuple(seen), 4),
        QueryEdit(i, (), nudge),
    ]
    if layer.rotary is not None:
        single.append(KeyShift(i, early, 3.0))
    return [*single, (ScaleValues(i, early, 0.5), Odds(i, late, 2.0))]


def idle_edits(layer: LayerCapture) -> list[Edits]:
    """Edits that leave every tensor as it is."""
    tokens, i = (layer.tokens[-2],), layer.layer
    edits: list[Edits] = [
        Odds(i, tokens, 1.0),
        ScaleValues(i, tokens, 1.0),
        Replace(i, tokens, layer),
    ]
    if layer.rotary is not None:
        edits.append(KeyShift(i, tokens, 0.0))
    return edits
