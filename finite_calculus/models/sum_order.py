"""In which order a sum of n terms is formed, and what its roundings may add up to.

Orders are those of float32 kernels, which probes reveal (`finite_calculus.models.sum_probe`). Sums of half
precision add exact products in float32 and are then rounded once (`finite_calculus.models.precision`): that
rounding is larger than what their order may change.
"""

from collections.abc import Iterable
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


def _list_chains(chain: Chain, groups: dict[tuple[int, int], list[Chain]]) -> int:
    """Put a chain and those inside it into `groups` by height and length; returns its height."""
    heights = [_list_chains(item, groups) for item in chain if isinstance(item, tuple)]
    height = 1 + max(heights, default=0)
    groups.setdefault((height, len(chain)), []).append(chain)
    return height


def _count_terms(chain: Chain) -> int:
    return sum(_count_terms(item) if isinstance(item, tuple) else 1 for item in chain)


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
