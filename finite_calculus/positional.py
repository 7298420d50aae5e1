"""Positional edits at one readout: Sections 2.2 and 2.3 and Appendix D.

A key shifted by δ in a band of rotary planes changes its score by an exact finite amount, whose
tangent is what a positional Jacobian uses. This file gives both, their difference without
cancellation, and the response that a Jacobian predicts. It rotates stored keys only: features that
a reordered prompt would recompute upstream are not its subject.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus import _checks
from finite_calculus.joint import linear_response
from finite_calculus.readout import Readout
from finite_calculus.rotary import (
    Band,
    Rotary,
    Shift,
    cos_minus_one,
    plane_angles,
    score_scaling,
    sin_minus_angle,
    split_planes,
)
from finite_calculus.rounding import together


def key_shift_scores(
    rotary: Rotary,
    query: Float[Tensor, "*query width"],
    keys: Float[Tensor, "*keys width"],
    shift: Shift,
    *,
    band: Band | None = None,
    scaling: float | None = None,
) -> Float[Tensor, "*lifted"]:
    """Exact score increment of keys shifted by δ in a band (main:score, eq:phasescore).

    d = q̃ δA_bφ1(δA_b) k̃ᵀ/τ = Σ_r [(cos θ_r − 1)(q·k)_r + sin θ_r (q×k)_r]·scaling. `query` and
    `keys` are rotated features; `query` of shape (..., width) meets `keys` by broadcasting, so a
    query over N keys is passed as (..., 1, width). `scaling` is 1/τ, by default 1/√width.
    """
    aligned, crossed, angle = _plane_products(rotary, query, keys, shift, band)
    lowered, turned = cos_minus_one(angle).to(keys.dtype), torch.sin(angle).to(keys.dtype)
    return _scaled((lowered * aligned + turned * crossed).sum(-1), rotary, scaling)


def key_shift_scores_linear(
    rotary: Rotary,
    query: Float[Tensor, "*query width"],
    keys: Float[Tensor, "*keys width"],
    shift: Shift,
    *,
    band: Band | None = None,
    scaling: float | None = None,
) -> Float[Tensor, "*lifted"]:
    """Tangent score increment d_lin = q̃ δA_b k̃ᵀ/τ of eq:phasejacobian: the Jacobian's input."""
    _, crossed, angle = _plane_products(rotary, query, keys, shift, band)
    return _scaled((angle.to(keys.dtype) * crossed).sum(-1), rotary, scaling)


def key_shift_scores_remainder(
    rotary: Rotary,
    query: Float[Tensor, "*query width"],
    keys: Float[Tensor, "*keys width"],
    shift: Shift,
    *,
    band: Band | None = None,
    scaling: float | None = None,
) -> Float[Tensor, "*lifted"]:
    """d − d_lin, of second order in the angle, evaluated without subtracting the two (Section 2.3)."""
    aligned, crossed, angle = _plane_products(rotary, query, keys, shift, band)
    lowered = cos_minus_one(angle).to(keys.dtype)
    lagged = sin_minus_angle(angle).to(keys.dtype)
    return _scaled((lowered * aligned + lagged * crossed).sum(-1), rotary, scaling)


def positional_jacobian(
    readout: Readout, linear_delta: Float[Tensor, "*edits keys"]
) -> Float[Tensor, "*lifted width"]:
    """Response predicted by the positional Jacobian: Δy_Jac = Σ p d_lin (v − y) (eq:phasejacobian)."""
    return linear_response(readout, linear_delta)


def rotary_remainder(
    readout: Readout, score_remainder: Float[Tensor, "*edits keys"]
) -> Float[Tensor, "*lifted width"]:
    """Rotary part of the Jacobian's error, Σ p (d − d_lin)(v − y) (main:tworemainders).

    `score_remainder` is d − d_lin from `key_shift_scores_remainder`. With ε = 0,
    Δy − Δy_Jac = `softmax_remainder` + `rotary_remainder`.
    """
    return positional_jacobian(readout, score_remainder)


def _plane_products(
    rotary: Rotary, query: Tensor, keys: Tensor, shift: Shift, band: Band | None
) -> tuple[Tensor, Tensor, Tensor]:
    """q·k and q×k = q₂k₁ − q₁k₂ on every plane, and the angle of the shift there."""
    _checks.same_dtype(query=query, keys=keys)
    query, keys, angle = together(query, keys, plane_angles(rotary, shift, band, keys))
    query_first, query_second = split_planes(rotary, query, "query")
    key_first, key_second = split_planes(rotary, keys, "keys")
    aligned = query_first * key_first + query_second * key_second
    crossed = query_second * key_first - query_first * key_second
    return aligned, crossed, angle


def _scaled(scores: Tensor, rotary: Rotary, scaling: float | None) -> Tensor:
    return scores * score_scaling(rotary, scaling, scores)
