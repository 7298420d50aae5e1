"""Windows drawn at random, and the write after an eviction from the definition."""

from dataclasses import replace

import torch
from torch import Tensor

from finite_calculus.cache import QueryWindow


def drawn_window(
    *,
    queries: int = 3,
    heads: int = 4,
    groups: int = 2,
    keys: int = 8,
    sinks: bool = False,
    seed: int = 0,
) -> QueryWindow:
    """A window of the last queries of a text, each attending to all tokens up to its own."""
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw)

    tokens = torch.arange(keys)
    seen = tokens <= torch.arange(keys - queries, keys).unsqueeze(1)
    return QueryWindow(
        layer=0,
        tokens=tokens.expand(groups, -1),
        queries=normal(queries, heads, 6),
        keys=normal(groups, keys, 6),
        values=normal(groups, keys, 5),
        attended=seen.unsqueeze(1).expand(-1, groups, -1),
        scaling=0.6,
        softcap=None,
        sinks=normal(heads) if sinks else None,
        output_projection=normal(heads, 5, 7),
        write_bias=normal(7),
    )


def written(window: QueryWindow, evicted: Tensor) -> Tensor:
    """Σ_h softmax over the kept keys, times their values, times W_h: head by head, query by query."""
    rows = []
    for query in range(window.count):
        total = window.write_bias.double().clone()  # pyright: ignore[reportOptionalMemberAccess]
        for head in range(window.heads):
            group = head // window.members
            scores = window.keys[group].double() @ window.queries[query, head].double()
            kept = window.attended[query, group] & ~evicted[head]
            weights = (scores[kept] * window.scaling).exp()
            mass = weights.sum()
            if window.sinks is not None:
                mass = mass + window.sinks[head].double().exp()
            mixed = weights / mass @ window.values[group].double()[kept]
            total += mixed @ window.output_projection[head].double()
        rows.append(total)
    return torch.stack(rows)


def without(window: QueryWindow, evicted: Tensor) -> QueryWindow:
    """The window whose groups have lost what all of their heads lose."""
    by_group = evicted.unflatten(0, (window.groups, window.members)).all(1)
    return replace(window, attended=window.attended & ~by_group)


def rounding(window: QueryWindow) -> Tensor:
    """What float64 may take from each entry of a write, however its sums are ordered.

    A score is a sum of `width` products, so that its exponential errs by as many units of the largest |s|;
    then come sums over keys, values and heads. Units are of Σ|terms|, doubled for a second evaluation.
    """
    seen = window.scores()[window.head_mask()]
    steps = (window.keys.shape[-1] + 4) * (1 + float(seen.abs().max())) + 2 * window.length
    steps += window.heads * window.values.shape[-1] + 4
    grouped = window.probs().unflatten(1, (window.groups, window.members))
    terms = torch.einsum("qgmk,gkw->qgmw", grouped, window.values.double().abs()).flatten(1, 2)
    sizes = torch.einsum("qhw,hwm->qm", terms, window.output_projection.double().abs())
    if window.write_bias is not None:
        sizes = sizes + window.write_bias.double().abs()
    return 2 * steps * torch.finfo(torch.float64).eps * sizes
