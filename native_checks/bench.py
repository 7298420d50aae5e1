"""What the native checks share: one captured prompt, a battery of edits, and their execution."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

from torch import Tensor

from finite_calculus.models import (
    Capture,
    Execution,
    Instrument,
    LayerCapture,
    LogProbability,
    Margin,
    Odds,
    Passage,
    PassageOutcome,
    ScaleValues,
)
from finite_calculus.models.edits import Edits, registered_edits
from finite_calculus.models.edits.base import attended_tokens
from finite_calculus.models.kernels import Kernels
from finite_calculus.models.noise import margin_budget
from finite_calculus.models.precision import FLOAT32, computed_in_float32, precision_of
from native_checks.replays import Replay, replays_of


@dataclass(frozen=True, eq=False)
class Bench:
    """An attached instrument with a prompt and a margin; the rest is computed on first use.

    `given_budget` stands in for that of the model's own precision, while it computes in float32 (`finely`).
    """

    instrument: Instrument
    ids: Tensor
    answer: int
    versus: int
    batch: int
    given_budget: float | None = None

    @cached_property
    def capture(self) -> Capture:
        """All layers of the prompt."""
        return self.instrument.capture(self.ids, answer=self.answer, versus=self.versus)

    def kernels(self, layer: LayerCapture) -> Kernels | None:
        """What a captured layer was computed with: one row, its keys in any layout."""
        site = self.instrument.support.sites[layer.layer]
        return Kernels.of(site.projection, 1, packed=False)

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
    def passage(self) -> Passage:
        """The last two queries, which both see an edit."""
        objective = LogProbability((self.answer, self.versus))
        return self.instrument.passage(self.ids, objective)

    @cached_property
    def passage_edits(self) -> tuple[Edits, ...]:
        """Odds and values of two tokens that both queries attend to, at every layer."""
        first, second = self.passage.start - 1, self.passage.start - 2
        return tuple(
            (Odds(queries[0].layer, (first,), 3.0), ScaleValues(queries[0].layer, (second,)))
            for queries in self.passage.layers
        )

    @cached_property
    def passage_outcomes(self) -> tuple[PassageOutcome, ...]:
        """Those edits, executed."""
        edits, batch = self.passage_edits, self.batch
        return self.instrument.execute_passage(self.passage, edits, batch=batch)

    @cached_property
    def replays(self) -> tuple[Replay, ...]:
        """Every layer's own attention, to be run again on edited tensors."""
        prompt = self.instrument.prompt(self.ids)
        return replays_of(prompt, self.capture.layers, self.donor.layers)

    @cached_property
    def affine_replays(self) -> tuple[Replay, ...]:
        """Those whose queries are affine in the head input, with scores that are not capped."""
        return tuple(
            replay
            for replay in self.replays
            if replay.layer.query_weight is not None and replay.layer.softcap is None
        )

    @property
    def not_affine(self) -> str:
        """Why no layer has effective weights, where none has."""
        return self.capture.layers[0].not_affine or "softcap"

    @cached_property
    def budget(self) -> float:
        """Rounding of one margin, to first order and with high probability."""
        if self.given_budget is not None:
            return self.given_budget
        model, sites = self.instrument.model, self.instrument.support.sites
        return margin_budget(model, sites, self.ids, Margin(self.answer, self.versus))

    @contextmanager
    def finely(self) -> Iterator["Bench"]:
        """This bench, or one of the same weights computed with in float32 where that is finer."""
        precision = precision_of(self.instrument.model.dtype)
        if not precision.half:
            yield self
            return
        budget = self.budget * FLOAT32.unit / precision.unit
        self.instrument.forget()
        try:
            with computed_in_float32(self.instrument.model):
                yield replace(self, given_budget=budget)
        finally:
            self.instrument.forget()


def battery(layer: LayerCapture, donor: LayerCapture) -> list[Edits]:
    """The examples of every edit that there is, and a composition of two, at one layer."""
    edits = [item for edit in registered_edits() for item in edit.examples(layer, donor)]
    tokens, i = attended_tokens(layer), layer.layer
    return [*edits, (ScaleValues(i, tokens[:2], 0.5), Odds(i, tokens[-2:], 2.0))]


def idle_edits(layer: LayerCapture) -> list[Edits]:
    """Edits that leave every tensor as it is."""
    tokens = (layer.tokens[-2],)
    return [item for edit in registered_edits() for item in edit.idle_examples(layer, tokens)]
