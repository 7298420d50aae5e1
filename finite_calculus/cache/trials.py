"""What each further eviction would do, all candidates at once, beside everything that is evicted already.

Deleting G from a head changes its readout by Δy = Σ_G p(y − v)/(1 − α) (eq:groupdeletion), so the write of a
set is Δo = Σ_h N_h/r_h with N_h = Σ_G p(y_h − v)W_h and r_h the weight that remains. With v W_h at hand for
every key and head, Δo of G and one entry more costs heads × model for each candidate. This is for choosing:
it works in float32 and subtracts from r. What is reported of a choice comes from `QueryWindow.changes`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finite_calculus.cache.window import QueryWindow

Scope = Literal["token", "group", "head"]
Over = Literal["worst", "mean"]
# Numbers in one chunk of trial writes, queries × candidates × model.
_CHUNK = 1 << 22
# Below this weight a head has next to nothing left, and the difference that it comes from no digits.
_LEAST = 1e-12


@dataclass(frozen=True)
class Measure:
    """How the changes of several writes become one figure: the worst or the mean of ‖Δo‖/`sizes`."""

    over: Over | str
    sizes: Float[Tensor, " queries"]

    def __post_init__(self) -> None:
        if self.over not in get_args(Over):
            raise ValueError(f"`over` must be one of {get_args(Over)}; got {self.over!r}.")

    def of(self, norms: Float[Tensor, "queries *candidates"]) -> Float[Tensor, "*candidates"]:
        """The figure of each candidate."""
        each = norms / self.sizes.to(norms.dtype).reshape(-1, *[1] * (norms.ndim - 1))
        return each.amax(0) if self.over == "worst" else each.mean(0)


def head_blocks(window: QueryWindow, scope: Scope | str) -> tuple[slice, ...]:
    """Heads that lose an entry together: all of them, those of one group, or each on its own."""
    if scope not in get_args(Scope):
        raise ValueError(f"`scope` must be one of {get_args(Scope)}; got {scope!r}.")
    size = {"token": window.heads, "group": window.members, "head": 1}[scope]
    return tuple(slice(first, first + size) for first in range(0, window.heads, size))


class Trials:
    """A growing set of evicted entries of one layer, and the figure of every set that differs by one."""

    def __init__(
        self,
        window: QueryWindow,
        scope: Scope | str,
        measure: Measure,
        candidates: Bool[Tensor, " keys"],
    ) -> None:
        self.window, self.measure = window, measure
        self.blocks = head_blocks(window, scope)
        # Rows of `pulls`: only candidates have one.
        self.row = candidates.cumsum(0) - 1
        self.probs = window.probs()
        weight = window.output_projection.double()
        output = torch.einsum(
            "qgmk,gkw->qgmw",
            self.probs.unflatten(1, (window.groups, window.members)),
            window.values.double(),
        ).flatten(1, 2)
        # Values are measured from the last query's output, so that a large common part costs no digits.
        centre = output[-1]
        from_centre = window.values[:, candidates].double().repeat_interleave(window.members, 0)
        from_centre = from_centre - centre.unsqueeze(1)
        self.bases = _bases(weight, len(self.blocks))
        own = [self._inside(b, weight[heads].float()) for b, heads in enumerate(self.blocks)]
        self.pulls = torch.einsum("hkw,hwr->khr", from_centre.float(), torch.cat(own))
        self.pulls = self.pulls.contiguous()
        self.outputs = torch.einsum("qhw,hwm->qhm", output - centre, weight).float()
        self.gone = torch.zeros(len(self.blocks), window.length, dtype=torch.bool)
        # The weight of a head's sink, which always stays.
        self.sunk = (1 - self.probs.sum(-1)).clamp(min=0.0) * (window.sinks is not None)
        self.place([])

    @property
    def figure(self) -> float:
        """The figure of the present set."""
        return float(self.measure.of(torch.linalg.vector_norm(self._write(), dim=-1)))

    def place(self, evicted: Sequence[Tensor]) -> None:
        """Start from a given set, as key columns of each block."""
        self.gone.zero_()
        self.numerators, self.rest = torch.zeros_like(self.outputs), self._weights()
        for block, columns in enumerate(evicted):
            self.turn(block, columns)

    def turn(self, block: int, columns: Int[Tensor, " some"]) -> None:
        """Let entries change sides: kept ones are evicted, evicted ones come back."""
        heads = self.blocks[block]
        sign = torch.where(self.gone[block, columns], -1.0, 1.0)
        moved = self.probs[:, heads, columns].float() * sign
        self.gone[block, columns] ^= True
        drawn = torch.einsum("qhk,khr->qhr", moved, self.pulls[self.row[columns], heads])
        kept = moved.sum(-1, keepdim=True) * self.outputs[:, heads]
        self.numerators[:, heads] += kept - self._outside(block, drawn)
        self.rest = self._weights()

    def figures(self, block: int, columns: Int[Tensor, " some"]) -> Float[Tensor, " some"]:
        """The figure after each of these entries changes sides: evicted if it is kept, kept if evicted.

        Infinite where a head that attends to something would be left with nothing.
        """
        if not len(columns):
            return torch.empty(0)
        heads = self.blocks[block]
        base = self._write() - self._write(heads)
        some = max(1, _CHUNK // max(1, base.numel()))
        parts = [self._figures(block, base, part, self.gone[block]) for part in columns.split(some)]
        return torch.cat(parts)

    def pulled(self, columns: Int[Tensor, " some"]) -> Float[Tensor, "some heads model"]:
        """v W_h of some keys, from the centre."""
        pulls = self.pulls[self.row[columns]]
        return torch.cat([self._outside(b, pulls[:, h]) for b, h in enumerate(self.blocks)], 1)

    def _inside(self, block: int, vectors: Tensor) -> Tensor:
        """Vectors of the model's width in the basis of a block, if there are bases."""
        return vectors if self.bases is None else vectors @ self.bases[block]

    def _outside(self, block: int, vectors: Tensor) -> Tensor:
        """Vectors in the basis of a block in the model's width."""
        return vectors if self.bases is None else vectors @ self.bases[block].mT

    def _figures(self, block: int, base: Tensor, columns: Tensor, gone: Tensor) -> Tensor:
        """Figures of some columns; where they lie close together their neighbours come along, uncopied."""
        first, last = int(columns[0]), int(columns[-1]) + 1
        rows = self.row[columns]
        near = last - first <= 2 * len(columns) and int(rows[-1] - rows[0]) == last - 1 - first
        if not near or bool((columns.diff() < 0).any()):
            pulls = self.pulls[rows, self.blocks[block]]
            return self.measure.of(self._trial(block, base, columns, pulls, gone[columns]))
        every = torch.arange(first, last)
        pulls = self.pulls[int(rows[0]) : int(rows[-1]) + 1, self.blocks[block]]
        figures = self.measure.of(self._trial(block, base, every, pulls, gone[first:last]))
        return figures[columns - first]

    def _trial(
        self, block: int, base: Tensor, columns: Tensor, pulls: Tensor, back: Tensor
    ) -> Tensor:
        """Norms of the trial writes, (queries, columns), in the space that the block's heads write into."""
        heads, inside = self.blocks[block], self._inside(block, base)
        beyond = (base - self._outside(block, inside)).square().sum(-1)
        sign = torch.where(back, -1.0, 1.0).double()
        moved = self.probs[:, heads, columns] * sign
        rest = self.rest[:, heads].unsqueeze(-1) - moved
        empty = (rest <= _LEAST) & (moved > 0)
        inverse = torch.where(empty, 0.0, 1 / rest.clamp(min=_LEAST)).float()
        weight = inverse * moved.float()
        shared = torch.cat([inverse, weight], 1).mT
        vectors = torch.cat([self.numerators[:, heads], self.outputs[:, heads]], 1)
        vectors = self._inside(block, vectors)
        write = torch.bmm(shared, vectors) + inside.unsqueeze(1)
        own = torch.bmm(weight.permute(2, 0, 1).contiguous(), pulls)
        norms = (write - own.transpose(0, 1)).square().sum(-1).add(beyond.unsqueeze(1)).sqrt()
        return norms.masked_fill(empty.any(1), torch.inf)

    def _write(self, heads: slice = slice(None)) -> Tensor:
        """Δo of the present set through some heads, (queries, model)."""
        inverse = 1 / self.rest[:, heads].clamp(min=_LEAST).float()
        return (self.numerators[:, heads] * inverse.unsqueeze(-1)).sum(1)

    def _weights(self) -> Tensor:
        """What remains of each head's weight, summed over what remains."""
        return torch.where(self._lost(), 0.0, self.probs).sum(-1) + self.sunk

    def _lost(self) -> Tensor:
        """The present set as every head sees it."""
        return self.gone.repeat_interleave(self.window.heads // len(self.blocks), 0)


def each_prefix(trials: Trials, order: Sequence[tuple[int, int]]) -> Float[Tensor, " prefixes"]:
    """The figure of every prefix of an order of evictions, the empty one first, in a single pass.

    Numerators are summed over what is evicted and weights over what remains, both in float64, so that
    neither cancels.
    """
    queries, heads, _ = trials.outputs.shape
    figures = [trials.measure.of(torch.zeros(queries, 1, dtype=torch.float64))]
    if not order:
        return figures[0]
    blocks = torch.tensor([block for block, _ in order])
    columns = torch.tensor([column for _, column in order])
    size = heads // len(trials.blocks)
    reached = blocks.unsqueeze(0) == (torch.arange(heads) // size).unsqueeze(1)
    lost = torch.where(reached, trials.probs[:, :, columns], 0.0)
    gone = torch.zeros(len(trials.blocks), trials.window.length, dtype=torch.bool)
    gone[blocks, columns] = True
    kept = torch.where(gone.repeat_interleave(size, 0), 0.0, trials.probs).sum(-1) + trials.sunk
    rest = lost.flip(-1).cumsum(-1).flip(-1) + kept.unsqueeze(-1) - lost
    outputs = trials.outputs.double()
    numerator = torch.zeros_like(outputs)
    for part in torch.arange(len(order)).split(max(1, _CHUNK // outputs.numel())):
        pulls = trials.pulled(columns[part]).double().transpose(0, 1)
        steps = lost[..., part].unsqueeze(-1) * (outputs.unsqueeze(2) - pulls)
        sums = steps.cumsum(2) + numerator.unsqueeze(2)
        empty = rest[..., part] <= _LEAST
        writes = (sums / rest[..., part].clamp(min=_LEAST).unsqueeze(-1)).sum(1)
        norms = torch.linalg.vector_norm(writes, dim=-1).masked_fill(empty.any(1), torch.inf)
        figures.append(trials.measure.of(norms))
        numerator = sums[:, :, -1]
    return torch.cat(figures)


def _bases(
    weight: Float[Tensor, "heads width model"], blocks: int
) -> Float[Tensor, "blocks model rank"] | None:
    """An orthonormal basis of what each block's heads can write, if that is less than the model's width."""
    rows = weight.unflatten(0, (blocks, -1)).flatten(1, 2)
    return torch.linalg.qr(rows.mT).Q.float() if rows.shape[1] < rows.shape[2] else None
