"""Derived bounds on what native float32 attention may differ by from exact arithmetic.

The float32 computation is repeated on the captured tensors under the running error analysis of
`finite_calculus.rounding`. Sums are charged for every order of summation and every elementary
function its budget, so the bound holds for the model's kernel as well as for the repetition. What is
bounded is local: y and the projected write of one layer, given its query, keys and values. Nothing here
speaks of what happens downstream of the write.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.models.layer import LayerBank, LayerCapture, head_products
from finite_calculus.models.sinks import sink_mask, sink_scores
from finite_calculus.models.softcap import capped
from finite_calculus.rounding import error_of, track, value_of

_UNIT = torch.finfo(torch.float32).eps / 2
# torch's vectorised softmax may use a faster exponential (2 ulp) and multiply by a reciprocal.
_SOFTMAX_ULPS = 3.0


@dataclass(frozen=True, eq=False)
class LocalError:
    """Bounds on the float32 error of y and of the projected write, entry by entry."""

    output: Float[Tensor, "heads value_width"]
    write: Float[Tensor, " model"]


def local_error(layer: LayerCapture, bank: LayerBank | None = None) -> LocalError:
    """Bounds on |y_native − y| and |o_native − o| of one readout; the second includes the first."""
    y = _tracked_output(layer, layer.bank() if bank is None else bank)
    joined = track(layer.output_projection.flatten(0, 1))
    o = torch.matmul(y.reshape(1, -1), joined).reshape(-1)
    if layer.output_bias is not None:
        o = o + track(layer.output_bias)
    return LocalError(error_of(y), error_of(o))


def output_error(
    layer: LayerCapture, bank: LayerBank | None = None
) -> Float[Tensor, "heads value_width"]:
    """Bound on |y_native − y| alone."""
    return error_of(_tracked_output(layer, layer.bank() if bank is None else bank))


def write_error(layer: LayerCapture, bank: LayerBank | None = None) -> Float[Tensor, " model"]:
    """Bound on |o_native − o| alone."""
    return local_error(layer, bank).write


def query_error(layer: LayerCapture) -> Float[Tensor, "heads width"]:
    """Bound on the native rounding of q = c·R(p)(xW + b), for layers with an affine query.

    The matrix product and bias by running analysis; the rotation adds the float32 angle, which is off
    by up to p·ω·2u, and a handful of roundings of products no larger than the plane's norm.
    """
    head_input, weight = layer.query_map()
    product = torch.matmul(track(head_input), track(weight))
    if layer.query_bias is not None:
        product = product + track(layer.query_bias)
    size = value_of(product).double().norm(dim=-1, keepdim=True)
    spread = error_of(product).norm(dim=-1, keepdim=True)
    return (spread + size * rotation_error(layer, layer.position)).expand_as(layer.query) * abs(
        layer.rotary_scaling
    )


def rotation_error(layer: LayerCapture, position: float | int) -> float:
    """Relative error of one native rotation: float32 angle p·ω, its sine and cosine, two products."""
    if layer.rotary is None or layer.rotary.planes == 0:
        return 0.0
    fastest = float(layer.rotary.frequencies.abs().max())
    return 2 * _UNIT * (abs(position) * fastest + 8)


def _tracked_output(layer: LayerCapture, bank: LayerBank) -> Tensor:
    scaling = torch.tensor(layer.scaling, dtype=torch.float32)
    slack = (scaling.double() - layer.scaling).abs()
    scores = head_products(track(bank.query), track(bank.keys)) * track(scaling, slack)
    scores = capped(scores, layer.softcap) + track(bank.bias)
    attended = (layer.attended & ~bank.removed).expand(layer.heads, -1)
    scores = sink_scores(scores, None if layer.sinks is None else track(layer.sinks))
    probs = _tracked_softmax(scores, sink_mask(attended, layer.sinks))[..., : bank.keys.shape[1]]
    groups = bank.values.shape[0]
    grouped = probs.reshape(groups, layer.heads // groups, -1)
    y = torch.matmul(grouped, track(bank.values))
    return y.reshape(layer.heads, bank.values.shape[-1])


def _tracked_softmax(scores: Tensor, attended: Tensor) -> Tensor:
    top = torch.where(attended, value_of(scores), -torch.inf).amax(-1, keepdim=True)
    relative = torch.where(attended, scores - track(top), 0.0)
    weights = _widen(torch.exp(relative), _SOFTMAX_ULPS)
    weights = torch.where(attended, weights, 0.0)
    return _widen(weights / weights.sum(-1, keepdim=True), 1.0)


def _widen(tensor: Tensor, ulps: float) -> Tensor:
    value = value_of(tensor)
    return track(value, error_of(tensor) + ulps * 2 * _UNIT * value.double().abs())
