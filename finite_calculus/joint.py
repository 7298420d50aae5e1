"""Joint key–value responses: Section 3.1 and Appendix D.

The exact response splits into a key part, a value part read with baseline attention, and the
interaction C_KV that adding separate attributions omits. The first-order response and its remainder
are given beside them. Each part is evaluated on its own, from accurate probability changes, and never
as the difference of two others.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.phi import phi2
from finite_calculus.readout import Readout, at_reference, weigh
from finite_calculus.response import (
    attended_value_delta,
    probability_change,
    reallocate,
    relative_increments,
)


@dataclass(frozen=True, eq=False)
class JointResponse:
    """The parts of one exact response (main:joint, eq:rhoremainder, eq:quadraticinteraction).

    `total` = `key` + `value` + `interaction`, and `key` = `linear` + `remainder`, exactly in real
    arithmetic; `quadratic` is the leading term of `interaction` along the joint path.
    """

    total: Float[Tensor, "*batch width"]
    key: Float[Tensor, "*batch width"]
    value: Float[Tensor, "*batch width"]
    interaction: Float[Tensor, "*batch width"]
    quadratic: Float[Tensor, "*batch width"]
    linear: Float[Tensor, "*batch width"]
    remainder: Float[Tensor, "*batch width"]


def key_response(
    readout: Readout, score_delta: Float[Tensor, "*edits keys"]
) -> Float[Tensor, "*lifted width"]:
    """K_f = Σ (p' − p)(v − y): the exact response at fixed values (main:joint, eq:kvcomponents)."""
    return weigh(probability_change(readout, score_delta), readout.offsets)


def value_response(
    readout: Readout, value_delta: Float[Tensor, "*edits keys width"]
) -> Float[Tensor, "*lifted width"]:
    """V_0 = Σ p ε: value edits read with baseline attention (main:joint, eq:atplinear)."""
    return weigh(readout.probs, attended_value_delta(readout, value_delta))


def interaction(
    readout: Readout,
    score_delta: Float[Tensor, "*edits keys"],
    value_delta: Float[Tensor, "*vedits keys width"],
) -> Float[Tensor, "*lifted width"]:
    """C_KV = Σ (p' − p) ε: what separate key and value attributions omit (main:joint, eq:kvfactorial)."""
    change = probability_change(readout, score_delta)
    return weigh(change, _relative_value_delta(readout, value_delta))


def quadratic_interaction(
    readout: Readout,
    score_delta: Float[Tensor, "*edits keys"],
    value_delta: Float[Tensor, "*vedits keys width"],
) -> Float[Tensor, "*lifted width"]:
    """C_2 = Σ p (d − E_p d) ε: the leading term of C_KV along the joint path (eq:quadraticinteraction)."""
    relative = relative_increments(readout, score_delta)
    mean = (readout.probs * relative).sum(-1, keepdim=True)
    return weigh(readout.probs * (relative - mean), _relative_value_delta(readout, value_delta))


def linear_response(
    readout: Readout, score_delta: Float[Tensor, "*edits keys"]
) -> Float[Tensor, "*lifted width"]:
    """L_s = Σ p d (v − y): first order in the scores (eq:atplinear)."""
    return weigh(readout.probs * relative_increments(readout, score_delta), readout.centred)


def softmax_remainder(
    readout: Readout, score_delta: Float[Tensor, "*edits keys"]
) -> Float[Tensor, "*lifted width"]:
    """R_s = K_f − L_s = Σ w (v − y) with the positive weights of `remainder_weights` (eq:rhoremainder)."""
    return weigh(remainder_weights(readout, score_delta), readout.centred)


def remainder_weights(
    readout: Readout, score_delta: Float[Tensor, "*edits keys"]
) -> Float[Tensor, "*lifted keys"]:
    """w_j = p_j(e^{t_j} − 1 − t_j) = p_j t_j² φ2(t_j) ≥ 0 (eq:remainderweights); they sum to KL(p‖p')."""
    moved = reallocate(readout, score_delta)
    most = torch.finfo(readout.probs.dtype).max / 2
    half, probs = moved.half_log_ratio, readout.probs
    t = 2 * half.clamp(-most, most)
    moderate = t.clamp(-1, 1)
    near = probs * (moderate * moderate * phi2(moderate))
    # p t from half of t, which may be beyond the largest number where p t is not.
    below = probs * torch.expm1(t.clamp(max=-1)) - 2 * (probs * half.clamp(max=-0.5))
    above = moved.probs - probs * (1 + t.clamp(min=1))
    return torch.where(t > 1, above, torch.where(t < -1, below, near))


def decompose(
    readout: Readout,
    score_delta: Float[Tensor, "*edits keys"],
    value_delta: Float[Tensor, "*vedits keys width"],
) -> JointResponse:
    """All parts of the response to one joint edit: Δy = K_f + V_0 + C_KV (eq:jointattribution)."""
    moved = reallocate(readout, score_delta)
    edits = attended_value_delta(readout, value_delta)
    key = weigh(moved.change, readout.offsets)
    return JointResponse(
        total=key + weigh(moved.probs, edits),
        key=key,
        value=weigh(readout.probs, edits),
        interaction=weigh(moved.change, _relative_value_delta(readout, value_delta)),
        quadratic=quadratic_interaction(readout, score_delta, value_delta),
        linear=linear_response(readout, score_delta),
        remainder=softmax_remainder(readout, score_delta),
    )


def _relative_value_delta(readout: Readout, value_delta: Tensor) -> Tensor:
    """ε_j − ε_reference: weights that sum to zero see only differences of the value edits."""
    edits = attended_value_delta(readout, value_delta)
    relative = edits - at_reference(readout, edits, feature_axes=1)
    return torch.where(readout.attended.unsqueeze(-1), relative, 0.0)
