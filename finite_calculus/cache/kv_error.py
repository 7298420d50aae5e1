"""What a transform of the cache does to every layer and head: exact, split, certified, executed.

The entries before the last token are transformed, layer by layer on its own. The change of each head's write
is exact for each query of the window and is the sum of a key part, a value part and their interaction
(main:joint). The certificate is that of the last query: how far the exact local score may lie from its first
order. What the model then does is executed, never derived.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

import finite_calculus as fc
from finite_calculus.cache.eviction import divergence as next_token_divergence
from finite_calculus.cache.records import Transform, transformed
from finite_calculus.cache.window import QueryWindow
from finite_calculus.margin import norm
from finite_calculus.models import Capture, Instrument
from finite_calculus.models.layer import repeat_groups
from finite_calculus.models.prefix import SharedLayer
from finite_calculus.models.sinks import null_sink, sink_mask, sink_scores


@dataclass(frozen=True)
class HeadError:
    """One head's share of the change, means of ‖·‖₂ over the queries, and the last query's certificate.

    `write` = ‖Δy_h W_h‖; `key`, `value` and `interaction` are its exact parts. `divergence` is the largest
    KL(p‖p') of the queries. `first_order` and `bound` speak of the margin through this head's write.
    """

    layer: int
    head: int
    write: float
    key: float
    value: float
    interaction: float
    divergence: float
    first_order: float
    bound: float


@dataclass(frozen=True)
class LayerError:
    """One layer: ‖Δo‖/‖o‖ of each query, exact, and what the model did with this layer alone transformed."""

    layer: int
    relative: tuple[float, ...]
    effect: float
    divergence: float
    heads: tuple[HeadError, ...]

    @property
    def mean(self) -> float:
        """The mean over the queries."""
        return sum(self.relative) / len(self.relative)


@dataclass(frozen=True)
class CacheError:
    """All layers, heaviest first, and the executed effect of all of them together."""

    layers: tuple[LayerError, ...]
    effect: float
    divergence: float


def cache_error(
    instrument: Instrument,
    capture: Capture,
    windows: Sequence[QueryWindow],
    transform: Transform,
) -> CacheError:
    """What a transform does to the cache of the captured prompt, whose windows `watch` gives."""
    altered = altered_caches(windows, transform)
    ordinary = _run(instrument, capture, {})
    layers = []
    for window in windows:
        after = altered[window.layer]
        relative, heads = _exact(window, after, capture)
        logits = _run(instrument, capture, {window.layer: after})
        layers.append(
            LayerError(
                window.layer,
                tuple(relative.tolist()),
                float(capture.margin.of(logits) - capture.margin.of(ordinary)),
                next_token_divergence(ordinary, logits),
                tuple(sorted(heads, key=lambda head: -head.write)),
            )
        )
    together = _run(instrument, capture, altered)
    return CacheError(
        tuple(sorted(layers, key=lambda layer: -layer.mean)),
        float(capture.margin.of(together) - capture.margin.of(ordinary)),
        next_token_divergence(ordinary, together),
    )


def altered_caches(
    windows: Sequence[QueryWindow], transform: Transform
) -> dict[int, tuple[Tensor, Tensor]]:
    """Keys and values of each layer with all but the last token's transformed."""
    return {window.layer: _altered(window, transform) for window in windows}


def _altered(window: QueryWindow, transform: Transform) -> tuple[Tensor, Tensor]:
    keys, values = transformed(transform, window.keys[:, :-1], window.values[:, :-1], window.layer)
    return (
        torch.cat([keys, window.keys[:, -1:]], 1),
        torch.cat([values, window.values[:, -1:]], 1),
    )


def _exact(
    window: QueryWindow, after: tuple[Tensor, Tensor], capture: Capture
) -> tuple[Float[Tensor, " queries"], Iterable[HeadError]]:
    """Relative changes of the queries' writes, and the heads' shares."""
    changed = replace(window, keys=after[0], values=after[1])
    mask = window.head_mask()
    score_delta = (changed.scores() - window.scores()).masked_fill(~mask, 0.0)
    score_delta = null_sink(score_delta, window.sinks)
    before = null_sink(repeat_groups(window.values.double(), window.heads), window.sinks, dim=-2)
    edited = null_sink(repeat_groups(after[1].double(), window.heads), window.sinks, dim=-2)
    readout = fc.freeze(
        sink_scores(window.scores(), window.sinks),
        before.expand(window.count, -1, -1, -1),
        mask=sink_mask(mask, window.sinks),
    )
    value_delta = (edited - before).expand_as(readout.values)
    parts = fc.decompose(readout, score_delta, value_delta)
    weight = window.output_projection.double()
    total = parts.key + parts.value + parts.interaction
    relative = norm(fc.project(total, weight)) / window.sizes()
    sizes = {
        name: torch.einsum("qhw,hwm->qhm", part, weight).norm(dim=-1).mean(0)
        for name, part in (
            ("write", total),
            ("key", parts.key),
            ("value", parts.value),
            ("interaction", parts.interaction),
        )
    }
    divergence = fc.divergence(readout, score_delta).amax(0)
    last = fc.freeze(readout.scores[-1], readout.values[-1], mask=readout.attended[-1])
    gradient = fc.head_gradient(weight, capture.layer(window.layer).gradient_write.double())
    certificate = fc.certify(last, score_delta[-1], value_delta[-1], gradient)
    return relative, [
        HeadError(
            layer=window.layer,
            head=head,
            divergence=float(divergence[head]),
            first_order=float(certificate.first_order[head]),
            bound=float(certificate.bound[head]),
            **{name: float(size[head]) for name, size in sizes.items()},
        )
        for head in range(window.heads)
    ]


def _run(
    instrument: Instrument, capture: Capture, altered: dict[int, tuple[Tensor, Tensor]]
) -> Float[Tensor, " vocabulary"]:
    """Logits of the last token after a prefix with other keys and values in some layers."""
    prompt = instrument.prompt(capture.ids)
    layers = []
    for number, layer in enumerate(prompt.prefix.layers):
        source = layer
        if number in altered:
            source, place = DynamicLayer(), prompt.prefix.device_of(number)
            source.update(*(stored[None, :, :-1].to(place) for stored in altered[number]))
        layers.append(SharedLayer(source))
    with torch.no_grad():
        output = prompt.model(
            input_ids=prompt.prefix.last, past_key_values=Cache(layers=layers), use_cache=True
        )
    return output.logits[0, -1].double().cpu()
