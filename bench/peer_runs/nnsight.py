"""nnsight: traces that skip the layers below the edited one and set its keys and values."""

from functools import partial
from typing import Any

from nnsight import NNsight
from torch import Tensor

from bench.peer_runs.shared import BATCH, LAYER, PeerEdit, Plain, Way, margin, measure, put


def ways(plain: Plain) -> dict[str, Way]:
    below = plain.below
    model: Any = NNsight(plain.model)
    traced = partial(trace, model, plain.ids, below)
    cached = partial(trace_on_cache, model, plain, below[:, -1:])
    return {
        "alone": Way(traced, 1),
        "batched": Way(traced, BATCH),
        "cached": Way(cached, BATCH, last_query=True),
    }


def trace(model: Any, ids: Tensor, below: Tensor, edits: list[PeerEdit]) -> Tensor:
    """`below` is what enters the edited layer."""
    rows, entering = ids.expand(len(edits), -1), below.expand(len(edits), -1, -1)
    with model.trace(input_ids=rows, use_cache=False):
        for layer in model.model.layers[:LAYER]:
            layer.skip(entering)
        attention = model.model.layers[LAYER].self_attn
        attention.k_proj.output = put(attention.k_proj.output, edits, "keys")
        attention.v_proj.output = put(attention.v_proj.output, edits, "values")
        logits = model.output.logits.save()
    return margin(logits)


def trace_on_cache(model: Any, plain: Plain, below: Tensor, edits: list[PeerEdit]) -> Tensor:
    """The last token alone, from the edited layer upwards, over a patched prefix cache."""
    rows, entering = plain.ids[:, -1:].expand(len(edits), 1), below.expand(len(edits), -1, -1)
    with model.trace(input_ids=rows, past_key_values=plain.cache(edits)):
        for layer in model.model.layers[:LAYER]:
            layer.skip(entering)
        logits = model.output.logits.save()
    return margin(logits)


if __name__ == "__main__":
    measure("nnsight", ways)
