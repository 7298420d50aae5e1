"""q·k of one readout as the model's kernels formed it: replayed where their orders are known, else bounded.

Query and keys are captured to the last bit, so the orders that probes revealed give the very numbers that a
kernel may have returned. Their midpoint stands for q·k, and only what the orders differ by is left as a
spread: an ulp or two, where half a last place for each partial sum of a head would be many times as much. An
edited and a control row share these roundings at every key that the edit leaves; the difference of the two
readouts then has them once, with their signs, and not twice as a bound.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finite_calculus.models.kernels import Kernels
from finite_calculus.models.layer import (
    LayerBank,
    LayerCapture,
    by_groups_of,
    head_products,
    repeat_groups,
)
from finite_calculus.models.sum_order import Spread, any_order_spread, stored, sum_spread
from finite_calculus.models.sum_replay import replayed_sums

# Terms of one layer's products beyond which no order is followed: they would have to be held in memory.
MOST_TERMS = 2**25


@dataclass(frozen=True, eq=False)
class Products:
    """q·k in every head, for each key: what the kernel returned differs from `values` by `spread` at most."""

    values: Float[Tensor, "heads keys"]
    spread: Spread


def score_products(
    layer: LayerCapture,
    bank: LayerBank,
    kernels: Kernels | None,
    *,
    columns: Int[Tensor, " columns"] | None = None,
) -> Products:
    """q·k in every head, for each key or for those of some edited columns."""
    query, keys = bank.query, bank.keys
    heads, groups = query.shape[0], keys.shape[0]
    count, width = keys.shape[1:]
    orders = None
    if kernels is not None and heads * count * width <= MOST_TERMS and _float32(query, keys):
        edited = columns is not None
        orders = kernels.score_orders(heads, groups, count, width, edited=edited)
    keys = keys if columns is None else keys[:, columns]
    exact = head_products(query.double(), keys.double())
    if orders is None:
        return Products(exact, _any_order(layer, query.double(), keys.double(), exact))
    each = query.unsqueeze(1), repeat_groups(keys, heads)
    if not torch.equal(query, layer.query):
        # An edited query is known but for its own roundings, which a replay would not have.
        return Products(exact, sum_spread(each[0].double() * each[1].double(), orders))
    least, most = replayed_sums(*each, orders)
    middle = torch.where(most.isfinite(), (least + most) / 2, exact)
    return Products(middle, Spread.of(torch.maximum(most - middle, middle - least)))


def edited_products(
    layer: LayerCapture, bank: LayerBank, kernels: Kernels | None, own: Products
) -> Products:
    """Those of a bank whose query is the layer's, from the layer's `own`: new only where keys are."""
    keys = by_groups_of(bank.keys, layer.keys)
    edited = (bank.keys != keys).any(-1).any(0).nonzero().squeeze(-1)
    part = score_products(layer, bank, kernels, columns=edited)
    return Products(
        own.values.index_copy(-1, edited, part.values),
        Spread(
            own.spread.sure.index_copy(-1, edited, part.spread.sure),
            own.spread.square.index_copy(-1, edited, part.spread.square),
        ),
    )


def _any_order(layer: LayerCapture, query: Tensor, keys: Tensor, exact: Tensor) -> Spread:
    """Roundings of q·k in an order that is not known, stored in the model's precision."""
    total = head_products(query.abs(), keys.abs())
    squares = head_products(query.square(), keys.square())
    spread = any_order_spread(total, squares, query.shape[-1], layer.precision)
    return stored(spread, exact, layer.precision)


def _float32(*tensors: Tensor) -> bool:
    return all(tensor.dtype is torch.float32 for tensor in tensors)
