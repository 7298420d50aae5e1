"""Exact effective weights with softmax intact: Section 3.3 and Appendices B and C.

For a fixed query, bank and position the readout is affine in the augmented query input,
y = μ + uᵀΔM, with ΔM the exact unit gradient step of a positive quadratic. The matrix is a
query-dependent secant: it depends on a score-shift gauge, and reusing it for another query leaves a
residual that is given here exactly, token by token.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from finite_calculus import _checks
from finite_calculus._anchor import AnchorChange, score_coefficients
from finite_calculus._transforms import known
from finite_calculus._units import pivot_within_range, product
from finite_calculus.margin import norm
from finite_calculus.rotary import Rotary, Shift, rotate, score_scaling, shift_amount


@dataclass(frozen=True, eq=False)
class EffectiveWeights:
    """The representation y = μ + uᵀΔM of one readout (main:effective, eq:identity).

    `coefficients` are the positive c_j, `features` the (gauged) a_j, `centred` the values v_j − μ and
    `matrix` is ΔM = Σ c_j a_j (v_j − μ). Keys that are not attended have coefficient zero.
    """

    query_input: Float[Tensor, "*batch inputs"]
    features: Float[Tensor, "*batch keys inputs"]
    coefficients: Float[Tensor, "*batch keys"]
    centred: Float[Tensor, "*batch keys width"]
    mean: Float[Tensor, "*batch width"]
    matrix: Float[Tensor, "*batch inputs width"]

    @property
    def output(self) -> Float[Tensor, "*batch width"]:
        """The readout y = μ + uᵀΔM."""
        return self.mean + _row_times(self.query_input, self.matrix)


def augment(inputs: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch inputs"]:
    """u = (x, 1): the query input with its bias coordinate (eq:features)."""
    return torch.cat([inputs, torch.ones_like(inputs[..., :1])], -1)


def affine_features(
    rotary: Rotary,
    query_weight: Float[Tensor, "model width"],
    query_bias: Float[Tensor, " width"] | None,
    keys: Float[Tensor, "*batch keys width"],
    position: Shift,
    *,
    scaling: float | None = None,
) -> Float[Tensor, "*batch keys inputs"]:
    """Score features a_j = Ŵ_q R(p)ᵀ k̃_jᵀ/τ of rotated keys, so that s_j = uᵀa_j (eq:features).

    `query_weight` maps the head input to the head's query (row convention q = xW_q + b_q), and
    `position` is the query's. `scaling` is 1/τ, by default 1/√width.
    """
    _checks.same_dtype(query_weight=query_weight, keys=keys)
    _checks.last_axes(
        "query_weight", query_weight, (None, rotary.head_width), "(model, head width)"
    )
    bias = torch.zeros_like(query_weight[0]) if query_bias is None else query_bias
    _checks.same_dtype(query_weight=query_weight, query_bias=bias)
    _checks.last_axes("query_bias", bias, (rotary.head_width,), "(head width,)")
    augmented = torch.cat([query_weight, bias.unsqueeze(0)], 0)
    features = torch.matmul(
        rotate(rotary, keys, -shift_amount(position, keys.device)), augmented.mT
    )
    return features * score_scaling(rotary, scaling, features)


def effective_weights(
    query_input: Float[Tensor, "*batch inputs"],
    features: Float[Tensor, "*batch keys inputs"],
    values: Float[Tensor, "*batch keys width"],
    *,
    gauge: Float[Tensor, "*batch inputs"] | None = None,
    mask: Bool[Tensor, "*batch keys"] | None = None,
) -> EffectiveWeights:
    """The exact effective weights of one readout, in any score-shift gauge (eq:identity, eq:gauge).

    c_j = φ1(s_j)/Z and ΔM = Σ c_j a_j (v_j − μ) with s = uᵀ(a − g); `gauge` defaults to zero, the
    original-score gauge. There the coefficients overflow when every score lies below −700: this
    raises, and `reference_key_gauge` at the largest score never does.
    """
    _checks.same_dtype(query_input=query_input, features=features, values=values)
    _checks.last_axes("features", features, (None, query_input.shape[-1]), "(..., keys, inputs)")
    _checks.last_axes("values", values, (features.shape[-2], None), "(..., keys, value width)")
    attended = torch.ones_like(features[..., 0], dtype=torch.bool) if mask is None else mask
    _checks.mask_over("mask", attended, features.shape[-2])
    _checks.broadcastable("mask", attended.shape[:-1], features.shape[:-2])
    _checks.finite("values", values, attended=attended.unsqueeze(-1))
    shifted = features if gauge is None else _shifted(features, gauge)
    shifted = torch.where(attended.unsqueeze(-1), shifted, 0.0)
    scores = torch.matmul(shifted, query_input.unsqueeze(-1)).squeeze(-1)
    _checks.finite("features", scores, attended=attended)
    coefficients = score_coefficients(scores, attended)
    mean, centred = _centre(values, attended)
    matrix = torch.matmul(shifted.mT, coefficients.unsqueeze(-1) * centred)
    return EffectiveWeights(query_input, shifted, coefficients, centred, mean, matrix)


def unit_gradient_step(weights: EffectiveWeights) -> Float[Tensor, "*batch inputs width"]:
    """−∇_B E(0) for E(B) = ½ Σ c_j ‖a_jᵀB − (v_j − μ)‖² (eq:gradient), by automatic differentiation.

    Equal to `weights.matrix`; obtained from the quadratic itself, in which c, a and v − μ are fixed.
    """

    def energy(matrix: Tensor) -> Tensor:
        misfit = product(weights.features, matrix) - weights.centred
        return (weights.coefficients.unsqueeze(-1) * misfit * misfit).sum() / 2

    return -torch.func.grad(energy)(torch.zeros_like(weights.matrix))


def reference_key_gauge(
    features: Float[Tensor, "*batch keys inputs"], key: int
) -> Float[Tensor, "*batch inputs"]:
    """g = a_{j₀}: scores measured from one reference key (eq:curvaturegauge)."""
    if not 0 <= key < features.shape[-2]:
        raise ValueError(
            f"`key` must be an index in 0..{features.shape[-2] - 1}; got {key}. "
            f"Take the key with the largest score for the widest numerical range."
        )
    return features[..., key, :]


def mean_key_gauge(
    features: Float[Tensor, "*batch keys inputs"],
    *,
    mask: Bool[Tensor, "*batch keys"] | None = None,
) -> Float[Tensor, "*batch inputs"]:
    """g = mean of the attended features, the gauge of centred keys k_j − k̄ (Appendix L)."""
    if mask is None:
        return features.sum(-2) / features.shape[-2]
    _checks.mask_over("mask", mask, features.shape[-2])
    attended = torch.where(mask.unsqueeze(-1), features, 0.0)
    return attended.sum(-2) / mask.sum(-1, keepdim=True)


def key_shift_gauge(
    projection: Float[Tensor, "inputs width"], key_shift: Float[Tensor, "*batch width"]
) -> Float[Tensor, "*batch inputs"]:
    """g = L b for a common key shift b, with L = Ŵ_q R(p)ᵀ/τ: a subfamily of dimension ≤ width."""
    _checks.same_dtype(projection=projection, key_shift=key_shift)
    _checks.last_axes("key_shift", key_shift, projection.shape[-1:], "(..., head width)")
    return torch.matmul(projection, key_shift.unsqueeze(-1)).squeeze(-1)


def residual_write(
    residual: Float[Tensor, "*batch model"],
    weights: EffectiveWeights,
    output_projection: Float[Tensor, "width model"],
    output_bias: Float[Tensor, " model"] | None = None,
) -> Float[Tensor, "*batch model"]:
    """Residual stream after one head: hᵀ + (μ + uᵀΔM)W_o + b_o (eq:residual and what follows it).

    `residual` may differ from the head's input, as under pre-normalisation.
    """
    _checks.same_dtype(
        residual=residual, output_projection=output_projection, weights=weights.matrix
    )
    width, model = weights.matrix.shape[-1], residual.shape[-1]
    _checks.exact_axes(
        "output_projection", output_projection, (width, model), "(value width, model)"
    )
    write = residual + _row_times(weights.output, output_projection)
    if output_bias is None:
        return write
    _checks.same_dtype(output_bias=output_bias, residual=residual)
    _checks.exact_axes("output_bias", output_bias, (model,), "(model,)")
    return write + output_bias


def anchor_residual(
    weights: EffectiveWeights, anchor: EffectiveWeights
) -> Float[Tensor, "*batch keys width"]:
    """What reusing an anchor's matrix omits, token by token (eq:tokenerror).

    (c_j − c_j^anchor)(uᵀa_j)(v_j − μ); summed over keys it is y − (μ + uᵀΔM_anchor). Both queries
    must share bank, position and gauge, which is checked.
    """
    _checks.same_dtype(weights=weights.matrix, anchor=anchor.matrix)
    _require_one_bank(weights, anchor)
    scores = product(weights.features, weights.query_input.unsqueeze(-1)).squeeze(-1)
    change = (weights.coefficients - anchor.coefficients) * scores
    return change.unsqueeze(-1) * weights.centred


def anchor_bound(weights: EffectiveWeights, anchor: EffectiveWeights) -> Float[Tensor, "*batch"]:
    """‖e‖₂ ≤ ‖u‖₂ ‖ΔM − ΔM_anchor‖_op (eq:bound), for the exact residual e and including all rounding.

    The difference is summed from those of the coefficients, Σ (c − c_anchor) a (v − μ), and what rounding
    may hide of it is added to its norm. For anchors so near that rounding hides all of it, the bound
    comes from the distance of the queries instead. Both must share bank, position and gauge, which is
    checked.
    """
    _require_one_bank(weights, anchor)
    difference = weights.coefficients - anchor.coefficients
    change = product(weights.features.mT, difference.unsqueeze(-1) * weights.centred)
    exact = _changed(weights, anchor)
    # Singular values are computed to within this many units of the largest one, norms to fewer.
    slack = 8 * sum(change.shape[-2:]) * torch.finfo(torch.float64).eps
    hidden = norm(exact.hidden(change.detach()).flatten(-2))
    spectral = torch.linalg.matrix_norm(change.double(), ord=2) + hidden
    bound = torch.minimum(norm(weights.query_input.double()) * spectral, exact.reach()) * (
        1 + slack
    )
    info = torch.finfo(change.dtype)
    tiny = info.smallest_normal * info.eps
    return (bound * (1 + 2 * info.eps) + 2 * tiny).to(change.dtype)


def numerical_rank(
    matrix: Float[Tensor, "*batch rows columns"], *, tolerance: float | None = None
) -> tuple[Tensor, float]:
    """Rank by singular values above `tolerance`·σ_max, with the tolerance used.

    The default, max(rows, columns)·eps, is the size of rounding in the singular values. For ΔM the
    exact rank is at most min(d, N − 1, r, m + 1); a computed ΔM has rounding of its own, which can exceed
    the default: to tell it from rank, give a tolerance of its error bound over its norm.
    """
    if tolerance is None:
        tolerance = max(matrix.shape[-2:]) * torch.finfo(matrix.dtype).eps
    if not 0 <= tolerance < 1:
        raise ValueError(
            f"`tolerance` must lie in [0, 1), relative to the largest singular value; got {tolerance}. "
            f"Leave it out for max(rows, columns)·eps."
        )
    singular = torch.linalg.svdvals(matrix)
    largest = singular.amax(-1, keepdim=True) if singular.shape[-1] else singular.new_zeros(1)
    return (singular > tolerance * largest).sum(-1), tolerance


def _require_one_bank(weights: EffectiveWeights, anchor: EffectiveWeights) -> None:
    if _differ(weights.features, anchor.features) or _differ(weights.centred, anchor.centred):
        raise ValueError(
            "`anchor` must share the features and values of `weights`: the residual is defined at one "
            "bank, position and gauge; got different ones. Recompute the anchor with the same."
        )


def _differ(one: Tensor, other: Tensor) -> bool:
    return one.shape != other.shape or known((one != other).any())


def _changed(weights: EffectiveWeights, anchor: EffectiveWeights) -> AnchorChange:
    return AnchorChange(
        weights.features.detach(),
        weights.centred.detach(),
        (weights.coefficients != 0) | (anchor.coefficients != 0),
        weights.query_input.detach(),
        anchor.query_input.detach(),
    )


def _shifted(features: Tensor, gauge: Tensor) -> Tensor:
    """Features measured from a gauge that is checked against them."""
    _checks.same_dtype(gauge=gauge, features=features)
    _checks.last_axes("gauge", gauge, features.shape[-1:], "(..., inputs)")
    _checks.broadcastable("gauge", gauge.shape[:-1], features.shape[:-2])
    _checks.finite("gauge", gauge)
    return features - gauge.unsqueeze(-2)


def _centre(values: Tensor, attended: Tensor) -> tuple[Tensor, Tensor]:
    """The uniform mean μ of the attended values and v − μ, measured from one of them.

    Subtracting a mean of large values would leave their rounding error in the differences.
    """
    mask = attended.unsqueeze(-1)
    first = attended.to(torch.uint8).argmax(-1, keepdim=True).unsqueeze(-1)
    pivot = torch.take_along_dim(values, first, dim=-2)
    pivot = pivot_within_range(pivot, torch.where(mask, values, 0.0))
    offsets = torch.where(mask, values - pivot, 0.0)
    mean_offset = (offsets / attended.sum(-1)[..., None, None]).sum(-2, keepdim=True)
    return (pivot + mean_offset).squeeze(-2), torch.where(mask, offsets - mean_offset, 0.0)


def _row_times(row: Tensor, matrix: Tensor) -> Tensor:
    return product(row.unsqueeze(-2), matrix).squeeze(-2)
