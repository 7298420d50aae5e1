"""In which orders torch's products sum at the shapes of one executed batch: probed, never assumed.

An order depends on the shape of a product, on the layout of its factors and on where in memory they start.
A kernel is therefore probed at the shapes that were executed, in every layout that a cache or a projection
hands over and at several alignments, and a bound takes the worst of all orders that turn up. That the
attention of a model multiplies by these very products, and by no others, is a check of the preflight
(`native_checks.products`). Products too large to probe have no known order, nor has anything off the CPU.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import torch
from torch import Tensor, nn

from finite_calculus.models.session import AttentionCall
from finite_calculus.models.sum_order import Order
from finite_calculus.models.sum_probe import FACTOR, reveal_orders

Orders = frozenset[Order]
# Limits of what is probed: multiplications of one product, of all probes (seconds), terms of a sum.
_LARGEST, _MOST_WORK, _LONGEST = 2**26, 2**35, 2**12
# Where the left and the right factor start, in floats after an aligned address.
_STARTS = [(0, start) for start in range(4)] + [(start, 0) for start in range(1, 4)]


@dataclass(frozen=True)
class Kernels:
    """What one batch was computed with.

    Orders are those of float32; of another `dtype` none is known, and sums are charged for any.
    `rows` of the batch, each of `queries` tokens; `linear` for a projection that is an `nn.Linear` and not a
    Conv1D; `packed` if keys and values reach their products without gaps; `threads` of the time.
    On the shared path `patch` is how many columns the batch has apart, and `touched` which of them belong to
    this row; on the native paths it is None.
    """

    rows: int
    linear: bool
    packed: bool
    threads: int
    patch: int | None = None
    touched: tuple[int, ...] = ()
    queries: int = 1
    dtype: torch.dtype = torch.float32

    @classmethod
    def of(
        cls, projection: nn.Module, rows: int, *, packed: bool, queries: int = 1
    ) -> "Kernels | None":
        """The kernels of a batch whose write this module projects; None off the CPU."""
        weight = getattr(projection, "weight", None)
        if not isinstance(weight, Tensor) or weight.device.type != "cpu":
            return None
        linear = isinstance(projection, nn.Linear)
        threads = torch.get_num_threads()
        return cls(rows, linear, packed, threads, queries=queries, dtype=weight.dtype)

    @classmethod
    def of_call(cls, projection: nn.Module, call: AttentionCall) -> "Kernels | None":
        """Those of a native call; grouped keys are repeated for their heads, and a copy is packed."""
        rows, heads, queries = call.query.shape[:3]
        packed = call.key.is_contiguous() and call.value.is_contiguous()
        packed = packed or heads != call.key.shape[1]
        return cls.of(projection, rows, packed=packed, queries=queries)

    def patched(self, columns: Tensor, keys: int) -> "Kernels":
        """Those of a row of the shared path with its columns of the patch; beyond `keys` is padding.

        `packed` is here what the cached prefix is; a patch always is.
        """
        touched = tuple(column for column in columns.tolist() if column < keys)
        return replace(self, patch=columns.shape[0], touched=touched)

    @property
    def control(self) -> "Kernels":
        """Those of an unedited row of the same batch."""
        return replace(self, touched=())

    def score_orders(
        self, heads: int, groups: int, keys: int, width: int, *, edited: bool = False
    ) -> Orders | None:
        """Orders of q·k over the width of a head, in any of the products that form scores.

        `edited` asks for those of edited keys alone, which the shared path multiplies apart.
        """
        if self.dtype != torch.float32:
            return None
        if self.patch is None:
            return _head_orders(
                self.rows, heads, self.queries, keys, width, True, self.packed, self.threads
            )
        members, prefix = heads // groups, max(1, keys - 1)
        apart = _head_orders(
            groups, self.rows, members, max(1, self.patch), width, True, self.packed, self.threads
        )
        if edited:
            return apart
        return _united(
            apart,
            _head_orders(1, groups, members, prefix, width, True, self.packed, self.threads),
            _head_orders(
                1, groups, self.rows * members, prefix, width, True, self.packed, self.threads
            ),
            _own_orders(groups * members, width, self.threads),
            _own_orders(groups * members * self.rows, width, self.threads),
        )

    def mixture_orders(self, heads: int, groups: int, keys: int, width: int) -> Orders | None:
        """Orders of Σpv over the keys; on the shared path over the prefix, and the own value after it."""
        if self.dtype != torch.float32:
            return None
        if self.patch is None:
            return _head_orders(
                self.rows, heads, self.queries, width, keys, False, self.packed, self.threads
            )
        queries = self.rows * heads // groups
        prefix = _head_orders(1, groups, queries, width, keys - 1, False, self.packed, self.threads)
        if prefix is None:
            return None
        return frozenset(
            Order((order.chain, keys - 1), (*order.rounded, keys - 1)) for order in prefix
        )

    def write_orders(self, inputs: int, outputs: int, *, bias: bool) -> Orders | None:
        """Orders of y·W over the inputs; a bias is one more term, the last."""
        rows = self.rows * self.queries
        if self.dtype != torch.float32:
            return None
        return _projection_orders(rows, inputs, outputs, bias, self.linear, self.threads)


def _united(*orders: Orders | None) -> Orders | None:
    listed = [each for each in orders if each is not None]
    return frozenset().union(*listed) if len(listed) == len(orders) else None


@lru_cache(maxsize=64)
def _head_orders(
    rows: int,
    heads: int,
    queries: int,
    outputs: int,
    terms: int,
    transposed: bool,
    packed: bool,
    threads: int,
) -> Orders | None:
    """Orders of (rows, heads, queries, terms) times (rows, heads, terms, outputs).

    `transposed` if the right factor is stored by outputs, as keys are, and not by terms, as values are.
    """
    if _too_large(rows * heads * queries * outputs * terms, rows * heads, terms):
        return None
    shape = (rows, heads, outputs, terms) if transposed else (rows, heads, terms, outputs)

    def variants() -> Iterator[Callable[[Tensor], Tensor]]:
        for before, start in _STARTS:
            for stored in _layouts(shape, start, packed=packed):
                right = stored.mT if transposed else stored
                left = _factors((rows, heads, queries, terms), before)
                yield lambda patterns, left=left, right=right: torch.matmul(
                    left.copy_(patterns.reshape(rows, heads, 1, terms)), right
                ).reshape(rows * heads, -1)

    return _orders_of(variants(), rows * heads, terms)


@lru_cache(maxsize=64)
def _own_orders(places: int, terms: int, threads: int) -> Orders | None:
    """Orders of a product of two vectors by `sum`, as the shared path forms the last token's score."""

    def variants() -> Iterator[Callable[[Tensor], Tensor]]:
        yield lambda left: (left * FACTOR).sum(-1, keepdim=True)

    return _orders_of(variants(), places, terms)


