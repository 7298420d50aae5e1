"""Certificates for the local approximation: Section 3.2 and Appendix D.

The first-order score of an edit errs, against the exact local score, by no more than
KL(p‖p')·max|a| + TV(p, p')·(max b − min b). Here the bound is a true statement about floating-point
output: KL, TV and the ranges are rounded outwards, and the rounding error of the first-order score
itself is added. It speaks of the edited attention write alone; the network beyond it is not bounded.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finite_calculus import _checks
from finite_calculus._transforms import require_numbers
from finite_calculus.joint import remainder_weights
from finite_calculus.readout import Readout, evaluate, weigh
from finite_calculus.response import (
    attended_value_delta,
    probability_change,
    relative_increments,
)
from finite_calculus.rounding import error_of, track, upper, value_of


@dataclass(frozen=True, eq=False)
class Certificate:
    """|exact local score − `first_order`| ≤ `bound`, for every entry and including all rounding.

    `divergence` and `total_variation` are KL(p‖p') and TV(p, p'), rounded upwards.
    """

    first_order: Float[Tensor, "*batch"]
    bound: Float[Tensor, "*batch"]
    divergence: Float[Tensor, "*batch"]
    total_variation: Float[Tensor, "*batch"]

    def over_heads(self) -> "Certificate":
        """One certificate for the sum over the last batch axis, the heads: bounds add up."""
        first = track(self.first_order).sum(-1)
        bound = track(self.bound).sum(-1)
        return Certificate(
            first_order=value_of(first),
            bound=_raise(upper(bound), error_of(first)),
            divergence=upper(track(self.divergence).sum(-1)),
            total_variation=upper(track(self.total_variation).sum(-1)),
        )


@dataclass(frozen=True, eq=False)
class CertifiedOrder:
    """Certified strict comparisons of candidates: `greater[a, b]` means S_a > S_b is certain."""

    greater: Bool[Tensor, "*batch candidates candidates"]

    def pairs(self) -> list[tuple[int, ...]]:
        """The certified pairs (greater, smaller), with leading batch indices if there are any."""
        reason = "a list has one entry for each certain comparison"
        require_numbers("pairs", reason, greater=self.greater)
        return [tuple(row) for row in self.greater.nonzero().tolist()]


def divergence(
    readout: Readout, score_delta: Float[Tensor, "*edits keys"]
) -> Float[Tensor, "*lifted"]:
    """KL(p‖p') = Σ w_j = Σ p t² φ2(t) (eq:klremainder): a sum of positive terms, never negative."""
    return remainder_weights(readout, score_delta).sum(-1)


def total_variation(
    readout: Readout, score_delta: Float[Tensor, "*edits keys"]
) -> Float[Tensor, "*lifted"]:
    """TV(p, p') = ½ Σ |p' − p| (eq:localcertificate)."""
    return probability_change(readout, score_delta).abs().sum(-1) / 2


def certify(
    readout: Readout,
    score_delta: Float[Tensor, "*edits keys"],
    value_delta: Float[Tensor, "*vedits keys width"],
    gradient: Float[Tensor, "*heads width"],
    *,
    score_remainder: Float[Tensor, "*edits keys"] | None = None,
) -> Certificate:
    """Certificate of the first-order score ⟨g, (L_s + V_0)W_o⟩ of every edit (main:certificate).

    `gradient` is the margin gradient at the head's own output, g_h = W_{o,h} gᵀ (`head_gradient`).
    With `score_remainder` = d − d_lin the first-order score is the positional Jacobian's, and the
    contracted rotary remainder is added to the bound. Arguments that are tracked already count as known
    to within their error, all others as exact. The result carries no gradient.
    """
    tracked = evaluate(track(readout.scores), track(readout.values), readout.attended)
    slope = _follow("gradient", gradient)
    increments = _follow("score_delta", score_delta)
    _checks.same_dtype(gradient=slope, readout=tracked.probs)
    _checks.last_axes("gradient", gradient, readout.values.shape[-1:], "(..., value width)")
    _checks.finite("gradient", gradient)
    edits = attended_value_delta(tracked, _follow("value_delta", value_delta))
    pulls = (tracked.centred * slope.unsqueeze(-2)).sum(-1)
    swings = (edits * slope.unsqueeze(-2)).sum(-1)
    first = _contract(tracked, relative_increments(tracked, increments), pulls)
    first = first + (tracked.probs * swings).sum(-1)
    kl = divergence(tracked, increments)
    tv = total_variation(tracked, increments)
    bound = kl * _peak(pulls.abs(), readout) + tv * _range(swings, readout)
    if score_remainder is not None:
        remainder = _follow("score_remainder", score_remainder)
        rotary = _contract(tracked, relative_increments(tracked, remainder), pulls)
        first, bound = first - rotary, bound + rotary.abs()
    return Certificate(
        first_order=value_of(first),
        bound=_raise(upper(bound), error_of(first)),
        divergence=upper(kl),
        total_variation=upper(tv),
    )


def certified_signs(certificate: Certificate) -> Int[Tensor, "*batch"]:
    """+1 or −1 where |Ŝ| > B certifies the sign of the exact local score, 0 where it does not."""
    certain = certificate.first_order.abs() > certificate.bound
    return torch.where(certain, torch.sign(certificate.first_order), 0.0).to(torch.int64)


def certified_order(certificate: Certificate) -> CertifiedOrder:
    """Certified comparisons of candidates along the last batch axis (eq:certifiedlocalranking).

    Ŝ_a − Ŝ_b > B_a + B_b certifies S_a > S_b. The relation is transitive but partial; interval ends
    are rounded outwards before they are compared.
    """
    _checks.subnormal_numbers()
    lower = certificate.first_order - certificate.bound
    above = certificate.first_order + certificate.bound
    lower = torch.nextafter(lower, lower.new_tensor(-torch.inf))
    above = torch.nextafter(above, above.new_tensor(torch.inf))
    return CertifiedOrder(lower.unsqueeze(-1) > above.unsqueeze(-2))


def _contract(readout: Readout, increments: Tensor, pulls: Tensor) -> Tensor:
    """⟨g, Σ p d (v − y)⟩ from contracted centred values."""
    return weigh(readout.probs * increments, pulls.unsqueeze(-1)).squeeze(-1)


def _peak(sizes: Tensor, readout: Readout) -> Tensor:
    return torch.where(readout.attended, sizes, 0.0).amax(-1)


def _range(swings: Tensor, readout: Readout) -> Tensor:
    highest = torch.where(readout.attended, swings, -torch.inf).amax(-1)
    lowest = torch.where(readout.attended, swings, torch.inf).amin(-1)
    return highest - lowest


def _follow(name: str, tensor: Tensor) -> Tensor:
    """An argument under the running error analysis, with the error that it already has."""
    _checks.floating(name, tensor)
    return track(tensor)


def _raise(bound: Tensor, error: Tensor) -> Tensor:
    """bound + error, rounded upwards."""
    return upper(track(bound, torch.nextafter(error, error.new_tensor(torch.inf))))
