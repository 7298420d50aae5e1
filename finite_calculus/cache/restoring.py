"""Restoring quantised cache entries by their exact benefit: Section 4 and Appendix G (eq:repairbenefit).

The prefix of a layer is quantised, and entries are put back one at a time, each the one that reduces
the squared error of the current query's write the most. Benefits are exact for that write; future
queries need their own evaluation. The edits can be kept installed while text is generated.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from finite_calculus.models import (
    Capture,
    Edit,
    Instrument,
    LayerCapture,
    Outcome,
    Quantise,
    Restore,
    edited_bank,
)
from finite_calculus.models.comparison import LocalCheck, local_check
from finite_calculus.models.layer import repeat_groups
from finite_calculus.models.sinks import null_sink, sink_mask, sink_scores
from finite_calculus.restoration import CachePair, Method, restore_greedily


@dataclass(frozen=True, eq=False)
class Repair:
    """What was quantised and restored at one layer.

    `errors` are ‖o − o_original‖₂ before any restoration and after each, `benefits` the exact reductions
    of squared error that chose the entries (other methods: their scores); `write` = ‖o_original‖₂.
    `local` and `effect`, the executed change of the margin with the quantised and partly restored
    cache, are there after `execute_repairs`.
    """

    layer: int
    bits: int
    quantised: tuple[int, ...]
    restored: tuple[int, ...]
    benefits: tuple[float, ...]
    errors: tuple[float, ...]
    write: float
    local: LocalCheck | None = None
    effect: float | None = None

    @property
    def edits(self) -> tuple[Edit, ...]:
        """Quantisation and restoration, to execute or to keep installed."""
        rounded = Quantise(self.layer, self.quantised, self.bits)
        if not self.restored:
            return (rounded,)
        return rounded, Restore(self.layer, tuple(sorted(self.restored)))

    @property
    def relative_error(self) -> float:
        """errors[-1]/errors[0] of eq:repairmetric; 1 if quantisation changed nothing."""
        return self.errors[-1] / self.errors[0] if self.errors[0] else 1.0


def restore(
    capture: Capture,
    bits: int,
    count: int,
    *,
    layers: Sequence[int] | None = None,
    method: Method = "exact",
    rescore: bool = True,
    generator: torch.Generator | None = None,
) -> tuple[Repair, ...]:
    """Quantise the prefix at each layer and restore `count` entries; the query's own stays exact."""
    numbers = [layer.layer for layer in capture.layers] if layers is None else list(layers)
    return tuple(
        _repair(capture.layer(layer), bits, count, method, rescore, generator) for layer in numbers
    )


def execute_repairs(
    instrument: Instrument, capture: Capture, repairs: Sequence[Repair]
) -> tuple[Repair, ...]:
    """The repairs with what the model did, each layer on its own."""
    outcomes = instrument.execute(capture, [repair.edits for repair in repairs]).outcomes
    return tuple(_executed(*pair) for pair in zip(repairs, outcomes, strict=True))


def quantised_pair(layer: LayerCapture, bits: int) -> CachePair:
    """The quantised prefix beside the original, over the attended keys of every head."""
    quantised = edited_bank(layer, Quantise(layer.layer, _prefix(layer), bits))
    attended = sink_mask(layer.attended, layer.sinks)
    sides = []
    for bank in (quantised, layer.bank()):
        values = repeat_groups(bank.values.double(), layer.heads)
        values = null_sink(values, layer.sinks, dim=-2)
        scores = sink_scores(layer.scores(bank), layer.sinks)
        sides += [scores[:, attended], values[:, attended]]
    return CachePair(*sides)


def _repair(
    layer: LayerCapture,
    bits: int,
    count: int,
    method: Method,
    rescore: bool,
    generator: torch.Generator | None,
) -> Repair:
    prefix = _prefix(layer)
    pair = quantised_pair(layer, bits)
    candidates = torch.arange(pair.scores.shape[-1]) < len(prefix)
    restoration = restore_greedily(
        pair,
        layer.output_projection.double(),
        count,
        method=method,
        rescore=rescore,
        candidates=candidates,
        generator=generator,
    )
    return Repair(
        layer=layer.layer,
        bits=bits,
        quantised=prefix,
        restored=tuple(prefix[key] for key in restoration.restored.tolist()),
        benefits=tuple(restoration.scores.tolist()),
        errors=tuple(restoration.errors.tolist()),
        write=float(torch.linalg.vector_norm(layer.write.double())),
    )


def _prefix(layer: LayerCapture) -> tuple[int, ...]:
    """Attended tokens before the query's own, which is the last column."""
    return tuple(layer.first + int(c) for c in layer.attended[:-1].nonzero().squeeze(-1))


def _executed(repair: Repair, outcome: Outcome) -> Repair:
    return replace(repair, local=local_check(repair.edits, outcome), effect=outcome.effect)
