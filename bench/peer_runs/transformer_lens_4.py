"""TransformerLens 4: TransformerBridge with hooks, the whole model.

Its `start_at_layer` runs the layers below as well and discards what they give, so that it saves nothing.
"""

from functools import partial
from typing import Any

from torch import Tensor
from transformer_lens.model_bridge import TransformerBridge

from bench.peer_runs.shared import BATCH, LAYER, PeerEdit, Plain, Way, margin, measure, put

KEYS, VALUES = f"blocks.{LAYER}.attn.hook_k", f"blocks.{LAYER}.attn.hook_v"


def ways(plain: Plain) -> dict[str, Way]:
    model: Any = TransformerBridge.boot_transformers(plain.directory, device="cpu")
    hooks = partial(with_hooks, model, plain.ids)
    return {"alone": Way(hooks, 1), "batched": Way(hooks, BATCH)}


def with_hooks(model: Any, ids: Tensor, edits: list[PeerEdit]) -> Tensor:
    logits = model.run_with_hooks(
        ids.expand(len(edits), -1),
        fwd_hooks=[
            (KEYS, lambda output, hook: put(output, edits, "keys")),
            (VALUES, lambda output, hook: put(output, edits, "values")),
        ],
    )
    return margin(logits)


if __name__ == "__main__":
    measure("transformer-lens", ways)
