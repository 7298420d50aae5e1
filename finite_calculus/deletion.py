"""Deleting groups of keys from one readout: Section 4 and Appendix G (eq:groupdeletion).

Removing a group renormalises attention over what remains; the change of the readout is exact for the
current query, and its projected norm is the distortion that a cache eviction causes now. Future
queries need their own evaluation.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from finite_calculus import _checks
from finite_calculus._complement import choose, require_rest
from finite_calculus._transforms import require_numbers
from finite_calculus._units import product
from finite_calculus.margin import norm, project
from finite_calculus.readout import Readout


@dataclass(frozen=True)
class EvictionPlan:
    """Groups evicted in order, and the exact projected-write distortion after each step."""

    evicted: tuple[int, ...]
    distortions: tuple[float, ...]
    budget: float


def deletion_response(
    readout: Readout, removed: Bool[Tensor, "candidates keys"]
) -> Float[Tensor, "*batch candidates width"]:
    """Exact response to deleting each group of keys (eq:groupdeletion).

    Δy = (αy − w_G)/(1 − α) = α(y_rest − y_group), with the two sides summed separately: the
    quotient fails as α → 1. `removed` is True at the deleted keys and must leave an attended key.
    """
    choice = choose(readout, _check_removed(readout, removed))
    require_rest(choice.attended[..., 1], "removed")
    half_gap = 0.5 * choice.values[..., 1, :] - 0.5 * choice.values[..., 0, :]
    return 2 * (choice.probs[..., :1] * half_gap)


def deletion_jacobian(
    readout: Readout, removed: Bool[Tensor, "candidates keys"]
) -> Float[Tensor, "*batch candidates width"]:
    """First-order control αy − w_G = −Σ_G p (v − y) of Appendix G.

    Over all keys the sum is zero, so a group with more than half of the mass is summed from the rest.
    """
    removed, probs = _check_removed(readout, removed), readout.probs.unsqueeze(-2)
    heavy = torch.where(removed, probs, 0.0).sum(-1, keepdim=True) > 0.5
    lighter = torch.where(removed ^ heavy, torch.where(heavy, probs, -probs), 0.0)
    return 2 * product(lighter, readout.half_centred)


def select_evictions(
    readout: Readout,
    groups: Bool[Tensor, "candidates keys"],
    output_projection: Float[Tensor, "heads width model"],
    budget: float,
) -> EvictionPlan:
    """Evict as many groups as a write-distortion budget allows (Appendix G).

    Greedy: each step evicts the group that leaves the smallest ‖Σ_h Δy_h W_{o,h}‖₂, evaluated exactly
    for the union with all groups evicted before, and stops when none fits. The readout has shape
    (heads, keys). Distortion is that of the current query's write.
    """
    if not budget >= 0:
        raise ValueError(
            f"`budget` must be a non-negative norm; got {budget}. Use 0 to evict nothing."
        )
    if len(readout.batch) != 1:
        raise ValueError(
            f"`readout` must have the batch shape (heads,); got {readout.batch}. "
            f"A plan belongs to one query: loop over queries."
        )
    groups = _check_removed(readout, groups, "groups")
    reason = "it decides after each eviction whether there is another"
    numbers = {"groups": groups, "readout": readout.probs, "output_projection": output_projection}
    require_numbers("select_evictions", reason, **numbers)
    gone = torch.zeros(readout.keys, dtype=torch.bool, device=groups.device)
    left = list(range(groups.shape[0]))
    evicted: list[int] = []
    distortions: list[float] = []
    while left:
        trial = torch.stack([gone | groups[index] for index in left])
        norms = _distortion(readout, trial, output_projection).detach()
        best = int(norms.argmin())
        if not float(norms[best]) <= budget or not bool(torch.isfinite(norms[best])):
            break
        distortions.append(float(norms[best]))
        evicted.append(left.pop(best))
        gone = trial[best]
    return EvictionPlan(tuple(evicted), tuple(distortions), budget)


def _distortion(readout: Readout, removed: Tensor, output_projection: Tensor) -> Tensor:
    """‖Σ_h Δy_h W_{o,h}‖₂ of each deletion, infinite where it would leave some head nothing."""
    leaves = (readout.attended & ~removed.unsqueeze(-2)).any(-1).all(-1)
    norms = torch.full(leaves.shape, torch.inf, dtype=readout.probs.dtype, device=removed.device)
    if bool(leaves.any()):
        response = deletion_response(readout, removed[leaves]).movedim(-3, -2)
        norms[leaves] = norm(project(response, output_projection))
    return norms


def _check_removed(readout: Readout, removed: Tensor, name: str = "removed") -> Tensor:
    if removed.dtype != torch.bool:
        raise TypeError(
            f"`{name}` must be boolean, True at deleted keys; got {removed.dtype}. "
            f"Build it with torch.zeros(candidates, keys, dtype=torch.bool)."
        )
    _checks.one_device(**{name: removed}, readout=readout.probs)
    _checks.exact_axes(name, removed, (None, readout.keys), "(candidates, keys)")
    return removed