@lru_cache(maxsize=64)
def _projection_orders(
    rows: int, inputs: int, outputs: int, bias: bool, linear: bool, threads: int
) -> Orders | None:
    if _too_large(rows * inputs * outputs, 1 if bias else rows, inputs):
        return None

    def project(patterns: Tensor, left: Tensor, weight: Tensor) -> Tensor:
        left.copy_(patterns[:, :inputs])
        if not bias:
            return _multiply(left, weight, None, linear)
        # A bias is one for all rows, so a batch asks one question.
        return _multiply(
            left, weight, FACTOR * patterns[0, inputs:].repeat(outputs), linear
        ).reshape(1, -1)

    def variants() -> Iterator[Callable[[Tensor], Tensor]]:
        for before, start in _STARTS:
            left = _factors((rows, inputs), before)
            weight = _factors((outputs, inputs) if linear else (inputs, outputs), start)
            yield partial(project, left=left, weight=weight)

    return _orders_of(variants(), 1 if bias else rows, inputs + bias)


def _too_large(multiplications: int, places: int, terms: int) -> bool:
    """Whether probing would take too long: about two probes for each term, `places` of them at a time."""
    work = 2 * terms * multiplications // places
    return multiplications > _LARGEST or work > _MOST_WORK or terms > _LONGEST


def _multiply(left: Tensor, weight: Tensor, bias: Tensor | None, linear: bool) -> Tensor:
    """One token of each row through a Linear or, as GPT-2 has it, a Conv1D, which always has a bias."""
    if linear:
        return nn.functional.linear(left.unsqueeze(1), weight, bias).squeeze(1)
    zero = torch.zeros(weight.shape[-1]) if bias is None else bias
    return torch.addmm(zero, left, weight)


def _orders_of(
    variants: Iterator[Callable[[Tensor], Tensor]], places: int, terms: int
) -> Orders | None:
    """All orders of some products, each answering `places` probes at once."""
    union: set[Order] = set()
    for multiply in variants:
        orders = reveal_orders(lambda patterns, f=multiply: _in_turn(f, patterns, places), terms)
        if orders is None:
            return None
        union |= orders
    return frozenset(union)


def _in_turn(multiply: Callable[[Tensor], Tensor], patterns: Tensor, places: int) -> Tensor:
    """Answers to all patterns, so many at a time; the last ones are asked again to fill the batch."""
    count = patterns.shape[0]
    numbers = torch.arange(-(-count // places) * places).clamp(max=count - 1)
    with torch.no_grad():
        answers = [multiply(patterns[chunk]) for chunk in numbers.split(places)]
    return torch.cat(answers)[:count]


def _factors(shape: tuple[int, ...], start: int) -> Tensor:
    """Factors of a probe that begin `start` floats after an aligned address."""
    count = torch.Size(shape).numel()
    return torch.full((count + start,), FACTOR)[start:].view(shape)


def _layouts(shape: tuple[int, ...], start: int, *, packed: bool) -> Iterator[Tensor]:
    """Keys or values of a batch as caches hand them over: packed, by tokens, expanded, a window's slice."""
    rows, heads, tokens, width = shape
    yield _factors(shape, start)
    if not packed:
        yield _factors((rows, tokens, heads, width), start).transpose(1, 2)
        yield _factors((1, heads, tokens, width), start).expand(shape)
        yield _factors((rows, heads, tokens + 1, width), start)[:, :, 1:]
