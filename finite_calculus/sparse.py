"""Sparse evaluation of joint edits: Section 4 and Appendix D (main:sparse, eq:sparsejoint).

To an edit of a few keys all other keys are one: a key with their total weight, their mean value and
no increment. The exact response is the paper's quotient over the edited keys,
Δy = [Σ p expm1(d)(v − y) + Σ p e^d ε] / (rest + Σ p e^d), with the rest's weight as a positive number
that is never the difference of nearly equal ones. Where the quotient could overflow or underflow, the
same edit is evaluated as the response of the small readout of the members and the rest.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finite_calculus import _checks
from finite_calculus._complement import Outside, Total, merged, outside_groups, require_rest
from finite_calculus._once import computed_once
from finite_calculus._transforms import known, number, readable, refuted
from finite_calculus.certificate import divergence, total_variation
from finite_calculus.readout import (
    Readout,
    at_reference,
    evaluate,
    lost_of_relative,
    relative_scores,
    weigh,
)
from finite_calculus.response import finite_response
from finite_calculus.rounding import Tracked, value_of

# The largest exponents d for the quotient: log(1/eps).
REACH = {dtype: -math.log(torch.finfo(dtype).eps) for dtype in (torch.float32, torch.float64)}


@dataclass(frozen=True, eq=False)
class Source:
    """Where groups come from: the bank, the keys of each group and what a group leaves of the bank."""

    readout: Callable[[], Readout]
    index: Int[Tensor, "candidates members"]
    outside: Outside


@dataclass(frozen=True, eq=False)
class _Heavy:
    """What all groups need besides if one of them holds more than half of the mass.

    `drift` is Σ p (v − y) over the members of each group, from the rest where that is the lighter
    side, and `reference` its dominant member. `total` is what the heavy groups leave, and `place` finds
    each candidate in the list of all candidates followed by the heavy ones.
    """

    drift: Float[Tensor, "*batch candidates width"]
    reference: Int[Tensor, "*batch candidates 1"]
    total: Total
    place: Int[Tensor, " candidates"]


@dataclass(frozen=True, eq=False)
class PreparedGroups:
    """Candidate groups prepared once, for many strengths; build with `prepare` or `prepare_spans`.

    `scores` and `values` are those of the members before the edit: what an edit puts in their place,
    minus these, are its increments. `probs` are the members' probabilities, `pulls` are p (v − y) and
    `rest` is the probability of all other keys. `direct` says that every member is attended.
    """

    scores: Float[Tensor, "*batch candidates members"]
    values: Float[Tensor, "*batch candidates members width"]
    probs: Float[Tensor, "*batch candidates members"]
    pulls: Float[Tensor, "*batch candidates members width"]
    rest: Float[Tensor, "*batch candidates 1"]
    heavy: _Heavy | None
    direct: bool
    source: Source

    def response(
        self,
        score_delta: Float[Tensor, "*edits members"],
        value_delta: Float[Tensor, "*vedits members width"] | None = None,
    ) -> Float[Tensor, "*lifted width"]:
        """Exact response y' − y of every candidate (eq:sparsejoint).

        Increments have shape (..., *batch, candidates, members); further leading dimensions, such as
        strengths, are free. Entries that only change value have `score_delta` zero.
        """
        if self._quotient_suffices(score_delta, value_delta):
            return self._quotient(score_delta, value_delta)
        edits = value_delta
        if value_delta is not None:
            words = "(..., keys, value width)"
            edits = _padded("value_delta", value_delta, self.values.shape[-2:], words)
        return finite_response(self.small_readout, self._with_rest(score_delta), edits)

    def deletion(self) -> Float[Tensor, "*batch width"]:
        """Exact response to deleting each group: y_rest − y = Σ p (y_rest − v) (eq:groupdeletion)."""
        if self.heavy is None:
            return -self.pulls.sum(-2) / self.rest
        small = self.small_readout
        require_rest(small.attended[..., -1], "groups")
        gaps = small.offsets[..., -1:, :] - small.offsets[..., :-1, :]
        return weigh(small.probs[..., :-1], gaps)

    def divergence(self, score_delta: Float[Tensor, "*edits members"]) -> Float[Tensor, "*lifted"]:
        """KL(p‖p'): a sum of positive terms over the members and the rest."""
        return divergence(self.small_readout, self._with_rest(score_delta))

    def total_variation(
        self, score_delta: Float[Tensor, "*edits members"]
    ) -> Float[Tensor, "*lifted"]:
        """TV(p, p') from the edited entries and the complement mass (eq:sparsetv)."""
        return total_variation(self.small_readout, self._with_rest(score_delta))

    @property
    def small_readout(self) -> Readout:
        """The readout over the members of each group alone and, as its last key, the rest."""
        return computed_once(self, self._build_small_readout)

    def _build_small_readout(self) -> Readout:
        readout, index = self.source.readout(), self.source.index
        rest, relative = self._rest(readout), relative_scores(readout)
        small = evaluate(
            torch.cat([gather(relative, index), rest.log_mass.unsqueeze(-1)], -1),
            torch.cat([gather_vectors(readout.offsets, index), rest.mean.unsqueeze(-2)], -2),
            torch.cat([gather(readout.attended, index), rest.present.unsqueeze(-1)], -1),
        )
        lost = gather(lost_of_relative(readout, relative), index)
        return replace(small, score_lost=_zero_for_rest(lost, -1))

    def _quotient_suffices(self, score_delta: Tensor, value_delta: Tensor | None) -> bool:
        """Whether the quotient is as good as it gets: no e^d beyond 1/eps, plain shapes, no NaN.

        A probability below the normal numbers then grows to something that is still negligible.
        """
        if not self.direct or not _fits(score_delta, self.probs) or not score_delta.numel():
            return False
        if value_delta is not None:
            fits = _fits(value_delta, self.values)
            if not fits or not math.isfinite(number(numbers_of(value_delta).sum())):
                return False
        lowest, highest = map(number, torch.aminmax(numbers_of(score_delta)))
        reach = REACH[score_delta.dtype]
        if not highest <= reach:
            return False
        return lowest >= -reach if self.heavy else math.isfinite(lowest)

    def _quotient(self, score_delta: Tensor, value_delta: Tensor | None) -> Tensor:
        """The paper's quotient, with p expm1(d) = p e^c expm1(d − c) + p expm1(c) where a group is heavy.

        There c is the increment of the dominant member: a common part of the increments would
        otherwise cancel over a group that holds nearly all the mass. Elsewhere c is zero.
        """
        edited = self.probs * torch.exp(score_delta)
        drift = None
        if self.heavy is None:
            growth = torch.expm1(score_delta)
        else:
            dominant = self.heavy.reference.expand(*score_delta.shape[:-1], 1)
            common = torch.gather(score_delta, -1, dominant)
            # A light group moves little mass: there the common part itself would cancel.
            common = torch.where(self.rest < 0.5, common, 0.0)
            growth = torch.exp(common) * torch.expm1(score_delta - common)
            drift = torch.expm1(common) * self.heavy.drift
        change = growth.unsqueeze(-1) * self.pulls
        if value_delta is not None:
            change = change + edited.unsqueeze(-1) * value_delta
        change = change.sum(-2) if drift is None else change.sum(-2) + drift
        return change / (self.rest + edited.sum(-1, keepdim=True))

    def _rest(self, readout: Readout) -> Total:
        """What every group leaves: 1 − α of the mass, or the sum over the rest of a heavy group."""
        light = self.rest >= 0.5
        mass = torch.where(light, self.rest, 1.0)
        dominant = at_reference(readout, readout.probs, feature_axes=0).unsqueeze(-1)
        mean = readout.mean_offset.unsqueeze(-2) - self.pulls.sum(-2) / mass
        total = Total(torch.log(mass / dominant).squeeze(-1), mean, light.squeeze(-1))
        return total if self.heavy is None else merged(total, self.heavy.total, self.heavy.place)

    def _with_rest(self, score_delta: Tensor) -> Tensor:
        """Score increments of the members followed by that of the rest, which is zero."""
        return _padded("score_delta", score_delta, self.probs.shape[-1:], "(..., keys)")


def prepare(readout: Readout, groups: Int[Tensor, "candidates members"]) -> PreparedGroups:
    """Prepare candidate groups of keys for exact sparse edits (Section 4).

    `groups` holds distinct key indices, one row per candidate. Keys outside the attended set may be
    listed and count for nothing; a group needs at least one attended key in every row of the batch.
    For contiguous spans `prepare_spans` does less work.
    """
    _checks.key_indices("groups", groups, readout.keys)
    _checks.one_device(groups=groups, readout=readout.probs)
    _checks.exact_axes("groups", groups, (None, None), "(candidates, members)")
    _require_distinct(groups)
    index = groups.long()
    probs = gather(readout.probs, index)
    return assemble(
        gather(readout.scores, index),
        gather_vectors(readout.values, index),
        probs,
        probs.unsqueeze(-1) * gather_vectors(readout.centred, index),
        require_attended("groups", gather(readout.attended, index)),
        Source(lambda: readout, index, outside_groups(index)),
    )


def require_attended(name: str, inside: Tensor | None) -> bool:
    """Whether all members of all groups are attended; raise if a group has none that is."""
    if inside is None:
        return True
    if refuted(inside.any(-1).all()):
        raise ValueError(
            f"`{name}` must each contain an attended key in every row of the batch; got a group with "
            f"none. Editing keys that are not attended changes nothing: drop the candidate."
        )
    return known(inside.all())


def assemble(
    scores: Tensor, values: Tensor, probs: Tensor, pulls: Tensor, direct: bool, source: Source
) -> PreparedGroups:
    """Groups with the probability of their rest: 1 − α, or summed anew if α exceeds one half."""
    rest = torch.sub(1, probs.sum(-1, keepdim=True))
    prepared = PreparedGroups(scores, values, probs, pulls, rest, None, direct, source)
    if not rest.numel() or number(numbers_of(rest).amin()) >= 0.5:
        return prepared
    return _with_rest(prepared)


def _with_rest(prepared: PreparedGroups) -> PreparedGroups:
    """Sum the rest of every group that holds more than half of the mass on its own."""
    light = prepared.rest >= 0.5
    readout, candidates = prepared.source.readout(), light.shape[-2]
    some = _heavy_candidates(light)
    total = prepared.source.outside(readout, some)
    place = torch.arange(candidates, device=some.device)
    place[some] = candidates + torch.arange(len(some), device=some.device)
    dominant = at_reference(readout, readout.probs, feature_axes=0)
    mass = torch.where(total.present, torch.exp(total.log_mass) * dominant, 0.0).unsqueeze(-1)
    drift = mass * (readout.mean_offset.unsqueeze(-2) - total.mean)
    # A group may be heavy in one row of the batch and light in another.
    rest = torch.where(light, prepared.rest, _placed(prepared.rest, mass, place))
    inside = prepared.pulls.sum(-2)
    heavy = _Heavy(
        drift=torch.where(light, inside, _placed(inside, drift, place)),
        reference=prepared.probs.argmax(-1, keepdim=True),
        total=total,
        place=place,
    )
    return replace(prepared, rest=rest, heavy=heavy)


def _heavy_candidates(light: Tensor) -> Tensor:
    """The candidates that are not light in every row of the batch; all of them if nobody can tell."""
    candidates = light.shape[-2]
    if not readable(light):
        return torch.arange(candidates, device=light.device)
    return (~light).reshape(-1, candidates).any(0).nonzero().squeeze(-1)


def _placed(light: Tensor, heavy: Tensor, place: Tensor) -> Tensor:
    """Entry `place[c]` of the candidates followed by the heavy ones."""
    return torch.cat([light, heavy], -2).index_select(-2, place)


def numbers_of(tensor: Tensor) -> Tensor:
    """The numbers alone, without error bounds or a graph, to decide on."""
    tensor = value_of(tensor)
    return tensor.detach() if tensor.requires_grad else tensor


def gather(per_key: Tensor, index: Tensor) -> Tensor:
    """Entries (..., keys) at the groups, as (..., candidates, members)."""
    picked = per_key.index_select(-1, index.flatten())
    return picked.reshape(*per_key.shape[:-1], *index.shape)


def gather_vectors(per_key: Tensor, index: Tensor) -> Tensor:
    """Vectors (..., keys, width) at the groups, as (..., candidates, members, width)."""
    picked = per_key.index_select(-2, index.flatten())
    return picked.reshape(*per_key.shape[:-2], *index.shape, per_key.shape[-1])


def _fits(delta: Tensor, members: Tensor) -> bool:
    if delta.dtype != members.dtype or isinstance(delta, Tracked) != isinstance(members, Tracked):
        return False
    return delta.shape[-members.ndim :] == members.shape


def _padded(name: str, delta: Tensor, expected: tuple[int, ...], words: str) -> Tensor:
    """Increments of the members with a zero for the rest."""
    _checks.floating(name, delta)
    _checks.last_axes(name, delta, expected, words)
    return _zero_for_rest(delta, -len(expected))


def _zero_for_rest(per_member: Tensor, axis: int) -> Tensor:
    """What belongs to the members, with a zero for the rest."""
    return torch.cat([per_member, torch.zeros_like(per_member.narrow(axis, 0, 1))], axis)


def _require_distinct(groups: Tensor) -> None:
    if groups.numel() == 0:
        raise ValueError(
            f"`groups` must hold at least one candidate with one member; got shape "
            f"{tuple(groups.shape)}. List the key indices that each candidate edits."
        )
    ordered = groups.sort(-1).values
    if known((ordered[:, 1:] == ordered[:, :-1]).any()):
        raise ValueError(
            "`groups` must list distinct keys in every row; got a repeated index. "
            "A key can be edited only once per candidate."
        )
