"""What each further eviction would do, all candidates at once, beside everything that is evicted already.

Deleting G from a head changes its readout by δ = Σ_G p(y − v)/r (eq:groupdeletion), where r is the weight
that remains, and the write by Δ = Σ_h δ_h W_h. One entry more adds Σ_h c_h (y_h + δ_h − v_h)W_h with
c = p/(r − p), so that the square of the norm is a form in c. Products of an entry's own values through W
never change and are made once; the others cost heads² × width for a candidate, whatever the model's width.
This is for choosing: it subtracts from r and squares, in float64. What is reported of a choice comes from
`QueryWindow.changes`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finite_calculus.cache.window import QueryWindow
from finite_calculus.margin import project
from finite_calculus.models.layer import repeat_groups

Scope = Literal["token", "group", "head"]
Over = Literal["worst", "mean"]
# Numbers that one chunk of candidates may take.
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
        self.probs = window.probs()
        self.weight = window.output_projection.double()
        values = window.values.double()
        outputs = torch.einsum("qgmk,gkw->qgmw", self._by_group(self.probs), values)
        # Values are measured from the last query's outputs, so that a large common part costs no digits.
        centre = outputs[-1].mean(1)
        self.values = values - centre.unsqueeze(1)
        self.outputs = (outputs - centre.unsqueeze(1)).flatten(1, 2)
        # Rows of `products`: only candidates have one.
        self.row = candidates.cumsum(0) - 1
        self.through = [_through(self.weight[heads]) for heads in self.blocks]
        self.products = [
            _products(self._values(block, candidates), through)
            for block, through in enumerate(self.through)
        ]
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
        moved = self.probs[:, heads, columns] * self._signs(block, columns)
        self.gone[block, columns] ^= True
        values = self._values(block, columns)
        drawn = moved.unflatten(1, (len(values), -1)) @ values
        kept = moved.sum(-1, keepdim=True) * self.outputs[:, heads]
        self.numerators[:, heads] += kept - drawn.flatten(1, 2)
        self.rest = self._weights()

    def figures(self, block: int, columns: Int[Tensor, " some"]) -> Float[Tensor, " some"]:
        """The figure after each of these entries changes sides: evicted if it is kept, kept if evicted.

        Infinite where a head that attends to something would be left with nothing.
        """
        if not len(columns):
            return torch.empty(0, dtype=torch.float64)
        heads, write = self.blocks[block], self._write()
        now = self.outputs[:, heads] + self._shifts()[:, heads]
        # What Δ and every head's present output meet in every head's values, Δ in the first row.
        met = torch.einsum("qaw,awbx->bqax", now, self.through[block])
        first = torch.einsum("qm,bwm->bqw", write, self.weight[heads])
        met = torch.cat([first.unsqueeze(2), met], 2)
        own = torch.einsum("bqax,qbx->bqa", met, now)
        own[:, :, 0] *= 2
        some = max(1, _CHUNK // own.numel())
        parts = [self._squares(block, met, own, part) for part in columns.split(some)]
        squares = torch.cat(parts, -1) + write.square().sum(-1, keepdim=True)
        return self.measure.of(squares.clamp(min=0.0).sqrt())

    def _squares(self, block: int, met: Tensor, own: Tensor, columns: Tensor) -> Tensor:
        """What each entry adds to ‖Δ‖², (queries, columns)."""
        heads = self.blocks[block]
        moved = self.probs[:, heads, columns] * self._signs(block, columns)
        rest = self.rest[:, heads].unsqueeze(-1) - moved
        empty = (rest <= _LEAST) & (moved > 0)
        ratio = moved / rest.clamp(min=_LEAST)
        values = self._values(block, columns)
        rows = met.reshape(len(values), -1, met.shape[-1])
        start = own.reshape(len(values), -1, 1)
        form = torch.baddbmm(start, rows, values.mT, alpha=-2).reshape(*own.shape, len(columns))
        form[:, :, 1:] += self.products[block][..., self.row[columns]].unsqueeze(1)
        added = form[:, :, 0] + (form[:, :, 1:] * ratio).sum(2)
        squares = (added.transpose(0, 1) * ratio).sum(1)
        return squares.masked_fill(empty.any(1), torch.inf)

    def _values(self, block: int, columns: Tensor) -> Tensor:
        """Values of some keys in the groups that a block's heads read, (groups, some, width)."""
        heads, members = self.blocks[block], self.window.members
        return self.values[heads.start // members : -(-heads.stop // members)][:, columns]

    def _signs(self, block: int, columns: Tensor) -> Tensor:
        """−1 for an entry that is evicted and would come back."""
        return torch.where(self.gone[block, columns], -1.0, 1.0).double()

    def _by_group(self, heads: Tensor) -> Tensor:
        return heads.unflatten(1, (self.window.groups, self.window.members))

    def _shifts(self) -> Tensor:
        """δ of the present set, (queries, heads, width)."""
        return self.numerators / self.rest.clamp(min=_LEAST).unsqueeze(-1)

    def _write(self) -> Tensor:
        """Δ of the present set, (queries, model)."""
        return project(self._shifts(), self.weight)

    def _weights(self) -> Tensor:
        """What remains of each head's weight, summed over what remains."""
        size = self.window.heads // len(self.blocks)
        lost = self.gone.repeat_interleave(size, 0)
        return torch.where(lost, 0.0, self.probs).sum(-1) + self.sunk


def each_prefix(trials: Trials, order: Sequence[tuple[int, int]]) -> Float[Tensor, " prefixes"]:
    """The figure of every prefix of an order of evictions, the empty one first, in a single pass.

    Numerators are summed over what is evicted and weights over what remains, so that neither cancels.
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
    numerator = torch.zeros_like(trials.outputs)
    some = max(1, _CHUNK // (queries * trials.weight.numel()) * trials.outputs.shape[-1])
    for part in torch.arange(len(order)).split(some):
        values = repeat_groups(trials.values[:, columns[part]], heads)
        steps = lost[..., part].unsqueeze(-1) * (trials.outputs.unsqueeze(2) - values)
        sums = steps.cumsum(2) + numerator.unsqueeze(2)
        empty = rest[..., part] <= _LEAST
        shifts = sums / rest[..., part].clamp(min=_LEAST).unsqueeze(-1)
        norms = torch.linalg.vector_norm(project(shifts.movedim(1, 2), trials.weight), dim=-1)
        figures.append(trials.measure.of(norms.masked_fill(empty.any(1), torch.inf)))
        numerator = sums[:, :, -1]
    return torch.cat(figures)


def _through(
    weight: Float[Tensor, "heads width model"],
) -> Float[Tensor, "heads width heads width"]:
    """W_a W_bᵀ of all pairs of heads."""
    rows = weight.flatten(0, 1)
    return (rows @ rows.mT).unflatten(1, weight.shape[:2]).unflatten(0, weight.shape[:2])


def _products(
    values: Float[Tensor, "groups keys width"], through: Float[Tensor, "heads width heads width"]
) -> Float[Tensor, "heads heads keys"]:
    """⟨v_a W_a, v_b W_b⟩ of every key for all pairs of heads."""
    heads = through.shape[0]
    every = repeat_groups(values, heads)
    products = values.new_empty(heads, heads, values.shape[1])
    some = max(1, _CHUNK // through[0].numel() * values.shape[-1])
    for part in torch.arange(values.shape[1]).split(some):
        here = every[:, part]
        for head in range(heads):
            reached = torch.einsum("kw,wbx->bkx", here[head], through[head, :, head:])
            products[head, head:, part] = (reached * here[head:]).sum(-1)
            products[head:, head, part] = products[head, head:, part]
    return products
