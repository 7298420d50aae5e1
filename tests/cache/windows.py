"""Windows drawn at random, and the write after an eviction from the definition."""

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
