"""Scores that others rank by: attention, value norm, gradient × input, and the first order of an edit.

The first three know a token at a layer and not what is done to it. Attention is the weight of a token
summed over heads, value norm the norm of its weighted projected value, gradient × input the derivative of
the margin along the token's cached key and value, times them.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.models import LayerCapture
from finite_calculus.models.layer import head_products, repeat_groups
from finite_calculus.search import PreparedSearch


def place_scores(layer: LayerCapture) -> Float[Tensor, "3 keys"]:
    """Attention, value norm and gradient × input of every key column."""
    readout = layer.readout()
    keys = layer.keys.shape[1]
    probs = readout.probs[:, :keys]
    values = repeat_groups(layer.values.double(), layer.heads)
    projection = layer.output_projection.double()
    norms = torch.linalg.vector_norm(
        torch.einsum("hj,hjw,hwm->jm", probs, values, projection), dim=-1
    )
    gradient = projection @ layer.gradient_write.double()
    along = (values @ gradient.unsqueeze(-1)).squeeze(-1)
    own = (probs * along).sum(-1, keepdim=True)
    products = head_products(layer.query.double(), layer.keys.double()) * layer.scaling
    taken = probs * ((along - own) * products + along)
    return torch.stack([probs.sum(0), norms, taken.sum(0)])


def first_order(prepared: PreparedSearch) -> Float[Tensor, " rows"]:
    """Σ p (a − Σpa) d + p ε of every candidate: the Jacobian of the edited write along the gradient.

    A deletion's score increment is infinite; as in the certificate it counts as −1.
    """
    effects = []
    for block in prepared.blocks:
        stack = block.places.stack
        probs, along = stack.readout.probs, stack.readout.values.squeeze(-1)
        slope = probs * (along - (probs * along).sum(-1, keepdim=True))
        total = torch.zeros_like(slope)
        if block.removes:
            total = -slope
        if block.scores is not None:
            total = total + slope * block.scores
        if block.values is not None:
            total = total + probs * block.values
        effects.append(total.sum(-2).index_select(-1, block.places.columns[:, 0]).flatten())
    return torch.cat(effects)
