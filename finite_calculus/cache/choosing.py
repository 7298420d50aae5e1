"""Which entries of one layer to evict: the largest set within a budget, or the best set of a given size.

Both are searches over subsets whose changes may cancel, so nothing here claims an optimum. What holds: the
figure of the chosen set is that of the whole set, evaluated by the core; it keeps the budget; and when a
search within a budget ends, no single further entry fits, up to rounding. Entries are taken in blocks of
those that leave the smallest figure, each evaluated with all that went before; a block that breaks the budget
is halved. With blocks of one that is the greedy rule of `select_evictions`. Exchanges then put the entries
back whose return helps most and fill the room again. docs/cache.md has the measured distances to the greedy
rule and, for few keys, to the true optimum.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from finite_calculus.cache.trials import Measure, Over, Scope, Trials, head_blocks
from finite_calculus.cache.window import QueryWindow


@dataclass(frozen=True)
class Search:
    """How hard to look.

    A block holds one of `parts` of the candidates that fit, or of the entries that have still to go, but
    `least` entries if there are as many. Exchanges put back a quarter of what was evicted, then an eighth and
    so on. Unless given, within a budget there are 16 parts (fewer beyond 8,192 keys) and 3 exchanges (none
    beyond 4,096 keys); for a number of entries 8 parts and no exchange: more parts do more for the same time.
    """

    parts: int | None = None
    exchanges: int | None = None
    least: int = 1

    def __post_init__(self) -> None:
        for name, least in (("parts", 1), ("exchanges", 0), ("least", 1)):
            number = getattr(self, name)
            if number is not None and number < least:
                raise ValueError(f"`{name}` must be at least {least}; got {number}.")

    def of(self, keys: int, *, counted: bool) -> tuple[int, int]:
        """Parts and exchanges for so many keys, to evict a number of entries or within a budget."""
        parts = min(8 if counted else 16, max(4, (1 << 17) // keys))
        exchanges = 3 if keys <= 1 << 12 and not counted else 0
        return (
            parts if self.parts is None else self.parts,
            exchanges if self.exchanges is None else self.exchanges,
        )


# Between two looks at all candidates, so many of the best ones are evaluated again.
_POOL = 1 << 10
# One entry at a time, each the one that leaves the smallest figure.
GREEDY = Search(parts=1 << 62, exchanges=0)


@dataclass(frozen=True, eq=False)
class Choice:
    """Evicted key columns of every block, and ‖Δo‖₂ of every query, exact for the whole set.

    `figure` is the worst or the mean of them, relative to the queries' writes if that was asked for.
    """

    evicted: tuple[tuple[int, ...], ...]
    distortions: tuple[float, ...]
    figure: float


class Chooser:
    """The search in one layer for sets of evicted entries; `allowed` says which tokens of it may go."""

    def __init__(
        self,
        window: QueryWindow,
        allowed: Bool[Tensor, "groups keys"],
        *,
        scope: Scope | str = "token",
        over: Over | str = "worst",
        relative: bool = True,
        search: Search | None = None,
    ) -> None:
        sizes = window.sizes() if relative else torch.ones(window.count, dtype=torch.float64)
        self.window, self.search = window, Search() if search is None else search
        self.measure = Measure(over, sizes)
        groups = [heads.start // window.members for heads in head_blocks(window, scope)]
        self.allowed = allowed[groups]
        self.trials = Trials(window, scope, self.measure, self.allowed.any(0))

    def within(self, budget: float) -> Choice:
        """As large a set as the search comes upon whose figure is at most `budget`."""
        allowance = budget
        _, exchanges = self.search.of(self.window.length, counted=False)
        while True:
            self._place(torch.zeros_like(self.trials.gone))
            self._fill(allowance)
            for number in range(exchanges):
                self._exchange(number, range(len(self.trials.blocks)), self._filling(allowance))
            choice = self._choice()
            if choice.figure <= budget:
                return choice
            # The search rounds: what it holds to be within may be beyond in the last digits.
            allowance = allowance * (1 - 1e-5) if allowance > budget * 0.5 else 0.0

    def best(self, count: int) -> Choice:
        """A set of `count` entries of every block whose figure is small."""
        self.select(count)
        return self._choice()

    def select(self, count: int) -> None:
        """Leave such a set in `trials`, without the core's evaluation of it."""
        self.order(count)
        _, exchanges = self.search.of(self.window.length, counted=True)
        for number in range(exchanges):
            for block in range(len(self.trials.blocks)):
                self._exchange(number, [block], lambda: self._take(count))

    def order(self, count: int) -> tuple[tuple[int, int], ...]:
        """The order in which `count` entries of every block go, as (block, column)."""
        most = int(self.allowed.sum(-1).min())
        if not 0 <= count <= most:
            raise ValueError(
                f"`count` must be between 0 and {most}, the entries of layer {self.window.layer} that may "
                f"be evicted; got {count}. Protect fewer, or evict fewer."
            )
        self._place(torch.zeros_like(self.trials.gone))
        return tuple(self._take(count))

    def evaluate(self, evicted: Sequence[Sequence[int]]) -> Choice:
        """A given set, as columns of each block."""
        heads = self.window.heads // len(self.trials.blocks)
        gone = torch.zeros(len(self.trials.blocks), self.window.length, dtype=torch.bool)
        for block, columns in enumerate(evicted):
            gone[block, list(columns)] = True
        distortions = self.window.distortions(gone.repeat_interleave(heads, 0))
        figure = float(self.measure.of(distortions))
        listed = tuple(tuple(row.nonzero().squeeze(-1).tolist()) for row in gone)
        return Choice(listed, tuple(distortions.tolist()), figure)

    def _choice(self) -> Choice:
        return self.evaluate([row.nonzero().squeeze(-1).tolist() for row in self.trials.gone])

    def _fill(self, budget: float) -> None:
        """Evict as long as a single entry fits; every state that is left behind is within the budget.

        Between two looks at all candidates only the best of them are evaluated again. After a block that was
        too large the next is at most twice what was left of it.
        """
        parts, _ = self.search.of(self.window.length, counted=False)
        least, most = self.search.least, self.window.length
        while True:
            pool, figures = _best(*self._candidates())
            if not int((figures <= budget).sum()):
                return
            while fits := int((figures <= budget).sum()):
                block = pool[: min(most, max(least, fits // parts))]
                self._turn(block)
                while len(block) > 1 and self.trials.figure > budget:
                    half = len(block) // 2
                    self._turn(block[half:])
                    block = block[:half]
                most = 2 * len(block)
                left = pool[len(block) :][: max(_POOL, 2 * most)]
                pool, figures = _best(left, self._figures(left))

    def _filling(self, budget: float) -> Callable[[], object]:
        return lambda: self._fill(budget)

    def _exchange(self, number: int, blocks: Iterable[int], refill: Callable[[], object]) -> None:
        """Put entries back and refill; undone unless the set grew, or kept its size with a lower figure."""
        before, size, figure = self.trials.gone.clone(), self._size, self.trials.figure
        for block in blocks:
            columns = before[block].nonzero().squeeze(-1)
            some = -(-len(columns) >> (2 + number)) if len(columns) else 0
            back = self.trials.figures(block, columns).argsort(stable=True)[:some]
            self.trials.turn(block, columns[back])
        refill()
        if (-self._size, self.trials.figure) >= (-size, figure):
            self._place(before)

    def _take(self, count: int) -> list[tuple[int, int]]:
        """Evict until every block has lost `count` entries; the order in which they went."""
        order: list[tuple[int, int]] = []
        parts, _ = self.search.of(self.window.length, counted=True)
        while (rest := count - int(self.trials.gone.sum(-1).min())) > 0:
            step = max(self.search.least, rest // parts)
            taken = []
            for block, gone in enumerate(self.trials.gone.clone()):
                columns = (self.allowed[block] & ~gone).nonzero().squeeze(-1)
                some = min(step, count - int(gone.sum()))
                best = self.trials.figures(block, columns).argsort(stable=True)[:some]
                taken.append(columns[best].tolist())
                self.trials.turn(block, columns[best])
            rounds = itertools.zip_longest(*taken)
            order += [(b, i) for each in rounds for b, i in enumerate(each) if i is not None]
        return order

    @property
    def _size(self) -> int:
        return int(self.trials.gone.sum())

    def _candidates(self) -> tuple[Tensor, Tensor]:
        """Entries that may still go, as (block, column), and the figure after each."""
        units = (self.allowed & ~self.trials.gone).nonzero()
        return units, self._figures(units)

    def _figures(self, units: Tensor) -> Tensor:
        figures = torch.empty(len(units), dtype=torch.float64)
        for block in units[:, 0].unique().tolist():
            here = units[:, 0] == block
            figures[here] = self.trials.figures(block, units[here, 1])
        return figures

    def _turn(self, units: Tensor) -> None:
        for block in units[:, 0].unique().tolist():
            self.trials.turn(block, units[units[:, 0] == block, 1])

    def _place(self, gone: Tensor) -> None:
        self.trials.place([row.nonzero().squeeze(-1) for row in gone])


def _best(units: Tensor, figures: Tensor) -> tuple[Tensor, Tensor]:
    """Units in the order of their figures, the smallest first."""
    order = figures.argsort(stable=True)
    return units[order], figures[order]
