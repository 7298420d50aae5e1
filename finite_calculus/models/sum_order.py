"""In which order a sum of n terms is formed, revealed by probing, and what its roundings may add up to.

A float32 product of matrices sums in an order that no document states: in blocks, in lanes, by kernels that
depend on shape, layout and alignment. It is revealed by numbers that swallow others (Xie, Gao, Wang and Xue,
"Revealing Floating-Point Accumulation Orders in Software/Hardware Implementations", USENIX ATC 2025): with
M at term i, −M at term j and 1 elsewhere, exactly those ones survive that are added after i and j met.
Whether a product is rounded before it is added shows where it loses a digit and the rest of it is cancelled.
A probe that does not answer like a binary tree gives no order, and then every order has to be allowed for.

Orders are revealed of float32 kernels. Sums of half precision add exact products in float32 and are then
rounded once (`finite_calculus.models.precision`): that rounding is larger than what their order may change.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log, sqrt
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finite_calculus.models.precision import FLOAT32, FLOAT64, Precision

# A chain: the first item plus the second, plus the third, …; an item is a term or a chain of its own.
Chain: TypeAlias = tuple["int | Chain", ...]
# Larger than any count of ones times the last place of float32, and far from overflow.
_SWALLOWS = 2.0**60
# The right factor of every probe: 3(2²³ + 1) has one digit more than float32, which a rounding takes.
FACTOR = 3.0
_LONG, _SHORT = 2.0**23 + 1, -(2.0**23)
# Kernels that take more orders than this at one shape are not followed.
_MOST_ORDERS = 16
UNIT = FLOAT32.unit
# A probable bound may be exceeded with this probability, by one number whose roundings are independent and
# centred: λ√Σr² with 2·e^{−λ²/2} of it, by Hoeffding's inequality.
DOUBT = 1e-9
# The exponent of a float64: without the other digits, the largest power of two that it contains.
_EXPONENT = 0x7FF << 52
_DEVIATIONS = sqrt(2 * log(2 / DOUBT))


@dataclass(frozen=True, eq=False)
class Spread:
    """Roundings that are added up: `sure` bounds Σ|r| and `square` bounds Σr², r being half a last place."""

    sure: Float[Tensor, "*shape"]
    square: Float[Tensor, "*shape"]

    @classmethod
    def of(cls, rounding: Tensor) -> "Spread":
        """One rounding in each entry."""
        return cls(rounding, rounding.square())

    def __add__(self, other: "Spread") -> "Spread":
        return Spread(self.sure + other.sure, self.square + other.square)

    def times(self, factor: Tensor | float) -> "Spread":
        """The roundings of numbers that are then multiplied by an exact factor."""
        factor = torch.as_tensor(factor, dtype=torch.float64)
        return Spread(self.sure * factor.abs(), self.square * factor.square())

    def summed(self, dim: int) -> "Spread":
        """The roundings of all entries along a dimension."""
        return Spread(self.sure.sum(dim), self.square.sum(dim))

    @property
    def probable(self) -> Float[Tensor, "*shape"]:
        """λ√Σr², exceeded with probability `DOUBT` if roundings are independent and centred."""
        return torch.minimum(self.sure, _DEVIATIONS * self.square.sqrt())


def half_place(size: Tensor, precision: Precision = FLOAT32) -> Tensor:
    """What rounding a number of at most this size may cost, underflow included.

    Infinite for what is no number: nothing is known of it.
    """
    power = (size.view(torch.int64) & _EXPONENT).view(torch.float64)
    return power.mul_(precision.unit).add_(precision.tiny * precision.unit)


@dataclass(frozen=True)
class Order:
    """How a sum of products is formed: its chain, and the terms whose products are rounded on their own."""

    chain: Chain
    rounded: tuple[int, ...]

    @cached_property
    def levels(self) -> tuple[Int[Tensor, "chains length"], ...]:
        """Chains of one height and length as rows, those below first: what is added, by its place.

        Places count the terms first, then the sums of all chains in the order of these rows.
        """
        groups: dict[tuple[int, int], list[Chain]] = {}
        _list_chains(self.chain, groups)
        places: dict[Chain, int] = {}
        count = _count_terms(self.chain)
        levels = []
        for group in (groups[size] for size in sorted(groups)):
            levels.append(
                torch.tensor(
                    [[item if isinstance(item, int) else places[item] for item in c] for c in group]
                )
            )
            places |= {chain: count + row for row, chain in enumerate(group)}
            count += len(group)
        return tuple(levels)


def reveal_orders(sums: Callable[[Tensor], Tensor], terms: int) -> frozenset[Order] | None:
    """The orders in which `sums` adds; None if its answers are not those of trees, or of too many.

    `sums` takes left factors (probes, terms) in float32 and returns Σ left·`FACTOR` at each place of its
    output, (probes, places). Places may differ: the edges of a matrix have kernels of their own.
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
    return frozenset(orders)


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


