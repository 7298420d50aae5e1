"""Coupling of two score edits through softmax: Section 2.3 and Appendix D (eq:bandinteraction).

Disjoint rotary bands have additive score increments, yet their responses do not add. Their
interaction is given as four readouts, literally, and in a closed form that subtracts none of them;
the mixed second derivative is its infinitesimal limit.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.joint import key_response
from finite_calculus.readout import Readout, evaluate, weigh
from finite_calculus.response import (
    Reallocation,
    exact_sum,
    reallocate,
    relative_increments,
)
from finite_calculus.rounding import value_of

# The closed form serves while no edit alone moves more mass than this, and the coupling κ stays small.
_MOVED = 0.25
_COUPLED = 0.5
# e^700 is finite; two log-ratios beyond it need a probability below e^-700 to stay probabilities.
_LARGEST = 700.0


def band_interaction(
    readout: Readout,
    first_delta: Float[Tensor, "*first keys"],
    second_delta: Float[Tensor, "*second keys"],
) -> Float[Tensor, "*lifted width"]:
    """H = F(s+b+c) − F(s+b) − F(s+c) + F(s) (eq:bandinteraction), without the four readouts.

    For weak coupling, with x = e^{t_b} − 1, z = e^{t_c} − 1 and κ = Σ p x z, the change of probability
    beyond the two separate ones is p[xz − (1+x)(1+z)κ/(1+κ)]. Where an edit alone moves much of the
    mass, the response to the weaker edit is taken at the two readouts with and without the stronger:
    these differ by as much as they are large.
    """
    first, second = reallocate(readout, first_delta), reallocate(readout, second_delta)
    moved = torch.maximum(_mass(first), _mass(second))
    crossed = _crossed(first, second)
    coupling = crossed.sum(-1, keepdim=True)
    gentle = (moved <= _MOVED) & (coupling.abs() <= _COUPLED)
    joint = _joint(first, second, gentle)
    excess = crossed - joint * (coupling / (1 + torch.where(gentle, coupling, 0.0)))
    closed = 2 * weigh(torch.where(readout.attended, excess, 0.0), readout.half_centred)
    swap = _mass(first) < _mass(second)
    strong = torch.where(swap, second_delta, first_delta)
    weak = torch.where(swap, first_delta, second_delta)
    direct = key_response(_edited(readout, strong), weak) - key_response(readout, weak)
    return torch.where(gentle, closed, direct)


def mixed_second_derivative(
    readout: Readout,
    first_direction: Float[Tensor, "*first keys"],
    second_direction: Float[Tensor, "*second keys"],
) -> Float[Tensor, "*lifted width"]:
    """D²F(s)[a, b] = E_p[(a − E_p a)(b − E_p b)(v − F(s))] (eq:softmaxmixed)."""
    first = _centred(readout, first_direction)
    second = _centred(readout, second_direction)
    return 2 * weigh(readout.probs * first * second, readout.half_centred)


def _mass(moved: Reallocation) -> Tensor:
    """Probability mass moved by one edit, the key axis kept."""
    return moved.change.abs().sum(-1, keepdim=True) / 2


def _crossed(first: Reallocation, second: Reallocation) -> Tensor:
    """p·x·z with x = expm1(t_b), z = expm1(t_c): the larger factor is taken together with p."""
    swap = first.log_ratio < second.log_ratio
    larger = torch.where(swap, second.change, first.change)
    return larger * torch.expm1(_smaller(first, second))


def _joint(first: Reallocation, second: Reallocation, where: Tensor) -> Tensor:
    """p(1 + x)(1 + z), the larger factor together with p as well: log p may be far below them all."""
    swap = first.log_ratio < second.log_ratio
    smaller = torch.where(where, _smaller(first, second), 0.0)
    return torch.where(swap, second.probs, first.probs) * torch.exp(smaller)


def _smaller(first: Reallocation, second: Reallocation) -> Tensor:
    swap = first.log_ratio < second.log_ratio
    return torch.where(swap, first.log_ratio, second.log_ratio).clamp(max=_LARGEST)


def _edited(readout: Readout, score_delta: Tensor) -> Readout:
    """The readout after an edit, its scores measured from the key that leads after it.

    In s + d itself an increment that many keys share would absorb their scores.
    """
    batch, most = score_delta.shape[:-1], torch.finfo(score_delta.dtype).max / 2
    attended = readout.attended.expand(*batch, readout.keys)
    halves = 0.5 * readout.scores, 0.5 * torch.where(attended, score_delta, 0.0)
    total, lost = exact_sum(readout, *halves)
    leader = torch.where(attended, value_of(total), -torch.inf).argmax(-1, keepdim=True)
    moved = (total - torch.take_along_dim(total, leader, dim=-1)).clamp(-most, most)
    moved = moved + (lost - torch.take_along_dim(lost, leader, dim=-1))
    values = readout.values.expand(*batch, *readout.values.shape[-2:])
    return evaluate(2 * moved.clamp(-most, most), values, attended)


def _centred(readout: Readout, direction: Tensor) -> Tensor:
    relative = relative_increments(readout, direction)
    return relative - (readout.probs * relative).sum(-1, keepdim=True)
