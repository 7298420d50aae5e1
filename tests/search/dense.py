"""The effect of one edit by the definition of the core, dense over all keys, with its error bound."""

from dataclasses import replace

import torch
from torch import Tensor

import finite_calculus as fc
from finite_calculus.models import Capture, LayerCapture, edited_bank
from finite_calculus.models.edits import Edits
from finite_calculus.models.layer import head_products, repeat_groups


def dense_effect(layer: LayerCapture, edits: Edits) -> Tensor:
    """⟨g, Σ_h Δy_h W_{o,h}⟩, tracked from the captured tensors on; for edits that delete nothing.

    Layers with capped scores or sinks are outside of it.
    """
    bank = edited_bank(layer, edits)
    query, keys = fc.track(layer.query.double()), fc.track(layer.keys.double())
    moved = fc.track(bank.keys.double()) - keys
    scores = head_products(query, keys) * layer.scaling
    delta = head_products(query, moved) * layer.scaling + fc.track(bank.bias.double())
    before = repeat_groups(layer.values.double(), layer.heads)
    after = repeat_groups(bank.values.double(), layer.heads)
    values, value_delta = fc.track(before), fc.track(after) - fc.track(before)
    readout = fc.freeze(scores, values, mask=layer.attended.expand(layer.heads, -1))
    weights = fc.track(layer.output_projection.double())
    write = fc.project(fc.finite_response(readout, delta, value_delta), weights)
    return (write * fc.track(layer.gradient_write.double())).sum(-1)


def one_layer(capture: Capture, layer: int) -> Capture:
    """The capture of one layer alone."""
    return replace(capture, layers=(capture.layer(layer),))


def sample(count: int, size: int, seed: int = 0) -> list[int]:
    """Distinct row numbers, drawn with a seed."""
    return torch.randperm(size, generator=torch.Generator().manual_seed(seed))[:count].tolist()
