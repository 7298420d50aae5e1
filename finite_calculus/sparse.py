"""Sparse evaluation of joint edits: Section 4 and Appendix D (main:sparse, eq:sparsejoint).

An edit of a few keys needs only those keys and two statistics of all the others: their total weight
and their mean value. With the edited keys as one group, softmax is a choice between the group and the
rest, followed by a choice inside the group; the exact response is the response of these two small
readouts, composed. Nothing is obtained by subtracting a group from the whole, so a group that holds
all but 1e-16 of the mass costs no digits.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finite_calculus import _checks
from finite_calculus.certificate import divergence
from finite_calculus.readout import Readout, evaluate, relative_scores
from finite_calculus.response import difference, finite_response, log_normaliser, reallocate


@dataclass(frozen=True, eq=False)
class PreparedGroups:
    """Candidate groups prepared once, to be evaluated at many strengths; build with `prepare`.

    `members` is the readout inside each group and `choice` the two-key readout between the group
    (key 0) and the rest (key 1); both have batch shape (*batch, candidates).
    """

    members: Readout
    choice: Readout

    def response(
        self,
        score_delta: Float[Tensor, "*edits members"],
        value_delta: Float[Tensor, "*vedits members width"] | None = None,
    ) -> Float[Tensor, "*lifted width"]:
        """Exact response y' − y of every candidate (eq:sparsejoint).

        Increments have shape (..., *batch, candidates, members); further leading dimensions, such as
        strengths, are free. Entries that only change value have `score_delta` zero.
        """
        inside = finite_response(self.members, score_delta, value_delta)
        edit = torch.stack([inside, torch.zeros_like(inside)], -2)
        return finite_response(self.choice, self._mass_delta(score_delta), edit)

    def deletion(self) -> Float[Tensor, "*batch width"]:
        """Exact response to deleting each group: α(y_rest − y_group) (eq:groupdeletion)."""
        require_rest(self.choice, "groups")
        gap = self.choice.values[..., 1, :] - self.choice.values[..., 0, :]
        return self.choice.probs[..., :1] * gap

    def divergence(self, score_delta: Float[Tensor, "*edits members"]) -> Float[Tensor, "*lifted"]:
        """KL(p‖p') = KL(choice) + mass·KL(members), the chain rule: only positive terms."""
        inside = divergence(self.members, score_delta)
        outside = divergence(self.choice, self._mass_delta(score_delta))
        return outside + self.choice.probs[..., 0] * inside

    def total_variation(
        self, score_delta: Float[Tensor, "*edits members"]
    ) -> Float[Tensor, "*lifted"]:
        """TV(p, p') from the edited entries and the complement mass (eq:sparsetv)."""
        outer = reallocate(self.choice, self._mass_delta(score_delta))
        inner = reallocate(self.members, score_delta)
        change = difference(
            self.choice.probs[..., :1] * self.members.probs,
            outer.probs[..., :1] * inner.probs,
            outer.log_ratio[..., :1] + inner.log_ratio,
        )
        return (change.abs().sum(-1) + outer.change[..., 1].abs()) / 2

    def _mass_delta(self, score_delta: Tensor) -> Tensor:
        """Increments (log D_group, 0) of the choice between group and rest."""
        grown = log_normaliser(self.members, score_delta)
        return torch.cat([grown, torch.zeros_like(grown)], -1)


def prepare(readout: Readout, groups: Int[Tensor, "candidates members"]) -> PreparedGroups:
    """Prepare the complement statistics of candidate groups of keys (Section 4).

    `groups` holds distinct key indices, one row per candidate. Keys outside the attended set may be
    listed and count for nothing; a group needs at least one attended key in every row of the batch.
    """
    _checks.key_indices("groups", groups, readout.keys)
    _checks.exact_axes("groups", groups, (None, None), "(candidates, members)")
    membership = _membership(groups, readout.keys)
    inside = _gather(readout.attended, groups)
    if not bool(inside.any(-1).all()):
        raise ValueError(
            "`groups` must each contain an attended key in every row of the batch; got a group with "
            "none. Editing keys that are not attended changes nothing: drop the candidate."
        )
    scores = _gather(relative_scores(readout), groups)
    values = _gather(readout.offsets.transpose(-1, -2), groups).movedim(-3, -1)
    return PreparedGroups(evaluate(scores, values, inside), choose(readout, membership))


def choose(readout: Readout, membership: Bool[Tensor, "candidates keys"]) -> Readout:
    """Two-key readout between each group of keys and the rest, values measured from the dominant key.

    Each side is summed on its own. A side without attended keys is marked as not attended.
    """
    sides = torch.stack([membership, ~membership], -2).flatten(0, 1)
    attended = readout.attended.unsqueeze(-2) & sides
    scores = relative_scores(readout).unsqueeze(-2)
    present = attended.any(-1, keepdim=True)
    top = torch.where(attended, scores, -torch.inf).detach().amax(-1, keepdim=True)
    top = torch.where(present, top, 0.0)
    weights = torch.where(attended, torch.exp(torch.where(attended, scores - top, 0.0)), 0.0)
    total = torch.where(present, weights.sum(-1, keepdim=True), 1.0)
    means = torch.matmul(weights / total, readout.offsets)
    shape = (*readout.batch, membership.shape[0], 2)
    masses = (top + torch.log(total)).reshape(shape)
    return evaluate(masses, means.reshape(*shape, means.shape[-1]), present.reshape(shape))


def require_rest(choice: Readout, name: str) -> None:
    """Raise if a group of `choose` holds every attended key, so that deleting it leaves nothing."""
    if not bool(choice.attended[..., 1].all()):
        raise ValueError(
            f"`{name}` must leave at least one attended key; got a group that holds all of them. "
            f"A softmax over nothing is undefined: keep a key, for instance the query's own."
        )


def _gather(per_key: Tensor, groups: Tensor) -> Tensor:
    """Entries (..., keys) at the groups, as (..., candidates, members)."""
    picked = per_key.index_select(-1, groups.flatten())
    return picked.reshape(*per_key.shape[:-1], *groups.shape)


def _membership(groups: Tensor, keys: int) -> Tensor:
    candidates, members = groups.shape
    if candidates == 0 or members == 0:
        raise ValueError(
            f"`groups` must hold at least one candidate with one member; got shape "
            f"{tuple(groups.shape)}. List the key indices that each candidate edits."
        )
    empty = torch.zeros(candidates, keys, dtype=torch.bool, device=groups.device)
    membership = empty.scatter(1, groups, True)
    if int(membership.sum()) != groups.numel():
        raise ValueError(
            "`groups` must list distinct keys in every row; got a repeated index. "
            "A key can be edited only once per candidate."
        )
    return membership
