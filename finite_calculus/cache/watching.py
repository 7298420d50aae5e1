"""The last queries of a running model, layer by layer, without gradients and without another prefill."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from finite_calculus.cache.passing import passing
from finite_calculus.cache.reduced import ReducedLayer
from finite_calculus.cache.window import QueryWindow
from finite_calculus.models import supported
from finite_calculus.models.margins import prompt_ids
from finite_calculus.models.projections import projection_weights
from finite_calculus.models.session import AttentionCall
from finite_calculus.models.support import Site, require_kept_keys


class Watcher:
    """What attention calls showed: how a layer's scores are made, and the call of the last forward pass."""

    def __init__(self, sites: tuple[Site, ...], queries: int) -> None:
        if queries < 1:
            raise ValueError(f"`queries` must be at least 1; got {queries}.")
        self.sites, self.queries = {site.layer: site for site in sites}, queries
        self.calls: dict[int, AttentionCall] = {}
        self.facts: dict[int, tuple[float, dict[str, Any]]] = {}
        self._projections: dict[int, tuple[Tensor, Tensor | None]] = {}

    def see(self, site: Site, call: AttentionCall) -> AttentionCall:
        """Keep a call until `forget`."""
        self.calls[site.layer] = call
        self.facts[site.layer] = call.scaling, dict(call.options)
        return call

    def forget(self) -> None:
        """Let go of the calls, whose keys and values may be those of a cache that shrinks."""
        self.calls.clear()

    def layer(self, number: int) -> ReducedLayer:
        """A layer of the cache that still holds everything, from the call that filled it."""
        call = self.calls[number]
        recent = call.query[:, :, -self.queries :].detach().clone()
        return ReducedLayer(call.key, call.value, recent, _padding(call))

    def window(self, number: int, layer: ReducedLayer, row: int) -> QueryWindow:
        """The window of one row of a layer."""
        scaling, options = self.facts[number]
        if number not in self._projections:
            site, heads = self.sites[number], layer.recent.shape[1]
            self._projections[number] = projection_weights(site.projection, heads)
        projection, bias = self._projections[number]
        count = layer.recent.shape[2]
        positions = torch.arange(layer.seen - count, layer.seen, device=layer.tokens.device)
        tokens = layer.tokens[row]
        attended = tokens.unsqueeze(0) <= positions[:, None, None]
        softcap, sinks = options.get("softcap"), options.get("s_aux")
        return QueryWindow(
            layer=number,
            tokens=tokens.cpu(),
            queries=layer.recent[row].transpose(0, 1).detach().cpu(),
            keys=layer.keys[row].detach().cpu(),  # pyright: ignore[reportOptionalSubscript]
            values=layer.values[row].detach().cpu(),  # pyright: ignore[reportOptionalSubscript]
            attended=(attended & ~layer.padding[row][tokens]).cpu(),
            scaling=scaling,
            softcap=None if softcap is None else float(softcap),
            sinks=None if sinks is None else sinks.detach().reshape(-1).cpu(),
            output_projection=projection,
            write_bias=bias,
        )


def watch(
    model: PreTrainedModel,
    prompt: Sequence[int] | Tensor,
    *,
    queries: int = 16,
    layers: Sequence[int] | None = None,
) -> tuple[QueryWindow, ...]:
    """Run a prompt once and return the window of its last queries at each layer.

    Layers with a sliding window are left out: they drop entries by themselves.
    """
    sites = supported(model).sites
    require_kept_keys(sites, "A window of the cache")
    ids = prompt_ids(
        prompt, vocabulary=model.config.get_text_config(decoder=True).vocab_size, tokenizer=None
    )
    watcher, cache = Watcher(sites, queries), DynamicCache(config=model.config)
    with torch.no_grad(), passing(model, sites, watcher.see):
        first = ids.unsqueeze(0).to(model.device)
        model.base_model(input_ids=first, past_key_values=cache, use_cache=True)
    numbers = range(len(sites)) if layers is None else layers
    return tuple(
        watcher.window(number, watcher.layer(number), 0)
        for number in numbers
        if not cache.layers[number].is_sliding  # pyright: ignore[reportAttributeAccessIssue]
    )


def _padding(call: AttentionCall) -> Tensor:
    """Tokens that the last query of each row does not attend to although they are before it."""
    rows, count = call.key.shape[0], call.key.shape[2]
    if call.mask is None:
        return torch.zeros(rows, count, dtype=torch.bool, device=call.key.device)
    last = call.mask[:, 0, -1, :count].expand(rows, -1)
    return ~last if last.dtype == torch.bool else last < 0
