"""The exact response of a frozen readout to finite edits: Theorem main:finite and Section 2.2.

Given score increments d and value increments ε, everything here is exact for increments of any size;
nothing is linearised. The evaluation departs from the paper's recipe t = log p' − log p, which loses
every digit of a small increment: t is formed from d itself, as t = d − log1p(Σ p expm1 d). Increments are
measured from the anchor, the key that weighs most both before and after the edit: a key that an edit
takes out, or brings in, by an increment of any size then costs the other keys no digits, and the response
tends to the deletion as d → −∞. What happens downstream of the readout is not treated here.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finite_calculus import _checks
from finite_calculus._faint import enlarged, enlarged_probs, faint_part, weigh_all
from finite_calculus._units import sum_remainder
from finite_calculus.readout import Readout, at_reference
from finite_calculus.rounding import together, value_of

# Between these D = Σ p e^d is near enough to 1 for log1p; elsewhere the direct logarithm is as accurate.
_NEAR = (0.5, 2.5)
# Half of an exponent at which exp and expm1 no longer change, in either precision.
_SATURATED = 1000.0
_TAKE_OUT = (
    "To take a key out use a large negative number, which gives the response to its deletion, or "
    "deletion_response."
)
_LEAVE_ALONE = "Give zero where a value does not change."


@dataclass(frozen=True, eq=False)
class Reallocation:
    """How an edit of the scores moves attention (main:normalise).

    `half_log_ratio` is t/2 for t = log(p'/p), which unlike t itself is always a number, `probs` are the
    edited p' and `change` is p' − p, each evaluated on its own. `faint_probs` and `faint_change` hold those
    below the normal numbers, with their digits, if there are any (`_faint`).
    """

    half_log_ratio: Float[Tensor, "*batch keys"]
    probs: Float[Tensor, "*batch keys"]
    change: Float[Tensor, "*batch keys"]
    faint_probs: Float[Tensor, "*batch keys"] | None = None
    faint_change: Float[Tensor, "*batch keys"] | None = None

    @property
    def log_ratio(self) -> Float[Tensor, "*batch keys"]:
        """t = log(p'/p), infinite where it is beyond the largest number."""
        return 2 * self.half_log_ratio

    def read(self, vectors: Float[Tensor, "*vectors keys width"]) -> Float[Tensor, "*lifted width"]:
        """Σ p' x, in which a probability below the normal numbers counts with all its digits."""
        return weigh_all(self.probs, self.faint_probs, vectors)

    def read_change(
        self, vectors: Float[Tensor, "*vectors keys width"]
    ) -> Float[Tensor, "*lifted width"]:
        """Σ (p' − p) x, likewise."""
        return weigh_all(self.change, self.faint_change, vectors)


def reallocate(readout: Readout, score_delta: Float[Tensor, "*edits keys"]) -> Reallocation:
    """The reallocation of attention by finite score increments (main:normalise).

    Accurate for increments of any finite size, down to 1e-300 and up to the largest number, and for such
    as share a large common part: adding a constant to d leaves t unchanged.
    """
    shift = _shift(readout, score_delta)
    half = torch.where(readout.attended, shift.half - 0.5 * _log_growth(readout, shift), 0.0)
    # exp(log p + t) would carry the rounding of a large t into the very key that takes over.
    total, t = shift.weights.sum(-1, keepdim=True), _doubled(half)
    edited = shift.weights / total
    change = _difference(readout.probs, edited, t)

    def after() -> Tensor:
        return torch.where(readout.attended, enlarged(shift.edited - shift.top), 0.0) / total

    def changed() -> Tensor:
        return _difference(enlarged_probs(readout), after(), t)

    return Reallocation(
        half_log_ratio=half,
        probs=edited,
        change=change,
        faint_probs=faint_part(edited, readout.attended, after),
        faint_change=faint_part(change, value_of(half).detach() != 0, changed),
    )


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
    response = moved.read_change(readout.offsets)
    if value_delta is None:
        return response
    return response + moved.read(attended_value_delta(readout, value_delta))


def log_normaliser(
    readout: Readout, score_delta: Float[Tensor, "*edits keys"]
) -> Float[Tensor, "*lifted 1"]:
    """log D = log Σ p e^d (main:normalise), the key axis kept at length 1."""
    shift = _shift(readout, score_delta)
    return _at(shift.anchor, score_delta) + _log_growth(readout, shift)


@dataclass(frozen=True, eq=False)
class _Shift:
    """An edit of the scores measured from its anchor.

    `half` is (d − d_anchor)/2 and `edited` half of s + d measured from that of the anchor: halves cannot
    overflow. Both are zero outside the attended set. `log_share` is log p of the anchor. `weights` are
    e^{s + d} measured from the largest, whose own `edited` is `top`.
    """

    anchor: Int[Tensor, "*batch 1"]
    half: Float[Tensor, "*batch keys"]
    edited: Float[Tensor, "*batch keys"]
    log_share: Float[Tensor, "*batch 1"]
    weights: Float[Tensor, "*batch keys"]
    top: Float[Tensor, "*batch 1"]


def _shift(readout: Readout, score_delta: Tensor) -> _Shift:
    """Measure an edit from the key with the largest min(p, p').

    If that key has little weight before or after, so has every other, and all changes are of the size
    of p or p' themselves. Halves keep sums of the largest numbers within range.
    """
    _check_increments(readout, score_delta)
    attended = readout.attended
    before, increments = 0.5 * readout.scores, 0.5 * torch.where(attended, score_delta, 0.0)
    after, lost = exact_sum(readout, before, increments)
    lowest = torch.minimum(_below_top(before, attended), _below_top(after, attended))
    anchor = lowest.argmax(-1, keepdim=True)
    half = torch.where(attended, increments - _at(anchor, increments), 0.0)
    edited = (after - _at(anchor, after)) + (lost - _at(anchor, lost))
    edited = torch.where(attended, edited, 0.0)
    top = _top(edited, attended)
    weights = torch.where(attended, torch.exp(_doubled(edited - top)), 0.0)
    return _Shift(anchor, half, edited, _at(anchor, readout.log_probs), weights, top)


def exact_sum(
    readout: Readout, half_scores: Tensor, half_increments: Tensor
) -> tuple[Tensor, Tensor]:
    """Half of s + d in two parts that lose nothing: a mere number, and what rounding took from it.

    A key that was masked by a score of −1e9 comes back with an increment of 1e9 to where it stood.
    """
    total = value_of(half_scores + half_increments).detach()
    lost = sum_remainder(half_scores, half_increments, total)
    if readout.score_lost is not None:
        lost = lost + 0.5 * readout.score_lost
    total, lost = together(total, lost)
    return total, lost


def _below_top(exponents: Tensor, attended: Tensor) -> Tensor:
    """How far each attended entry lies below the largest; for a choice only, without error or graph."""
    numbers = torch.where(attended, value_of(exponents).detach(), -torch.inf)
    return numbers - _top(exponents, attended)


def _top(exponents: Tensor, attended: Tensor) -> Tensor:
    """The largest attended entry, as a mere number: a result that it is divided out of is exact in it."""
    numbers = torch.where(attended, value_of(exponents).detach(), -torch.inf)
    return numbers.amax(-1, keepdim=True)


def _doubled(half: Tensor) -> Tensor:
    """Twice a half, as far as exp and expm1 can tell."""
    return 2 * half.clamp(-_SATURATED, _SATURATED)


def _at(anchor: Int[Tensor, "*batch 1"], per_key: Tensor) -> Tensor:
    """The entry at the anchor, with the key axis kept at length 1."""
    lead = torch.broadcast_shapes(anchor.shape[:-1], per_key.shape[:-1])
    spread = per_key.expand(*lead, per_key.shape[-1])
    return torch.take_along_dim(spread, anchor.expand(*lead, 1), dim=-1)


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
    _check_increments(readout, score_delta)
    relative = score_delta - at_reference(readout, score_delta, feature_axes=0)
    return torch.where(readout.attended, relative, 0.0)


def _check_increments(readout: Readout, score_delta: Tensor) -> None:
    _checks.same_dtype(score_delta=score_delta, readout=readout.probs)
    _checks.last_axes("score_delta", score_delta, (readout.keys,), "(..., keys)")
    _checks.broadcastable("score_delta", score_delta.shape[:-1], readout.batch)
    _checks.finite("score_delta", score_delta, attended=readout.attended, advice=_TAKE_OUT)


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
    _checks.finite("value_delta", value_delta, attended=attended, advice=_LEAVE_ALONE)
    return torch.where(attended, value_delta, 0.0)


def _log_growth(readout: Readout, shift: _Shift) -> Tensor:
    """log Σ p e^d for increments measured from the anchor, with the key axis kept.

    Near D = 1 from D − 1 = Σ p expm1(d), whose terms are of the size of p and p'; elsewhere directly.
    """
    direct = torch.log(shift.weights.sum(-1, keepdim=True)) + (2 * shift.top + shift.log_share)
    growth = torch.exp(value_of(direct).detach())
    near = (_NEAR[0] <= growth) & (growth <= _NEAR[1])
    relative = torch.where(near, _doubled(shift.half), 0.0)
    exponents = torch.where(near, _doubled(shift.edited) + shift.log_share, 0.0)
    excess = _excess(readout, relative, exponents)
    return torch.where(near, torch.log1p(excess.sum(-1, keepdim=True)), direct)


def _excess(readout: Readout, relative: Tensor, exponents: Tensor) -> Tensor:
    """p_j(e^{d_j} − 1), by logarithms where e^{d_j} could overflow against a tiny p_j."""
    grown = torch.exp(exponents) - readout.probs
    moderate = readout.probs * torch.expm1(relative.clamp(max=1))
    return torch.where(relative > 1, grown, moderate)
