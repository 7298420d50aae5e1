"""A float32 sum of products in a known order, formed again bit for bit.

Once probes have revealed in which order a kernel adds, and which products it fuses with an addition
(`finite_calculus.models.sum_probe`), nothing is left open: IEEE arithmetic determines the result. So the
rounding of such a sum is a number and needs no bound. A fused addition is emulated in float64: the product of
two float32 numbers is exact there, and a sum that is not is rounded to odd before it is rounded to float32,
which is then as if rounded once (Boldo and Melquiond, "Emulation of a FMA and Correctly Rounded Sums: Proved
Algorithms Using Rounding to Odd", IEEE Transactions on Computers 57, 2008).
"""

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.models.sum_order import Order


def replayed_sums(
    left: Float[Tensor, "*left terms"],
    right: Float[Tensor, "*right terms"],
    orders: Iterable[Order],
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """The least and the largest of Σ left·right over the last dimension, of all orders, in float64.

    The factors are float32 numbers. Where a sum overflows nothing is known of it: it lies between −∞ and ∞.
    """
    products = (left.double() * right.double()).movedim(-1, 0).contiguous()
    sums = torch.stack([_replayed(products, order) for order in orders])
    unknown = ~sums.isfinite().all(0)
    return (
        sums.amin(0).masked_fill(unknown, -torch.inf),
        sums.amax(0).masked_fill(unknown, torch.inf),
    )


def _replayed(products: Float[Tensor, "terms *shape"], order: Order) -> Float[Tensor, "*shape"]:
    """The sum in one order, from the exact products."""
    items, add = products.float(), torch.add
    if len(order.rounded) < len(products):
        rounded = torch.zeros(len(products), dtype=torch.bool)
        rounded[list(order.rounded)] = True
        items, add = products.clone(), _add
        items[rounded] = products[rounded].float().double()
    for places in order.levels:
        joined = items.index_select(0, places.flatten()).unflatten(0, places.shape)
        total = joined[:, 0]
        for item in joined.unbind(1)[1:]:
            total = add(total, item)
        items = torch.cat([items, total])
    return items[-1].double()


def _add(total: Tensor, term: Tensor) -> Tensor:
    """A float32 number plus a float32 number or an exact product, rounded to float32 once; all in float64."""
    whole = total + term
    share = whole - total
    lost = (total - (whole - share)) + (term - share)
    bits = whole.view(torch.int64)
    # One unit more in the bits is the next number away from zero.
    step = torch.where((lost > 0) == (whole > 0), 1, -1)
    odd = torch.where((lost != 0) & (bits & 1 == 0), bits + step, bits)
    return odd.view(torch.float64).float().double()
