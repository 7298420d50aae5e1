"""Bounds on the native rounding of an affine query: its projection, and its rotation by a float32 angle."""

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.models.layer import LayerCapture
from finite_calculus.rounding import error_of, track, value_of

_UNIT = torch.finfo(torch.float32).eps / 2


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
