"""What a group of keys leaves of the bank: the weight and the mean value of all the other keys.

Section 4 asks for positive complement masses. A group that holds at most half of the mass has the
complement 1 − α, which loses no digits; the complement of a heavier group is summed on its own, from
its own largest score, so that a group with all but 1e-16 of the mass costs no digits either. Sums run
over chunks of candidates: memory does not grow as candidates × keys.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finite_calculus._transforms import refuted
from finite_calculus._units import product
from finite_calculus.readout import Readout, evaluate, relative_scores

# Entries that one chunk of candidates may hold at a time.
_CHUNK = 1 << 21


@dataclass(frozen=True, eq=False)
class Total:
    """Sets of keys, each as one key: the logarithm of its weight and its mean value.

    Weights are relative to the dominant key of the bank, and mean values are offsets from that key's
    value, as in `Readout`. A set without attended keys is not `present`, and then both are zero.
    """

    log_mass: Float[Tensor, "*batch sets"]
    mean: Float[Tensor, "*batch sets width"]
    present: Bool[Tensor, "*batch sets"]


# From a readout and the indices of some candidates to the totals of what these leave.
Outside = Callable[[Readout, Int[Tensor, " some"]], Total]


def normalised(
    scores: Float[Tensor, "*batch keys"], included: Bool[Tensor, "*sets keys"]
) -> tuple[Tensor, Tensor, Tensor]:
    """Softmax over the included keys, the logarithm of its normaliser and whether there are any."""
    present = included.any(-1)
    top = torch.where(included, scores, -torch.inf).detach().amax(-1)
    top = torch.where(present, top, 0.0).unsqueeze(-1)
    weights = torch.where(included, torch.exp(torch.where(included, scores - top, 0.0)), 0.0)
    total = torch.where(present.unsqueeze(-1), weights.sum(-1, keepdim=True), 1.0)
    return weights / total, (top + torch.log(total)).squeeze(-1), present


def total_of(readout: Readout, included: Bool[Tensor, "sets keys"]) -> Total:
    """The totals of sets of keys, a chunk of sets at a time."""
    scores, attended = relative_scores(readout).unsqueeze(-2), readout.attended.unsqueeze(-2)
    parts = []
    for some in included.split(chunk(readout.probs.numel())):
        weights, log_mass, present = normalised(scores, attended & some)
        parts.append(Total(log_mass, product(weights, readout.offsets), present))
    return joined(parts)


def choose(readout: Readout, membership: Bool[Tensor, "candidates keys"]) -> Readout:
    """Two-key readout between each group of keys and the rest, values measured from the dominant key.

    Each side is summed on its own. A side without attended keys is marked as not attended.
    """
    group, rest = total_of(readout, membership), total_of(readout, ~membership)
    return evaluate(
        torch.stack([group.log_mass, rest.log_mass], -1),
        torch.stack([group.mean, rest.mean], -2),
        torch.stack([group.present, rest.present], -1),
    )


def outside_groups(groups: Int[Tensor, "candidates members"]) -> Outside:
    """Complements of any groups of keys, by running over the bank for each of them."""

    def outside(readout: Readout, some: Tensor) -> Total:
        parts = []
        for rows in groups.index_select(0, some).split(chunk(readout.probs.numel())):
            every = torch.ones(len(rows), readout.keys, dtype=torch.bool, device=rows.device)
            parts.append(total_of(readout, every.scatter(1, rows, False)))
        return joined(parts)

    return outside


def rest_of_each(readout: Readout) -> Float[Tensor, "*batch keys"]:
    """1 − p of every key; the dominant key's, which alone may be heavy, is summed from the others."""
    keys = torch.arange(readout.keys, device=readout.probs.device)
    dominant = keys == readout.reference
    others = torch.where(dominant, 0.0, readout.probs).sum(-1, keepdim=True)
    return torch.where(dominant, others, 1 - readout.probs)


def require_rest(present: Bool[Tensor, "*batch candidates"], name: str) -> None:
    """Raise if a group holds every attended key, so that deleting it leaves nothing."""
    if refuted(present.all()):
        raise ValueError(
            f"`{name}` must leave at least one attended key; got a group that holds all of them. "
            f"A softmax over nothing is undefined: keep a key, for instance the query's own."
        )


def joined(parts: list[Total]) -> Total:
    """The totals of several chunks of sets as one."""
    if len(parts) == 1:
        return parts[0]
    return Total(
        torch.cat([part.log_mass for part in parts], -1),
        torch.cat([part.mean for part in parts], -2),
        torch.cat([part.present for part in parts], -1),
    )


def merged(light: Total, heavy: Total, place: Int[Tensor, " candidates"]) -> Total:
    """The totals of all candidates: entry `place[c]` of the light ones followed by the heavy ones."""
    both = joined([light, heavy])
    return Total(
        both.log_mass.index_select(-1, place),
        both.mean.index_select(-2, place),
        both.present.index_select(-1, place),
    )


def chunk(entries: int) -> int:
    """How many sets of this many entries make a chunk."""
    return max(1, _CHUNK // max(1, entries))
