"""The affine features of one head: s_j = uᵀa_j over its keys and its sink (eq:identity).

Effective weights, requested ratios and attention-preserving directions are all read from them. They
exist where the query is affine in the head input and scores are not capped.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.effective import (
    EffectiveWeights,
    affine_features,
    augment,
    effective_weights,
    mean_key_gauge,
)
from finite_calculus.models.layer import LayerBank, LayerCapture
from finite_calculus.models.sinks import null_sink, sink_mask
from finite_calculus.rotary import Rotary


def head_features(
    layer: LayerCapture, head: int, bank: LayerBank | None = None
) -> Float[Tensor, "keys inputs"]:
    """Score features of one head over the keys of a bank, the last column for the bias of the input.

    A sink is one more row: its score does not depend on the input and lives in the bias column alone.
    Without that row its share of attention would count as kept whatever the input does.
    """
    if head not in range(layer.heads):
        raise ValueError(f"`head` must lie in 0..{layer.heads - 1}; got {head}.")
    if layer.softcap is not None:
        raise ValueError(
            f"Effective weights and ratios need scores linear in the query; layer {layer.layer} caps "
            f"them at {layer.softcap}. There is no such representation."
        )
    _, query_weight = layer.query_map()
    keys = layer.keys if bank is None else bank.keys
    features = affine_features(
        head_rotary(layer),
        query_weight[head].double(),
        None if layer.query_bias is None else layer.query_bias[head].double(),
        keys[layer.group(head)].double(),
        layer.position,
        scaling=layer.scaling * layer.rotary_scaling,
    )
    features = null_sink(features, layer.sinks, dim=0)
    if layer.sinks is not None:
        features[-1, -1] = layer.sinks[head].double()
    return features


def head_weights(layer: LayerCapture, head: int, *, gauge: str = "mean") -> EffectiveWeights:
    """Effective weights of one head (eq:identity), in the mean-key or the original-score gauge.

    Refused where the query is not affine in the head input, or scores are capped.
    """
    head_input, _ = layer.query_map()
    features = head_features(layer, head)
    if gauge not in ("mean", "original"):
        raise ValueError(f"`gauge` must be 'mean' or 'original'; got {gauge!r}.")
    mask = sink_mask(layer.attended, layer.sinks)
    values = null_sink(layer.values[layer.group(head)].double(), layer.sinks, dim=0)
    chosen = mean_key_gauge(features, mask=mask) if gauge == "mean" else None
    return effective_weights(
        augment(head_input.double()), features, values, gauge=chosen, mask=mask
    )


def head_rotary(layer: LayerCapture) -> Rotary:
    """The layer's rotary operator; without one, that of no planes, which turns nothing."""
    still = Rotary(torch.zeros(0, dtype=torch.float64), layer.query.shape[1])
    return still if layer.rotary is None else layer.rotary
