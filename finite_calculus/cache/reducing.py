"""`with reducing(model, method):` a cache that really shrinks while the model generates.

After the prefill the method names what stays, row by row; the rest is freed. Every `every` tokens it decides
again from the running cache: the last queries are at hand, no prefill is repeated. Keys keep their rotation
and new tokens their positions. The cache belongs to `model.generate`: greedy, sampling and beams work
as ever. On exit the model is as it was; a cache made inside must not be used any more, its masks are ours.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import Cache, DynamicLayer

from finite_calculus.cache.methods import Kept, Method
from finite_calculus.cache.passing import passing
from finite_calculus.cache.reduced import ReducedLayer
from finite_calculus.cache.watching import Watcher
from finite_calculus.models import supported
from finite_calculus.models.session import AttentionCall
from finite_calculus.models.support import Site, UnsupportedModelError, require_kept_keys


@dataclass(eq=False)
class Reduction:
    """What happened inside the block: `plans` made, and `before` and `after` of the last one, in bytes."""

    method: Method
    plans: int = 0
    before: int = 0
    after: int = 0
    kept: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Of each layer at the last plan: how many entries of a group are stored, and how many tokens seen."""


@contextmanager
def reducing(model: PreTrainedModel, method: Method) -> Iterator[Reduction]:
    """Let caches that the model fills inside the block lose entries by a method."""
    sites = supported(model).sites
    require_kept_keys(sites, "A cache that shrinks")
    if all(DynamicCache(config=model.config).is_sliding):
        raise UnsupportedModelError(
            f"`model` must have a layer that keeps the whole text; all {len(sites)} have a sliding window, "
            f"which drops entries by itself."
        )
    running = _Running(model, sites, Reduction(method))
    hooks = [
        model.base_model.register_forward_pre_hook(running.begin, with_kwargs=True),
        model.base_model.register_forward_hook(running.end, with_kwargs=True),
    ]
    try:
        with passing(model, sites, running.look):
            yield running.reduction
    finally:
        for hook in hooks:
            hook.remove()


class _Running:
    """The hooks of one block."""

    def __init__(
        self, model: PreTrainedModel, sites: tuple[Site, ...], reduction: Reduction
    ) -> None:
        self.reduction, self.cache = reduction, None
        self.watcher = Watcher(sites, reduction.method.queries)

    def begin(self, module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        """Know the cache of the coming pass."""
        self.cache: Cache | None = kwargs.get("past_key_values")

    def look(self, site: Site, call: AttentionCall) -> AttentionCall:
        """Give a reduced layer the mask over what it holds, and keep the last queries."""
        layer = None if self.cache is None else self.cache.layers[site.layer]
        if not isinstance(layer, ReducedLayer):
            return self.watcher.see(site, call)
        layer.watch(call.query, self.watcher.queries)
        mask = layer.mask_of(call)
        return AttentionCall(call.query, call.key, call.value, mask, call.options)

    def end(self, module: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:
        """After the prefill, and every so often, let go of entries."""
        cache = getattr(output, "past_key_values", None)
        if cache is None:
            return
        fresh = [n for n, layer in enumerate(cache.layers) if _is_full(layer)]
        for number in fresh:
            cache.layers[number] = self.watcher.layer(number)
        self.watcher.forget()
        layers = {n: x for n, x in enumerate(cache.layers) if isinstance(x, ReducedLayer)}
        method = self.reduction.method
        due = [x for x in layers.values() if method.every and x.since >= method.every]
        if layers and (fresh or due):
            self._plan(layers)

    @torch.no_grad()
    def _plan(self, layers: dict[int, ReducedLayer]) -> None:
        first = next(iter(layers.values()))
        before = sum(layer.bytes for layer in layers.values())
        rows = [self._row(layers, row) for row in range(first.tokens.shape[0])]
        for layer, kept in zip(layers.values(), zip(*rows, strict=True), strict=True):
            layer.keep(torch.stack(kept).to(layer.tokens.device))
            layer.since = 0
        done = self.reduction
        done.plans += 1
        done.before, done.after = before, sum(layer.bytes for layer in layers.values())
        done.kept = {n: (layer.tokens.shape[2], layer.seen) for n, layer in layers.items()}

    def _row(self, layers: dict[int, ReducedLayer], row: int) -> list[Kept]:
        windows = [self.watcher.window(number, layer, row) for number, layer in layers.items()]
        return self.reduction.method.plan(windows, next(iter(layers.values())).seen)


def _is_full(layer: Any) -> bool:
    """Whether a cache layer holds every token and may be reduced; sliding layers drop theirs anyway."""
    keys: Tensor | None = getattr(layer, "keys", None)
    kind = isinstance(layer, DynamicLayer) and not isinstance(layer, ReducedLayer)
    return kind and not layer.is_sliding and keys is not None and keys.numel() > 0
