"""What each stored key or value is worth: the exact benefit of reading another one in its place.

Two states of one layer's cache, what is read now and what could be, are held to the writes of the original
(eq:repairbenefit). Each entry of a group is changed alone, the others as they are read now;
benefits of several entries do not add up, so that whoever changes many must ask again.

A benefit is ‖Δ_j o‖² and a term between Δ_j o and the other entries' errors. For the window's queries both
count. For queries to come that term is another one; if those errors are independent, ‖Δ_j o‖² is expected.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

import finite_calculus as fc
from finite_calculus.cache.window import QueryWindow
from finite_calculus.margin import norm
from finite_calculus.models.layer import repeat_groups
from finite_calculus.models.sinks import null_sink, sink_scores

# exp of minus this is zero in float64.
_UNSEEN = 1e3
# Numbers of one tensor over queries, heads, keys and width that may be held at a time.
_CHUNK = 1 << 22


def entry_benefits(
    original: QueryWindow, now: QueryWindow, better: QueryWindow
) -> Float[Tensor, "groups keys"]:
    """B_j = (‖e‖² − ‖e + Δ_j o‖²)/‖o‖², the mean over the window's queries, for every entry j of a group.

    e is the error of the write as it is read `now`, Δ_j o its exact response to reading entry j from
    `better`. All three windows differ in keys and values alone.
    """
    error, sizes = now.writes() - original.writes(), original.sizes()
    total = torch.zeros(now.groups, now.length, dtype=torch.float64)
    for rows, change in _changes(now, better):
        apart = error[rows].unsqueeze(1).expand(-1, now.groups, -1)
        benefit = fc.restoration_benefit(apart, change)
        total += (benefit / sizes[rows, None, None] ** 2).sum(0)
    return total / now.count


def entry_changes(
    original: QueryWindow, now: QueryWindow, better: QueryWindow
) -> Float[Tensor, "groups keys"]:
    """‖Δ_j o‖²/‖o‖² as in `entry_benefits`: how far entry j alone moves the writes, whichever way.

    To choose what to restore for queries to come; measured beside the benefit in docs/cache.md.
    """
    sizes = original.sizes()
    total = torch.zeros(now.groups, now.length, dtype=torch.float64)
    for rows, change in _changes(now, better):
        total += (change.square().sum(-1) / sizes[rows, None, None] ** 2).sum(0)
    return total / now.count


def _changes(now: QueryWindow, better: QueryWindow) -> Iterator[tuple[Tensor, Tensor]]:
    """Some queries, and their (queries, groups, keys, model) responses to each entry alone."""
    mask, scores = now.head_mask(), now.scores()
    score_delta = (better.scores() - scores).masked_fill(~mask, 0.0)
    # A key that a query does not attend to weighs nothing for it: exp(−UNSEEN) is zero.
    scores = torch.where(mask, scores, scores.amin(-1, keepdim=True) - _UNSEEN)
    values = repeat_groups(now.values.double(), now.heads)
    value_delta = repeat_groups(better.values.double(), now.heads) - values
    weight = now.output_projection.double().unflatten(0, (now.groups, now.members))
    singles = torch.arange(now.length).unsqueeze(-1)
    some = max(1, _CHUNK // values.numel())
    for rows in torch.arange(now.count).split(some):
        readout = fc.freeze(
            sink_scores(scores[rows], now.sinks),
            null_sink(values, now.sinks, dim=-2).expand(len(rows), -1, -1, -1),
        )
        delta = score_delta[rows].unsqueeze(-1)
        response = fc.prepare(readout, singles).response(delta, value_delta.unsqueeze(-2))
        grouped = response.unflatten(1, (now.groups, now.members))
        yield rows, torch.einsum("qgmkw,gmwd->qgkd", grouped, weight)


def relative_errors(original: QueryWindow, now: QueryWindow) -> Float[Tensor, " queries"]:
    """‖e‖/‖o‖ of every query."""
    return norm(now.writes() - original.writes()) / original.sizes()


def reading(window: QueryWindow, keys: Tensor, values: Tensor) -> QueryWindow:
    """The window with other keys and values for its first tokens; the rest is read as it is."""
    kept = keys.shape[1]
    return replace(
        window,
        keys=torch.cat([keys, window.keys[:, kept:]], 1),
        values=torch.cat([values, window.values[:, kept:]], 1),
    )
