"""Keys and values that a cache holds as latents (MLA), from which each pass makes those of all heads anew.

The attention function gets keys and values of every head, the rotated part of a key at its end and shared by
the heads, and edits are of these: of one layer's expanded keys and values, not of the latent that they come
from. Each row of a batch expands the whole prefix by itself, so that its own keys are all of them, where
another model's row has only those of its new tokens.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from finite_calculus.models.layer import LayerCapture
from finite_calculus.models.precision import widened
from finite_calculus.models.prompt import PreparedPrompt
from finite_calculus.models.session import AttentionCall
from finite_calculus.models.support import Site, keeps_latents


def prefix_bank(prompt: PreparedPrompt, site: Site) -> tuple[Tensor, Tensor]:
    """Keys and values of the prefix as the attention of a layer reads them; latents are expanded once."""
    stored = prompt.prefix.layers[site.layer]
    if stored.keys is None or stored.values is None:
        raise ValueError("The prefix must hold keys and values to be shared; it holds none.")
    if not keeps_latents(site.module):
        return stored.keys, stored.values
    expanded = prompt.prefix.expanded
    if site.layer not in expanded:
        expanded[site.layer] = expand(site.module, stored.keys, stored.values)
    return expanded[site.layer]


def expand(module: nn.Module, latents: Tensor, rotated: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values of all heads, as the model itself makes them of its latents."""
    own: Any = module
    keys, values = own.expand_kv(latents, rotated)
    return keys.detach(), values.detach()


def with_prefix(site: Site, call: AttentionCall, keys: Tensor, values: Tensor) -> AttentionCall:
    """A call with new tokens alone, after the prefix where that is of the row's own making; row 0 alone."""
    if not keeps_latents(site.module):
        return call
    key, value = (
        torch.cat([prefix, new[:1]], 2) for prefix, new in ((keys, call.key), (values, call.value))
    )
    return replace(call, key=key, value=value)


def in_rows(
    site: Site, captures: Sequence[LayerCapture], call: AttentionCall, rows: slice
) -> list[tuple[LayerCapture, ...]]:
    """The captures of a layer's last queries with the tensors of rows of a call, as these rounded them."""
    count = len(captures)
    own = call.key.shape[2] if keeps_latents(site.module) else count
    query, keys, values = (
        x[rows].detach().cpu()
        for x in (call.query[:, :, -count:], call.key[:, :, -own:], call.value[:, :, -own:])
    )
    return [_in_row(captures, *row) for row in zip(query, keys, values, strict=True)]


def _in_row(
    captures: Sequence[LayerCapture], query: Tensor, keys: Tensor, values: Tensor
) -> tuple[LayerCapture, ...]:
    last = captures[-1].with_last_tokens(query[:, -1], keys, values)
    return tuple(
        replace(
            capture, query=widened(query[:, i].contiguous()), keys=last.keys, values=last.values
        )
        for i, capture in enumerate(captures)
    )
