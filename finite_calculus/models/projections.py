"""The linear maps on either side of an attention: queries from the head input, the write from y."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from finite_calculus.models.bounds import query_error
from finite_calculus.models.layer import LayerCapture, stored_copy
from finite_calculus.models.support import Site, UnsupportedModelError, has_query_norm
from finite_calculus.rotary import rotate


def projection_weights(
    projection: nn.Module, heads: int
) -> tuple[Float[Tensor, "heads width model"], Float[Tensor, " model"] | None]:
    """Output projection per head in row convention, with its bias; Linear and GPT-2's Conv1D."""
    weight = getattr(projection, "weight", None)
    if not isinstance(weight, Tensor) or weight.ndim != 2:
        raise UnsupportedModelError(
            f"The output projection must be a linear map; got {type(projection).__name__}. "
            f"Merge adapters and quantised weights into a plain layer first."
        )
    rows = weight.mT if isinstance(projection, nn.Linear) else weight
    bias = getattr(projection, "bias", None)
    per_head = stored_copy(rows.reshape(heads, -1, rows.shape[-1]))
    return per_head, None if bias is None else stored_copy(bias)


def query_projection(module: nn.Module) -> nn.Linear | None:
    """The linear layer that an attention module's queries come from, alone or fused; None without."""
    projection = getattr(module, "q_proj", None) or getattr(module, "qkv_proj", None)
    return projection if type(projection) is nn.Linear else None


def with_query_weights(site: Site, layer: LayerCapture, head_input: Tensor | None) -> LayerCapture:
    """Add the affine query map where there is one, and only if it reproduces the captured query."""
    query = query_projection(site.module)
    if query is None or head_input is None:
        return replace(layer, not_affine="the query projection is not a plain linear layer")
    if has_query_norm(site.module):
        return replace(layer, not_affine="queries are normalised after projection")
    heads, width = layer.query.shape
    weight = query.weight.detach()[: heads * width].reshape(heads, width, -1).mT
    bias = None if query.bias is None else query.bias.detach()[: heads * width]
    affine = replace(
        layer,
        head_input=stored_copy(head_input.reshape(-1, head_input.shape[-1])[-1]),
        query_weight=stored_copy(weight),
        query_bias=None if bias is None else stored_copy(bias.reshape(heads, width)),
    )
    apart = (affine_query(affine) - layer.query.double()).abs() - query_error(affine)
    if not bool((apart <= 0).all()):
        return replace(layer, not_affine="the query is more than projection and rotation")
    return affine


def affine_query(layer: LayerCapture) -> Float[Tensor, "heads width"]:
    """q̃ = c·R(p)(xW + b) in float64, for layers with an affine query."""
    head_input, weight = layer.query_map()
    query = torch.matmul(head_input.double(), weight.double())
    if layer.query_bias is not None:
        query = query + layer.query_bias.double()
    if layer.rotary is not None:
        query = rotate(layer.rotary, query, layer.position)
    return query * layer.rotary_scaling
