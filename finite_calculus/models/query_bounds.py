"""Bounds on the native rounding of an affine query: its projection, and its rotation by a float32 angle.

Angles, their cosines and sines are float32 in every model; in half precision the cosines and sines are then
stored as the model's tensors are, and so are both products of a rotation and their sum.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.models.layer import LayerCapture
from finite_calculus.models.precision import FLOAT32, Precision
from finite_calculus.rounding import error_of, track, value_of

# Cosine, sine, scaling, two products and a sum of one rotation, each stored.
_ROUNDINGS = 8


def query_error(layer: LayerCapture) -> Float[Tensor, "heads width"]:
    """Bound on the native rounding of q = c·R(p)(xW + b), for layers with an affine query.

    The matrix product and bias by running analysis; the rotation adds the float32 angle, which is off
    by up to p·ω·2u, and a handful of roundings of products no larger than the plane's norm. In half precision
    the product is stored, and again with its bias.
    """
    head_input, weight = layer.query_map()
    product = torch.matmul(track(head_input), track(weight))
    plain = value_of(product).double()
    if layer.query_bias is not None:
        product = product + track(layer.query_bias)
    whole = value_of(product).double()
    size = whole.norm(dim=-1, keepdim=True)
    spread = error_of(product).norm(dim=-1, keepdim=True)
    if layer.precision.half:
        stores = (plain.norm(dim=-1, keepdim=True) + size) * layer.precision.unit
        spread, size = spread + stores, size + spread + stores
    return (spread + size * rotation_error(layer, layer.position)).expand_as(layer.query) * abs(
        layer.rotary_scaling
    )


def rotation_error(layer: LayerCapture, position: float | int) -> float:
    """Relative error of one native rotation: float32 angle p·ω, its sine and cosine, two products."""
    if layer.rotary is None or layer.rotary.planes == 0:
        return 0.0
    fastest = float(layer.rotary.frequencies.abs().max())
    return angle_error(layer.precision, abs(position) * fastest, _ROUNDINGS)


def angle_error(precision: Precision, angle: float, roundings: int) -> float:
    """Relative error of a rotation: the float32 angle with its functions, and roundings of what is stored."""
    float32 = 2 * FLOAT32.unit * (angle + roundings)
    return float32 + 2 * precision.unit * roundings if precision.half else float32
