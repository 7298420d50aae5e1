"""Prediction of an edit from a captured layer alone: exact at y and at the projected write.

Increments are taken from the rounded tensors of the edited bank. The contraction with the gradient
(eq:marginprediction) predicts the margin downstream and bounds nothing there.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.deletion import deletion_response
from finite_calculus.joint import JointResponse, decompose
from finite_calculus.margin import project
from finite_calculus.models.edits import Edits, edited_bank
from finite_calculus.models.layer import (
    LayerBank,
    LayerCapture,
    by_groups_of,
    head_products,
    repeat_groups,
)
from finite_calculus.models.sinks import null_sink
from finite_calculus.models.softcap import capped_change
from finite_calculus.models.words import short_repr
from finite_calculus.readout import Readout, freeze
from finite_calculus.response import finite_response


@dataclass(frozen=True, eq=False)
class Prediction:
    """The exact local response to an edit, and the margin change that it predicts.

    `response` is Δy per head and `write` is Δo, both exact; `effect` = ⟨g_o, Δo⟩ is the predicted
    change of logit(answer) − logit(versus). `parts` splits Δy as K_f + V_0 + C_KV and is None when
    tokens are deleted, since their set of keys is another one.
    """

    __repr__ = short_repr

    layer: int
    response: Float[Tensor, "heads width"]
    write: Float[Tensor, " model"]
    effect: float
    parts: JointResponse | None


@dataclass(frozen=True, eq=False)
class Increments:
    """Score and value increments of an edited bank in float64, sinks included."""

    __repr__ = short_repr

    scores: Float[Tensor, "heads keys"]
    values: Float[Tensor, "heads keys width"]


def predict(layer: LayerCapture, edits: Edits) -> Prediction:
    """Predict one counterfactual at one captured layer."""
    return predict_bank(layer, edited_bank(layer, edits))


def predict_bank(layer: LayerCapture, bank: LayerBank) -> Prediction:
    """Predict the readout of an edited bank against the captured one."""
    parts, base = None, layer.readout()
    if bool(bank.removed.any()):
        response = exact_response(layer, bank, base)
    else:
        change = increments(layer, bank)
        parts = decompose(base, change.scores, change.values)
        response = parts.total
    write = project(response, layer.output_projection.double())
    effect = float(torch.dot(write, layer.gradient_write.double()))
    return Prediction(layer.layer, response, write, effect, parts)


def exact_response(
    layer: LayerCapture, bank: LayerBank, base: Readout
) -> Float[Tensor, "heads width"]:
    """Δy of an edited bank against `base`, the layer's own readout, without its parts."""
    change = increments(layer, bank)
    values = None if torch.equal(bank.values, layer.values) else change.values
    if not bool(bank.removed.any()):
        return finite_response(base, change.scores, values)
    removed = null_sink(bank.removed, layer.sinks)
    deletion = deletion_response(base, removed.unsqueeze(0)).squeeze(-2)
    if values is None and not bool(change.scores.any()):
        return deletion
    rest = freeze(base.scores, base.values, mask=base.attended & ~removed)
    return deletion + finite_response(rest, change.scores, values)


def increments(layer: LayerCapture, bank: LayerBank) -> Increments:
    """d = q̃'k̃' − q̃k̃ from the differences of the rounded tensors, and ε = v' − v.

    Under a softcap d is the change of the capped scores, which is not additive over bands.
    """
    # An edit of some heads of a group gives every head keys and values of its own.
    query, keys = layer.query.double(), by_groups_of(bank.keys, layer.keys).double()
    own = by_groups_of(bank.values, layer.values).double()
    moved = bank.keys.double() - keys
    d = head_products(query, moved) + head_products(bank.query.double() - query, keys + moved)
    d = d * layer.scaling
    if layer.softcap is not None:
        d = capped_change(head_products(query, keys) * layer.scaling, d, layer.softcap)
    d = d + bank.bias.double()
    values = repeat_groups(bank.values.double() - own, layer.heads)
    return Increments(null_sink(d, layer.sinks), null_sink(values, layer.sinks, dim=-2))
