"""The second order downstream along given writes: ½ ΔoᵀHΔo, one Hessian–vector product for each.

For few edits of a layer, whose own writes are the directions, so that nothing of them lies outside
(`finite_calculus.models.curvature` serves many). A prediction beyond the edited write, which bounds nothing.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.models.hessian import hessian_products
from finite_calculus.models.margins import Margin
from finite_calculus.models.prompt import PreparedPrompt


def second_terms(
    prompt: PreparedPrompt, margin: Margin, writes: Mapping[int, Float[Tensor, "_ model"]]
) -> dict[int, Float[Tensor, " writes"]]:
    """½ ΔoᵀHΔo of the writes of each layer, along the directions of the writes themselves.

    All products are one pass from the lowest layer on, in float32.
    """
    layers = sorted(writes)
    sizes = [torch.linalg.vector_norm(writes[n].double(), dim=-1) for n in layers]
    # A write of zero keeps its zero direction.
    units = [
        (writes[n] / torch.where(size > 0, size, 1.0).unsqueeze(-1)).float()
        for n, size in zip(layers, sizes, strict=True)
    ]
    starts = [each.to(prompt.prefix.ids.device) for each in units]
    _, products = hessian_products(prompt, margin, layers, starts)
    terms, done = {}, 0
    for n, size, unit, product in zip(layers, sizes, units, products, strict=True):
        own = product[done : done + len(unit)].detach().cpu()
        terms[n] = 0.5 * (unit.double() * own.double()).sum(-1) * size.square()
        done += len(unit)
    return terms
