"""The frozen attention readout of eq:attention: one query, its attended keys and their values.

A `Readout` holds what every later formula shares: log-probabilities, probabilities, and the values
measured from the dominant key. Any centre may be used, because probability changes sum to zero and
Σ p (v − y) = 0; the dominant key's own value is the one that loses no digits when a single key holds
nearly all the mass or all values share a large common part.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finite_calculus import _checks
from finite_calculus._units import pivot_within_range, sum_remainder
from finite_calculus.rounding import value_of


@dataclass(frozen=True, eq=False)
class Readout:
    """Softmax readout y = Σ p v over an attended set; build it with `freeze`.

    `reference` is the dominant key, `offsets` are the values minus the reference key's value, and
    `mean_offset` = y − v_reference; where two values are further apart than the largest number, both are
    measured from another vector instead, so that they are numbers. Keys outside `attended` have
    probability exactly zero. `score_lost` is what rounding took from the scores, where they are themselves
    differences: an edit may bring such a key back from far below.
    """

    scores: Float[Tensor, "*batch keys"]
    attended: Bool[Tensor, "*batch keys"]
    reference: Int[Tensor, "*batch 1"]
    log_probs: Float[Tensor, "*batch keys"]
    probs: Float[Tensor, "*batch keys"]
    values: Float[Tensor, "*batch keys width"]
    offsets: Float[Tensor, "*batch keys width"]
    mean_offset: Float[Tensor, "*batch width"]
    score_lost: Float[Tensor, "*batch keys"] | None = None

    @property
    def keys(self) -> int:
        """Number of keys, attended or not."""
        return self.probs.shape[-1]

    @property
    def batch(self) -> tuple[int, ...]:
        """Leading dimensions: heads, queries, prompts."""
        return tuple(self.probs.shape[:-1])

    @property
    def output(self) -> Float[Tensor, "*batch width"]:
        """The readout y = Σ p v; rounding does not carry it beyond the largest number."""
        most = torch.finfo(self.probs.dtype).max
        return weigh(self.probs, self.values).clamp(-most, most)

    @property
    def centred(self) -> Float[Tensor, "*batch keys width"]:
        """v − y for every key."""
        return self.offsets - self.mean_offset.unsqueeze(-2)

    @property
    def half_centred(self) -> Float[Tensor, "*batch keys width"]:
        """(v − y)/2 for every key: a number even where v − y is beyond the largest."""
        return 0.5 * self.offsets - 0.5 * self.mean_offset.unsqueeze(-2)


def freeze(
    scores: Float[Tensor, "*scores keys"],
    values: Float[Tensor, "*values keys width"],
    *,
    mask: Bool[Tensor, "*mask keys"] | None = None,
) -> Readout:
    """Freeze the readout p = softmax(s), y = Σ p v of eq:attention.

    `mask` is True at the attended keys (default: all). The leading dimensions of the three arguments
    are broadcast. Raises on an empty attended set, on NaN or infinite scores or values at attended
    keys, and on shapes that do not match.
    """
    _checks.same_dtype(scores=scores, values=values)
    _checks.last_axes("scores", scores, (None,), "(..., keys)")
    _checks.last_axes("values", values, (scores.shape[-1], None), "(..., keys, value width)")
    _checks.broadcastable("values", values.shape[:-2], scores.shape[:-1])
    attended = _attended(mask, scores)
    shared = torch.broadcast_shapes(scores.shape[:-1], values.shape[:-2])
    _checks.broadcastable("mask", attended.shape[:-1], shared)
    batch = torch.broadcast_shapes(scores.shape[:-1], values.shape[:-2], attended.shape[:-1])
    attended = attended.expand(*batch, -1)
    scores, values = scores.expand(*batch, -1), values.expand(*batch, -1, -1)
    _checks.finite("scores", scores, attended=attended)
    _checks.finite("values", values, attended=attended.unsqueeze(-1))
    return evaluate(scores, values, attended)


def evaluate(
    scores: Float[Tensor, "*batch keys"],
    values: Float[Tensor, "*batch keys width"],
    attended: Bool[Tensor, "*batch keys"],
) -> Readout:
    """The readout of checked inputs; entries outside the attended set are replaced before any use."""
    reference = torch.where(attended, scores, -torch.inf).argmax(-1, keepdim=True)
    top = torch.take_along_dim(scores, reference, dim=-1)
    relative = _below(top, scores, attended)
    weights = torch.where(attended, torch.exp(relative), 0.0)
    total = weights.sum(-1, keepdim=True)
    probs = weights / total
    values = torch.where(attended.unsqueeze(-1), values, 0.0)
    pivot = torch.take_along_dim(values, reference.unsqueeze(-1), dim=-2)
    pivot = pivot_within_range(pivot, values)
    offsets = torch.where(attended.unsqueeze(-1), values - pivot, 0.0)
    return Readout(
        scores=torch.where(attended, scores, 0.0),
        attended=attended,
        reference=reference,
        log_probs=relative - torch.log(total),
        probs=probs,
        values=values,
        offsets=offsets,
        mean_offset=weigh(probs, offsets),
    )


def weigh(
    weights: Float[Tensor, "*weights keys"], vectors: Float[Tensor, "*vectors keys width"]
) -> Float[Tensor, "*lifted width"]:
    """Σ_j w_j x_j over the keys, for any broadcast batch."""
    return (weights.unsqueeze(-1) * vectors).sum(-2)


def at_reference(readout: Readout, vectors: Tensor, *, feature_axes: int) -> Tensor:
    """The entry of per-key `vectors` at the reference key, with the key axis kept at length 1."""
    tail = vectors.shape[vectors.ndim - feature_axes :]
    lead = vectors.shape[: vectors.ndim - feature_axes - 1]
    batch = torch.broadcast_shapes(lead, readout.batch)
    index = readout.reference.reshape(*readout.batch, 1, *[1] * feature_axes)
    spread = vectors.expand(*batch, *vectors.shape[len(lead) :])
    return torch.take_along_dim(spread, index.expand(*batch, 1, *tail), dim=-1 - feature_axes)


def relative_scores(readout: Readout) -> Float[Tensor, "*batch keys"]:
    """Scores measured from the dominant key, which carry no large common part; zero if not attended."""
    top = at_reference(readout, readout.scores, feature_axes=0)
    return _below(top, readout.scores, readout.attended)


def lost_of_relative(readout: Readout, relative: Tensor) -> Float[Tensor, "*batch keys"]:
    """What rounding took from `relative_scores`: those of far keys lack last places of their own score.

    It is a number only: the relative scores themselves carry the derivatives.
    """
    top = at_reference(readout, readout.scores, feature_axes=0)
    lost = sum_remainder(readout.scores, -top, value_of(relative).detach())
    return torch.where(readout.attended, lost, 0.0).detach()


def _below(top: Tensor, scores: Tensor, attended: Tensor) -> Tensor:
    """s − top, zero if not attended; where the largest number falls short of it, that stands for it."""
    lowest = torch.finfo(scores.dtype).min
    return torch.where(attended, scores - top, 0.0).clamp(min=lowest)


def _attended(mask: Tensor | None, scores: Tensor) -> Tensor:
    if scores.shape[-1] == 0:
        raise ValueError(
            "`scores` must hold at least one key; got 0. A softmax over nothing is undefined."
        )
    if mask is None:
        return torch.ones(scores.shape, dtype=torch.bool, device=scores.device)
    _checks.mask_over("mask", mask, scores.shape[-1])
    _checks.one_device(mask=mask, scores=scores)
    return mask
