"""Prediction of an edit from a captured layer alone: exact at y and at the projected write.

Increments are taken from the rounded tensors of the edited bank. The contraction with the gradient
(eq:marginprediction) predicts the margin downstream and bounds nothing there.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.deletion import deletion_response
from finite_calculus.effective import (
    EffectiveWeights,
    affine_features,
    augment,
    effective_weights,
    mean_key_gauge,
)
from finite_calculus.joint import JointResponse, decompose
from finite_calculus.margin import project
from finite_calculus.models.edits import Edits, edited_bank
from finite_calculus.models.layer import Bank, LayerCapture, head_products, repeat_groups
from finite_calculus.readout import freeze
from finite_calculus.response import finite_response
from finite_calculus.rotary import Rotary


@dataclass(frozen=True, eq=False)
class Prediction:
    """The exact local response to an edit, and the margin change that it predicts.

    `response` is Δy per head and `write` is Δo, both exact; `effect` = ⟨g_o, Δo⟩ is the predicted
    change of logit(answer) − logit(versus). `parts` splits Δy as K_f + V_0 + C_KV and is None when
    tokens are deleted, since their set of keys is another one.
    """

    layer: int
    response: Float[Tensor, "heads width"]
    write: Float[Tensor, " model"]
    effect: float
    parts: JointResponse | None


@dataclass(frozen=True, eq=False)
class Increments:
    """Score and value increments of an edited bank in float64, sinks included."""

    scores: Float[Tensor, "heads keys"]
    values: Float[Tensor, "heads keys width"]


def predict(layer: LayerCapture, edits: Edits) -> Prediction:
    """Predict one counterfactual at one captured layer."""
    return predict_bank(layer, edited_bank(layer, edits))


def predict_bank(layer: LayerCapture, bank: Bank) -> Prediction:
    """Predict the readout of an edited bank against the captured one."""
    change = increments(layer, bank)
    parts, base = None, layer.readout()
    if bool(bank.removed.any()):
        removed = bank.removed if layer.sinks is None else torch.cat([bank.removed, _FALSE])
        deletion = deletion_response(base, removed.unsqueeze(0)).squeeze(-2)
        rest = freeze(base.scores, base.values, mask=base.attended & ~removed)
        response = deletion + finite_response(rest, change.scores, change.values)
    else:
        parts = decompose(base, change.scores, change.values)
        response = parts.total
    write = project(response, layer.output_projection.double())
    effect = float(torch.dot(write, layer.gradient_write.double()))
    return Prediction(layer.layer, response, write, effect, parts)


def increments(layer: LayerCapture, bank: Bank) -> Increments:
    """d = q̃'k̃' − q̃k̃ from the differences of the rounded tensors, and ε = v' − v.

    Under a softcap, cap(s') − cap(s) = cap·tanh((s' − s)/cap)·(1 − tanh(s/cap) tanh(s'/cap)), which
    does not cancel; it is not additive over bands.
    """
    query, keys = layer.query.double(), layer.keys.double()
    moved = bank.keys.double() - keys
    d = head_products(query, moved) + head_products(bank.query.double() - query, keys + moved)
    d = d * layer.scaling
    if layer.softcap is not None:
        before = head_products(query, keys) * layer.scaling / layer.softcap
        step = d / layer.softcap
        d = torch.tanh(step) * (1 - torch.tanh(before) * torch.tanh(before + step)) * layer.softcap
    d = d + bank.bias.double()
    values = repeat_groups(bank.values.double() - layer.values.double(), layer.heads)
    if layer.sinks is not None:
        d = torch.cat([d, torch.zeros_like(d[:, :1])], -1)
        values = torch.cat([values, torch.zeros_like(values[:, :1])], -2)
    return Increments(d, values)


def head_weights(layer: LayerCapture, head: int, *, gauge: str = "mean") -> EffectiveWeights:
    """Effective weights of one head (eq:identity), in the mean-key or the original-score gauge.

    Refused where the query is not affine in the head input, or scores are capped.
    """
    head_input, query_weight = layer.query_map()
    if layer.softcap is not None:
        raise ValueError(
            f"Effective weights need scores linear in the query; layer {layer.layer} caps them at "
            f"{layer.softcap}. There is no such representation."
        )
    if gauge not in ("mean", "original"):
        raise ValueError(f"`gauge` must be 'mean' or 'original'; got {gauge!r}.")
    group = head // (layer.heads // layer.keys.shape[0])
    width = layer.query.shape[1]
    rotary = layer.rotary or Rotary(torch.zeros(0, dtype=torch.float64), width)
    keys, values = layer.keys[group].double(), layer.values[group].double()
    features = affine_features(
        rotary,
        query_weight[head].double(),
        None if layer.query_bias is None else layer.query_bias[head].double(),
        keys,
        layer.position,
        scaling=layer.scaling * layer.rotary_scaling,
    )
    mask = layer.attended
    if layer.sinks is not None:
        # The sink's score does not depend on x: it lives in the bias coordinate alone.
        null = torch.zeros_like(features[:1])
        null[0, -1] = layer.sinks[head].double()
        features, mask = torch.cat([features, null]), torch.cat([mask, ~_FALSE])
        values = torch.cat([values, torch.zeros_like(values[:1])])
    chosen = mean_key_gauge(features, mask=mask) if gauge == "mean" else None
    return effective_weights(
        augment(head_input.double()), features, values, gauge=chosen, mask=mask
    )


_FALSE = torch.zeros(1, dtype=torch.bool)