def _list_chains(chain: Chain, groups: dict[tuple[int, int], list[Chain]]) -> int:
    """Put a chain and those inside it into `groups` by height and length; returns its height."""
    heights = [_list_chains(item, groups) for item in chain if isinstance(item, tuple)]
    height = 1 + max(heights, default=0)
    groups.setdefault((height, len(chain)), []).append(chain)
    return height


def _count_terms(chain: Chain) -> int:
    return sum(_count_terms(item) if isinstance(item, tuple) else 1 for item in chain)


def _first_term(chain: Chain) -> int:
    first = chain[0]
    return _first_term(first) if isinstance(first, tuple) else first


def _joins(chain: Chain) -> Iterator[tuple[int, int]]:
    """Each term that joins a chain, after the chain's first term."""
    for item in chain:
        if isinstance(item, tuple):
            yield from _joins(item)
    for item in chain[1:]:
        if not isinstance(item, tuple):
            yield _first_term(chain), item


def sum_spread(
    terms: Float[Tensor, "*shape terms"],
    orders: Iterable[Order],
    *,
    errors: Float[Tensor, "*shape terms"] | None = None,
) -> Spread:
    """Roundings of Σ over the last dimension, each term a product, in the worst of the given orders.

    Every partial sum and every product that is not fused is charged half its last place. `errors` bound
    how far the terms that were added are from these.
    """
    sizes = terms.abs() if errors is None else terms.abs() + errors
    room = _room(sizes.sum(-1), terms.shape[-1])
    if errors is not None:
        room = room + errors.sum(-1)
    # Terms come first: a gather then copies rows, and partial sums run over whole ones.
    rows, sizes = (each.movedim(-1, 0).contiguous() for each in (terms, sizes))
    parts = [_chain_spread(rows, sizes, order, room) for order in orders]
    return Spread(
        torch.stack([part.sure for part in parts]).amax(0),
        torch.stack([part.square for part in parts]).amax(0),
    )


def any_order_spread(
    total: Float[Tensor, "*shape"],
    squares: Float[Tensor, "*shape"],
    terms: int,
    precision: Precision = FLOAT32,
) -> Spread:
    """The same for any order: n − 1 additions of at most Σ|terms|, from Σ|terms| and Σterms².

    The sum of a half precision is the float32 one, before it is rounded; products are exact in it. In float64
    the sum that it is compared with is rounded as much, so that both are charged.
    """
    sums = precision.summing
    most = half_place(total + _room(total, terms, sums.unit), sums)
    # Kernels of half precision may flush what is below the normal numbers.
    tiny = torch.full_like(total, terms * sums.tiny * (1 if precision.half else sums.unit))
    unit = 0.0 if precision.half else sums.unit
    products = Spread(unit * total + tiny, unit**2 * squares + tiny.square())
    spread = products + Spread((terms - 1) * most, (terms - 1) * most.square())
    return spread + spread if precision is FLOAT64 else spread


def stored(spread: Spread, result: Tensor, precision: Precision) -> Spread:
    """Roundings of a sum, and that of its result where it is stored with fewer digits than it has."""
    if not precision.half:
        return spread
    return spread + Spread.of(half_place(result.abs() + spread.sure, precision))


def _room(total: Tensor, terms: int, unit: float = UNIT) -> Tensor:
    """What a partial sum may be off by: γ_n·Σ|terms|, and less than 2^-40 of it for the float64 sums here."""
    return total * (terms * unit / max(1 - terms * unit, unit) + 2.0**-40)


def _chain_spread(
    terms: Float[Tensor, "terms *shape"],
    sizes: Float[Tensor, "terms *shape"],
    order: Order,
    room: Tensor,
) -> Spread:
    """The roundings of all partial sums of an order, and of the products that are rounded on their own."""
    spread = Spread.of(half_place(sizes[list(order.rounded)])).summed(0)
    sums = terms
    for number, places in enumerate(order.levels, start=1):
        partial = sums.index_select(0, places.flatten()).unflatten(0, places.shape).cumsum(1)
        rounding = Spread.of(half_place(partial[:, 1:].abs() + room))
        spread = spread + rounding.summed(0).summed(0)
        if number < len(order.levels):
            sums = torch.cat([sums, partial[:, -1]])
    return spread
