"""The second order downstream along given writes: ½ ΔoᵀHΔo, one Hessian–vector product for each.

For few edits of a layer, whose own writes are the directions, so that nothing of them lies outside
(`finite_calculus.models.curvature` serves many). A prediction beyond the edited write, which bounds nothing.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.models.margins import Margin
from finite_calculus.models.products import layer_products
from finite_calculus.models.prompt import PreparedPrompt


def second_terms(
    prompt: PreparedPrompt, margin: Margin, writes: Mapping[int, Float[Tensor, "_ model"]]
) -> dict[int, Float[Tensor, " writes"]]:
    """½ ΔoᵀHΔo of the writes of each layer, along the directions of the writes themselves.

    Products are float32.
    """
    layers = sorted(writes)
    sizes = [torch.linalg.vector_norm(writes[n].double(), dim=-1) for n in layers]
    # A write of zero keeps its zero direction.
    units = [
        (writes[n] / torch.where(size > 0, size, 1.0).unsqueeze(-1)).float()
        for n, size in zip(layers, sizes, strict=True)
    ]
    terms = {}
    for part in layer_products(prompt, margin, layers, units):
        if part.own is not None:
            along = (units[part.place].double() * part.own.cpu().double()).sum(-1)
            terms[layers[part.place]] = 0.5 * along * sizes[part.place].square()
    return terms
