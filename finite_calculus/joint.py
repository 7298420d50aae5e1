"""Joint key–value responses: Section 3.1 and Appendix D.

The exact response splits into a key part, a value part read with baseline attention, and the
interaction C_KV that adding separate attributions omits. The first-order response and its remainder
are given beside them. Each part is evaluated on its own, from accurate probability changes; only where
an edit takes the attention from the dominant key are the weights of a remainder differences.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus._faint import read, times_probs, weigh_by_probs
from finite_calculus.phi import phi2
from finite_calculus.readout import Readout, at_reference, weigh
from finite_calculus.response import (
    Reallocation,
    attended_value_delta,
    finite_response,
    reallocate,
    relative_increments,
)
from finite_calculus.rounding import value_of


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
    return finite_response(readout, score_delta)


def value_response(
    readout: Readout, value_delta: Float[Tensor, "*edits keys width"]
) -> Float[Tensor, "*lifted width"]:
    """V_0 = Σ p ε: value edits read with baseline attention (main:joint, eq:atplinear)."""
    return read(readout, attended_value_delta(readout, value_delta))


def interaction(
    readout: Readout,
    score_delta: Float[Tensor, "*edits keys"],
    value_delta: Float[Tensor, "*vedits keys width"],
) -> Float[Tensor, "*lifted width"]:
    """C_KV = Σ (p' − p) ε: what separate key and value attributions omit (main:joint, eq:kvfactorial)."""
    edits = attended_value_delta(readout, value_delta)
    return 2 * reallocate(readout, score_delta).read_change(_half_relative(readout, edits))


def quadratic_interaction(
    readout: Readout,
    score_delta: Float[Tensor, "*edits keys"],
    value_delta: Float[Tensor, "*vedits keys width"],
) -> Float[Tensor, "*lifted width"]:
    """C_2 = Σ p (d − E_p d) ε: the leading term of C_KV along the joint path (eq:quadraticinteraction)."""
    relative = relative_increments(readout, score_delta)
    mean = times_probs(readout, relative).sum(-1, keepdim=True)
    edits = attended_value_delta(readout, value_delta)
    return 2 * weigh_by_probs(readout, relative - mean, _half_relative(readout, edits))


def linear_response(
    readout: Readout, score_delta: Float[Tensor, "*edits keys"]
) -> Float[Tensor, "*lifted width"]:
    """L_s = Σ p d (v − y): first order in the scores (eq:atplinear).

    Formed as Σ p d o − (Σ p d)(y − v_reference), with the offsets o of the values: no third pass over them.
    """
    half = 0.5 * relative_increments(readout, score_delta)
    drift = times_probs(readout, half).sum(-1, keepdim=True) * readout.mean_offset
    return 2 * (weigh_by_probs(readout, half, readout.offsets) - drift)


def softmax_remainder(
    readout: Readout, score_delta: Float[Tensor, "*edits keys"]
) -> Float[Tensor, "*lifted width"]:
    """R_s = K_f − L_s = Σ w (v − y) with the positive weights of `remainder_weights` (eq:rhoremainder).

    Where the dominant key's probability changes by a factor e and more, the weights are p' − p − p d, with d
    measured from that key, instead: these differ by a multiple of p, and Σ p (v − y) = 0. A large t that
    all keys share would cancel in the sum.
    """
    return _remainder(readout, score_delta, reallocate(readout, score_delta))


def remainder_weights(
    readout: Readout, score_delta: Float[Tensor, "*edits keys"]
) -> Float[Tensor, "*lifted keys"]:
    """w_j = p_j(e^{t_j} − 1 − t_j) = p_j t_j² φ2(t_j) ≥ 0 (eq:remainderweights); they sum to KL(p‖p')."""
    return _positive_weights(readout, reallocate(readout, score_delta))


def _remainder(readout: Readout, score_delta: Tensor, moved: Reallocation) -> Tensor:
    first = times_probs(readout, relative_increments(readout, score_delta))
    dominant = at_reference(readout, value_of(moved.half_log_ratio), feature_axes=0)
    positive = _positive_weights(readout, moved)
    weights = torch.where(2 * dominant.abs() < 1, positive, moved.change - first)
    return weigh(weights, readout.offsets) - weights.sum(-1, keepdim=True) * readout.mean_offset


def _positive_weights(readout: Readout, moved: Reallocation) -> Tensor:
    most = torch.finfo(readout.probs.dtype).max / 2
    half, probs = moved.half_log_ratio, readout.probs
    t = 2 * half.clamp(-most, most)
    moderate = t.clamp(-1, 1)
    near = probs * (moderate * moderate * phi2(moderate))
    # p t from half of t, which may be beyond the largest number where p t is not.
    below = probs * torch.expm1(t.clamp(max=-1)) - 2 * times_probs(readout, half.clamp(max=-0.5))
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
    key = moved.read_change(readout.offsets)
    return JointResponse(
        total=key + moved.read(edits),
        key=key,
        value=read(readout, edits),
        interaction=2 * moved.read_change(_half_relative(readout, edits)),
        quadratic=quadratic_interaction(readout, score_delta, value_delta),
        linear=linear_response(readout, score_delta),
        remainder=_remainder(readout, score_delta, moved),
    )


def _half_relative(readout: Readout, edits: Tensor) -> Tensor:
    """(ε_j − ε_reference)/2, always a number: weights that sum to zero see only such differences."""
    half = 0.5 * edits
    return half - at_reference(readout, half, feature_axes=1)
