"""The exact response of a frozen readout to finite edits: Theorem main:finite and Section 2.2.

Given score increments d and value increments ε, everything here is exact for increments of any size;
nothing is linearised. The evaluation departs from the paper's recipe t = log p' − log p, which loses
every digit of a small increment: t is formed from d itself, measured from the dominant key, as
t = d − log1p(Σ p expm1 d). What happens downstream of the readout is not treated here.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus import _checks
from finite_calculus.readout import Readout, at_reference, relative_scores, weigh

# Above log D = 1 the direct log-sum-exp is as accurate as log1p and does not overflow.
_DIRECT = 1.0


@dataclass(frozen=True, eq=False)
class Reallocation:
    """How an edit of the scores moves attention (main:normalise).

    `log_ratio` is t = log(p'/p), `probs` are the edited p' and `change` is p' − p, each evaluated on
    its own.
    """

    log_ratio: Float[Tensor, "*batch keys"]
    probs: Float[Tensor, "*batch keys"]
    change: Float[Tensor, "*batch keys"]


def reallocate(readout: Readout, score_delta: Float[Tensor, "*edits keys"]) -> Reallocation:
    """The reallocation of attention by finite score increments (main:normalise).

    Accurate for |d| from 1e-300 to 1e3 and for increments that share a large common part, since
    adding a constant to d leaves t unchanged.
    """
    relative = relative_increments(readout, score_delta)
    t = torch.where(readout.attended, relative - _log_normaliser(readout, relative), 0.0)
    edited = _edited_probs(readout, relative)
    return Reallocation(t, edited, _difference(readout.probs, edited, t))


def log_ratio(
    readout: Readout, score_delta: Float[Tensor, "*edits keys"]
) -> Float[Tensor, "*lifted keys"]:
    """t_j = d_j − log D with D = Σ p e^d (main:normalise); zero outside the attended set."""
    return reallocate(readout, score_delta).log_ratio


def probability_change(
    readout: Readout, score_delta: Float[Tensor, "*edits keys"]
) -> Float[Tensor, "*lifted keys"]:
    """p'_j − p_j = p_j t_j φ1(t_j) (main:normalise), from the smaller of p and p'."""
    return reallocate(readout, score_delta).change


def finite_response(
    readout: Readout,
    score_delta: Float[Tensor, "*edits keys"],
    value_delta: Float[Tensor, "*vedits keys width"] | None = None,
) -> Float[Tensor, "*lifted width"]:
    """Exact change of the readout under finite score and value edits (main:response).

    Δy = Σ p_j t_j φ1(t_j)(v_j − y) + Σ p'_j ε_j, for any finite d and ε; the query and the attended
    set are fixed. `value_delta` defaults to zero.
    """
    moved = reallocate(readout, score_delta)
    response = weigh(moved.change, readout.offsets)
    if value_delta is None:
        return response
    return response + weigh(moved.probs, attended_value_delta(readout, value_delta))


def log_normaliser(
    readout: Readout, score_delta: Float[Tensor, "*edits keys"]
) -> Float[Tensor, "*lifted 1"]:
    """log D = log Σ p e^d (main:normalise), the key axis kept at length 1."""
    relative = relative_increments(readout, score_delta)
    common = at_reference(readout, score_delta, feature_axes=0)
    return common + _log_normaliser(readout, relative)


def _difference(
    probs: Float[Tensor, "*probs keys"],
    edited: Float[Tensor, "*edits keys"],
    log_ratio: Float[Tensor, "*edits keys"],
) -> Float[Tensor, "*lifted keys"]:
    """p' − p = p·expm1(t) where t < 0, and −p'·expm1(−t) where t ≥ 0: expm1 never overflows."""
    below = probs * torch.expm1(log_ratio.clamp(max=0))
    above = edited * torch.expm1(-log_ratio.clamp(min=0))
    return torch.where(log_ratio < 0, below, -above)


def relative_increments(
    readout: Readout, score_delta: Float[Tensor, "*edits keys"]
) -> Float[Tensor, "*lifted keys"]:
    """d_j − d_reference: softmax sees only differences, and these lose no common part."""
    _checks.same_dtype(score_delta=score_delta, readout=readout.probs)
    _checks.last_axes("score_delta", score_delta, (readout.keys,), "(..., keys)")
    _checks.broadcastable("score_delta", score_delta.shape[:-1], readout.batch)
    _checks.finite("score_delta", score_delta, attended=readout.attended)
    relative = score_delta - at_reference(readout, score_delta, feature_axes=0)
    return torch.where(readout.attended, relative, 0.0)


def attended_value_delta(
    readout: Readout, value_delta: Float[Tensor, "*edits keys width"]
) -> Float[Tensor, "*lifted keys width"]:
    """Value increments checked against the readout, zero outside the attended set."""
    attended = readout.attended.unsqueeze(-1)
    _checks.same_dtype(value_delta=value_delta, readout=readout.probs)
    _checks.last_axes(
        "value_delta", value_delta, readout.values.shape[-2:], "(..., keys, value width)"
    )
    _checks.broadcastable("value_delta", value_delta.shape[:-2], readout.batch)
    _checks.finite("value_delta", value_delta, attended=attended)
    return torch.where(attended, value_delta, 0.0)


def _log_normaliser(readout: Readout, relative: Tensor) -> Tensor:
    """log Σ p e^d for increments measured from the dominant key, with the key axis kept.

    Σ p expm1(d) + 1 cannot cancel, because the dominant key's own term is zero and p_ref ≥ 1/N.
    """
    exponents = torch.where(readout.attended, readout.log_probs + relative, -torch.inf)
    peak = exponents.detach().amax(-1, keepdim=True)
    near = peak <= _DIRECT
    small = torch.log1p(_excess(readout, torch.where(near, relative, 0.0)).sum(-1, keepdim=True))
    scaled = torch.where(near, 0.0, readout.log_probs + relative - peak)
    terms = torch.where(readout.attended, torch.exp(scaled), 0.0)
    large = peak + torch.log(terms.sum(-1, keepdim=True))
    return torch.where(near, small, large)


def _edited_probs(readout: Readout, relative: Tensor) -> Tensor:
    """p' = softmax(s + d), measured from the key that is dominant after the edit.

    exp(log p + t) would carry the rounding of a large t into the very key that takes over.
    """
    edited = relative_scores(readout) + relative
    top = torch.where(readout.attended, edited, -torch.inf).detach().amax(-1, keepdim=True)
    weights = torch.where(readout.attended, torch.exp(edited - top), 0.0)
    return weights / weights.sum(-1, keepdim=True)


def _excess(readout: Readout, relative: Tensor) -> Tensor:
    """p_j(e^{d_j} − 1), by logarithms where e^{d_j} could overflow against a tiny p_j."""
    grown = torch.exp(readout.log_probs + relative) - readout.probs
    plain = readout.probs * torch.expm1(relative.clamp(max=1))
    return torch.where(relative > 1, grown, plain)
