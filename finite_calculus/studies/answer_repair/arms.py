"""Which edits each arm tries: rows of one scored family, the same for all arms, ranked in different ways.

"ranked" goes by the exact joint score towards the target, "first-order" by the score with the response
linearised in the score increments, "random" draws rows. "attention" multiplies the odds by 64 at the places
with the most attention, whatever they hold, and "attention to target" at those among them that spell
the target, so that it knows as much as the ranking does.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.search.block import Block
from finite_calculus.search.score import PreparedSearch
from finite_calculus.search.table import ScoreTable

_BOOST = "odds ×64"


def arm_rows(
    prepared: PreparedSearch,
    table: ScoreTable,
    places: Sequence[int],
    count: int,
    seed: Sequence[int],
) -> Mapping[str, list[int]]:
    """The first `count` rows of each arm, best first; `places` are the tokens that spell the target."""
    rng = np.random.default_rng(np.random.SeedSequence([*seed]))
    mass = attention_mass(prepared)
    spells = torch.cat([_spells(block, places) for block in prepared.blocks])
    on_target = torch.where(spells, mass, -torch.inf)
    return {
        "ranked": table.order(count, towards="answer"),
        "first-order": _largest(first_order(prepared), count),
        "attention": _largest(mass, count),
        "attention to target": _largest(on_target, count),
        "random": [int(row) for row in rng.choice(len(table), count, replace=False)],
    }


def first_order(prepared: PreparedSearch) -> Float[Tensor, " rows"]:
    """First-order effects Σ p d (v − y) + Σ p ε of every row, along the gradient.

    A deletion's score falls without limit; its first order is −Σ p (v − y), the change per unit of mass.
    """
    return torch.cat([_first_order(block) for block in prepared.blocks])


def attention_mass(prepared: PreparedSearch) -> Float[Tensor, " rows"]:
    """Attention of the last token, the mean over heads, for rows that multiply odds by 64; −∞ for others."""
    return torch.cat([_mass(block) for block in prepared.blocks])


def _first_order(block: Block) -> Tensor:
    singles = block.places.stack.singles
    pulls = singles.pulls.squeeze(-1)
    if block.removes:
        first = -pulls
    else:
        first = torch.zeros_like(pulls)
        if block.scores is not None:
            first = first + pulls * block.scores
        if block.values is not None:
            first = first + singles.probs * block.values
    return first.sum(-2).index_select(-1, block.places.columns[:, 0]).flatten()


def _mass(block: Block) -> Tensor:
    probs = block.places.stack.singles.probs.mean(-2)
    picked = probs.index_select(-1, block.places.columns[:, 0]).flatten()
    return picked if block.kind.name == _BOOST else torch.full_like(picked, -torch.inf)


def _spells(block: Block, places: Sequence[int]) -> Tensor:
    """Whether the token of a row is one of the places."""
    tokens = block.places.stack.tokens(block.places.columns[:, 0])
    return torch.isin(tokens, torch.tensor(places)).repeat(len(block.places.stack.layers))


def _largest(column: Tensor, count: int) -> list[int]:
    order = torch.argsort(column, descending=True, stable=True)[:count]
    return [row for row in order.tolist() if column[row] > -torch.inf]
