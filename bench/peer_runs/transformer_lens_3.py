"""TransformerLens 3: HookedTransformer from the edited layer upwards, by `start_at_layer`."""

import copy
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformer_lens import HookedTransformer, loading_from_pretrained as loading
from transformer_lens.cache.key_value_cache import TransformerLensKeyValueCache

from bench.peer_runs.shared import BATCH, LAYER, PeerEdit, Plain, Way, margin, measure, put

KEYS, VALUES = f"blocks.{LAYER}.attn.hook_k", f"blocks.{LAYER}.attn.hook_v"


def ways(plain: Plain) -> dict[str, Way]:
    # What HookedTransformer.from_pretrained does, which takes only names of a list without this model.
    config = loading.get_pretrained_model_config(plain.directory, device="cpu")
    model: Any = HookedTransformer(config)
    model.load_and_process_state_dict(
        loading.get_pretrained_state_dict(plain.directory, config, plain.model),
        fold_ln=False,
        center_writing_weights=False,
        center_unembed=False,
        fold_value_biases=False,
    )
    below = model(plain.ids, stop_at_layer=LAYER)
    cache = TransformerLensKeyValueCache.init_cache(model.cfg, "cpu")
    model(plain.ids[:, :-1], past_kv_cache=cache, return_type=None)
    cache.freeze()
    hooks = partial(with_hooks, model, below)
    return {
        "alone": Way(hooks, 1),
        "batched": Way(hooks, BATCH),
        "cached": Way(partial(on_cache, model, below, cache), BATCH, last_query=True),
    }


def with_hooks(model: Any, below: Tensor, edits: list[PeerEdit]) -> Tensor:
    """From the residual stream below the layer, with hooks on its keys and values."""
    logits = model.run_with_hooks(
        below.expand(len(edits), -1, -1),
        start_at_layer=LAYER,
        fwd_hooks=[
            (KEYS, lambda output, hook: put(output, edits, "keys")),
            (VALUES, lambda output, hook: put(output, edits, "values")),
        ],
    )
    return margin(logits)


def on_cache(model: Any, below: Tensor, cache: Any, edits: list[PeerEdit]) -> Tensor:
    """The last token alone, from the layer upwards, over a patched copy of the layer's cache."""
    rows = len(edits)
    patched = copy.copy(cache)
    patched.entries = [copy.copy(entry) for entry in cache.entries]
    for entry in patched.entries[LAYER:]:
        entry.past_keys = entry.past_keys.expand(rows, -1, -1, -1)
        entry.past_values = entry.past_values.expand(rows, -1, -1, -1)
    layer = patched.entries[LAYER]
    layer.past_keys = put(layer.past_keys.clone(), edits, "keys")
    layer.past_values = put(layer.past_values.clone(), edits, "values")
    mask = torch.ones(rows, below.shape[1], dtype=torch.int)
    logits = model(
        below[:, -1:].expand(rows, 1, -1),
        start_at_layer=LAYER,
        attention_mask=mask,
        past_kv_cache=patched,
    )
    return margin(logits)


if __name__ == "__main__":
    measure("transformer-lens", ways)
