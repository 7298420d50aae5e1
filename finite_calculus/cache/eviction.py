"""Evicting cache entries under a write-distortion budget for the current query: Appendix G.

The plan is exact for the current query's write at each layer on its own; future queries need their own
evaluation, and layers evicted together act on one another downstream. The deletions can be kept
installed while text is generated.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from finite_calculus.deletion import select_evictions
from finite_calculus.models import Capture, Delete, Instrument, LayerCapture, Outcome
from finite_calculus.models.comparison import LocalCheck, local_check
from finite_calculus.models.sinks import null_sink
from finite_calculus.models.spans import check_places


@dataclass(frozen=True, eq=False)
class Eviction:
    """What was evicted at one layer.

    `distortions` are ‖Δo‖₂ after each eviction, never above `budget`; `write` = ‖o‖₂. `local` and
    `effect`, the executed change of the margin, are there after `execute_evictions`.
    """

    layer: int
    tokens: tuple[int, ...]
    distortions: tuple[float, ...]
    budget: float
    write: float
    local: LocalCheck | None = None
    effect: float | None = None

    @property
    def edit(self) -> Delete | None:
        """The deletion, to execute or to keep installed; None if nothing was evicted."""
        return Delete(self.layer, tuple(sorted(self.tokens))) if self.tokens else None


def evict(
    capture: Capture,
    budget: float,
    *,
    layers: Sequence[int] | None = None,
    relative: bool = False,
    protect: Sequence[int] = (),
    groups: Sequence[tuple[int, ...]] | None = None,
) -> tuple[Eviction, ...]:
    """Plan evictions at each layer: as many groups as ‖Δo‖₂ ≤ budget allows, greedily.

    `relative` makes the budget a fraction of ‖o‖₂. Groups are single tokens unless given; those that
    touch `protect` or the query's own token are kept.
    """
    numbers = [layer.layer for layer in capture.layers] if layers is None else list(layers)
    check_places("protect", protect, capture)
    for group in groups or ():
        check_places("groups", group, capture)
    protected = {*protect, len(capture.ids) - 1}
    return tuple(
        _plan(capture.layer(layer), budget, relative, protected, groups) for layer in numbers
    )


def execute_evictions(
    instrument: Instrument, capture: Capture, plans: Sequence[Eviction]
) -> tuple[Eviction, ...]:
    """The plans with what the model did, each layer on its own."""
    edits = [plan.edit for plan in plans]
    deletions = [edit for edit in edits if edit is not None]
    outcomes = iter(instrument.execute(capture, deletions).outcomes if deletions else ())
    return tuple(
        plan if edit is None else _executed(plan, edit, next(outcomes))
        for plan, edit in zip(plans, edits, strict=True)
    )


def _executed(plan: Eviction, edit: Delete, outcome: Outcome) -> Eviction:
    return replace(plan, local=local_check(edit, outcome), effect=outcome.effect)


def _plan(
    layer: LayerCapture,
    budget: float,
    relative: bool,
    protected: set[int],
    groups: Sequence[tuple[int, ...]] | None,
) -> Eviction:
    write = float(torch.linalg.vector_norm(layer.write.double()))
    allowed = budget * write if relative else budget
    places = [(t,) for t in layer.tokens] if groups is None else list(groups)
    usable = [place for place in places if _usable(layer, place, protected)]
    if not usable:
        return Eviction(layer.layer, (), (), allowed, write)
    readout = layer.readout()
    rows = torch.zeros(len(usable), layer.keys.shape[1], dtype=torch.bool)
    for row, place in zip(rows, usable, strict=True):
        row[[layer.column(token) for token in place]] = True
    rows = null_sink(rows, layer.sinks)
    plan = select_evictions(readout, rows, layer.output_projection.double(), allowed)
    tokens = tuple(token for index in plan.evicted for token in usable[index])
    return Eviction(layer.layer, tokens, plan.distortions, allowed, write)


def _usable(layer: LayerCapture, place: tuple[int, ...], protected: set[int]) -> bool:
    if protected.intersection(place):
        return False
    return all(t in layer.tokens and bool(layer.attended[t - layer.first]) for t in place)
