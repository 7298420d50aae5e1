"""The order in which a kernel forms a sum of n products, revealed by probing it.

A float32 product of matrices sums in an order that no document states: in blocks, in lanes, by kernels that
depend on shape, layout and alignment. It is revealed by numbers that swallow others (Xie, Gao, Wang and Xue,
"Revealing Floating-Point Accumulation Orders in Software/Hardware Implementations", USENIX ATC 2025): with
M at term i, −M at term j and 1 elsewhere, exactly those ones survive that are added after i and j met.
Whether a product is rounded before it is added shows where it loses a digit and the rest of it is cancelled.
A probe that does not answer like a binary tree gives no order, and then every order has to be allowed for; so
it is if numbers of all sizes are not summed, bit for bit, as the order says.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from finite_calculus.models.sum_order import Chain, Order
from finite_calculus.models.sum_replay import replayed_sums

# Larger than any count of ones times the last place of float32, and far from overflow.
_SWALLOWS = 2.0**60
# The right factor of every probe: 3(2²³ + 1) has one digit more than float32, which a rounding takes.
FACTOR = 3.0
_LONG, _SHORT = 2.0**23 + 1, -(2.0**23)
# Kernels that take more orders than this at one shape are not followed.
_MOST_ORDERS = 16
# How many sums of numbers of all sizes an order must foretell.
_CONFIRMED = 16


def reveal_orders(sums: Callable[[Tensor], Tensor], terms: int) -> frozenset[Order] | None:
    """The orders in which `sums` adds; None if its answers are not those of trees, or of too many.

    `sums` takes left factors (probes, terms) in float32 and returns Σ left·`FACTOR` at each place of its
    output, (probes, places). Places may differ: the edges of a matrix have kernels of their own.
    Of numbers of all sizes the kernel must then give, to the last bit, what one of the orders does.
    """
    orders: set[Order] = set()
    waiting: Tensor | None = None
    while waiting is None or bool(waiting.any()):
        prober = _Prober(sums, terms, 0 if waiting is None else int(waiting.int().argmax()))
        chain = prober.chain(range(terms))
        if chain is None or len(orders) == _MOST_ORDERS:
            return None
        orders.add(Order(chain, prober.rounded(chain)))
        alike = prober.alike
        if alike is None:
            break
        waiting = ~alike if waiting is None else waiting & ~alike
    return frozenset(orders) if _confirmed(sums, terms, orders) else None


def _confirmed(sums: Callable[[Tensor], Tensor], terms: int, orders: set[Order]) -> bool:
    """Whether every place adds numbers of all sizes as one of the orders says, to the last bit."""
    answers = sums(_numbers(terms)).double()
    foretold = [answers == _foretold(order, terms).unsqueeze(-1) for order in orders]
    return bool(torch.stack([each.all(0) for each in foretold]).any(0).all())


def _numbers(terms: int) -> Tensor:
    """Numbers of all sizes and signs, whose sums cancel."""
    draw = torch.Generator().manual_seed(terms)
    shape = _CONFIRMED, terms
    sizes = torch.exp2(torch.randint(-12, 12, shape, generator=draw).float())
    return sizes * torch.randn(shape, generator=draw)


@lru_cache(maxsize=64)
def _foretold(order: Order, terms: int) -> Tensor:
    least, _ = replayed_sums(_numbers(terms), torch.full((terms,), FACTOR), [order])
    return least


@dataclass(eq=False)
class _Prober:
    """Reveals the order of one place, and notes at which places the answers were the same."""

    sums: Callable[[Tensor], Tensor]
    terms: int
    place: int
    alike: Tensor | None = None

    def chain(self, members: Sequence[int]) -> Chain | None:
        """The members of a subtree in the order in which they join its first one."""
        if len(members) == 1:
            return tuple(members)
        first, others = members[0], members[1:]
        meetings = self._meetings(first, others)
        items: list[int | Chain] = [first]
        covered = 1
        for size in sorted(set(meetings)):
            group = [other for other, met in zip(others, meetings, strict=True) if met == size]
            covered += len(group)
            part = self.chain(group)
            if part is None or size != covered:
                return None
            items.append(part[0] if len(part) == 1 else part)
        return tuple(items)

    def rounded(self, chain: Chain) -> tuple[int, ...]:
        """Terms whose products are not fused with the addition that they enter by."""
        pairs = list(_joins(chain))
        if not pairs:
            return tuple(range(self.terms))
        patterns = torch.zeros(len(pairs), self.terms)
        numbers, (earlier, later) = torch.arange(len(pairs)), torch.tensor(pairs).mT
        patterns[numbers, earlier], patterns[numbers, later] = _SHORT, _LONG
        fused = later[self._answers(patterns) == FACTOR]
        return tuple(sorted(set(range(self.terms)) - set(fused.tolist())))

    def _meetings(self, first: int, others: Sequence[int]) -> list[float]:
        """How many terms lie under the node where `first` meets each of the others."""
        patterns = torch.ones(len(others), self.terms)
        patterns[:, first] = _SWALLOWS
        patterns[torch.arange(len(others)), torch.tensor(others)] = -_SWALLOWS
        return (self.terms - self._answers(patterns) / FACTOR).tolist()

    def _answers(self, patterns: Tensor) -> Tensor:
        answers = self.sums(patterns).double()
        own = answers[:, self.place]
        alike = (answers == own.unsqueeze(-1)).all(0)
        self.alike = alike if self.alike is None else self.alike & alike
        return own


def _first_term(chain: Chain) -> int:
    first = chain[0]
    return _first_term(first) if isinstance(first, tuple) else first


def _joins(chain: Chain) -> Iterator[tuple[int, int]]:
    """Each term that joins others, after one of these; the first of a chain joins what comes second."""
    for item in chain:
        if isinstance(item, tuple):
            yield from _joins(item)
    if len(chain) > 1 and not isinstance(chain[0], tuple):
        second = chain[1]
        yield _first_term(second) if isinstance(second, tuple) else second, chain[0]
    for item in chain[1:]:
        if not isinstance(item, tuple):
            yield _first_term(chain), item
