"""Attention of many rows over one prefix, read where it is; each row has its own last token.

It runs in place of the eager function on the shared path of execution and under the second derivative;
its matrix products are grouped otherwise, so that it differs from the eager one by rounding.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from finite_calculus.models.patches import Patch
from finite_calculus.models.precision import widened
from finite_calculus.models.session import AttentionCall
from finite_calculus.models.sinks import sink_scores
from finite_calculus.models.softcap import capped


def shared_attention(
    call: AttentionCall,
    keys: Tensor,
    values: Tensor,
    patch: Patch | None = None,
    *,
    products: Callable[[Tensor, Tensor], Tensor] = torch.bmm,
) -> Tensor:
    """y of every row, (rows, 1, heads, width), over one prefix and each row's own last token.

    Scores are held as (groups, rows, heads of a group, columns), so that the product of a group with
    the prefix is one of matrices; `products` multiplies all groups. With a patch, all rows have row 0's
    query, key and value.
    """
    keys, values, count = keys[0], values[0], keys.shape[2]
    query = call.query.squeeze(2).unflatten(1, (keys.shape[0], -1)).movedim(1, 0)
    own_key, own_value = call.key.movedim(1, 0), call.value.movedim(1, 0)
    if patch is not None:
        query, own_key, own_value = query[:, :1], own_key[:, :1], own_value[:, :1]
        if patch.query is not None:
            query = (query.double() + patch.query).to(query.dtype)
    shared = products(query.flatten(1, 2), keys.mT).unflatten(1, query.shape[1:3])
    # In float32 also where the model is in half precision, as a product of matrices sums.
    own = (widened(query) * widened(own_key)).sum(-1, keepdim=True).to(query.dtype)
    scores = _finished(call, torch.cat([shared, own], -1), None)
    if patch is None:
        y = _weighed(_softmax(call, scores), values, own_value, products)
    else:
        touched = _finished(call, query @ patch.keys.mT, patch.columns.clamp(max=count))
        probs, moved = patch.out_of(_softmax(call, patch.into(scores, touched)))
        y = _weighed(probs, values, own_value, products) + widened(moved @ patch.values)
    y = y.to(call.value.dtype)
    return y.movedim(0, 1).flatten(1, 2).unsqueeze(1)


def one_by_one(rows: Tensor, prefix: Tensor) -> Tensor:
    """Products of one group after the other: batched over directions, `bmm` would copy the prefix."""
    return torch.stack([own @ shared for own, shared in zip(rows, prefix, strict=True)])


def _weighed(
    probs: Tensor,
    values: Tensor,
    own_value: Tensor,
    products: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """Σpv over the prefix, one product of matrices, and the last token's own value, in float32 at least."""
    count = values.shape[1]
    y = products(probs[..., :count].flatten(1, 2), values).unflatten(1, probs.shape[1:3])
    return widened(y) + widened(probs[..., count : count + 1]) * widened(own_value)


def _finished(call: AttentionCall, products: Tensor, columns: Tensor | None) -> Tensor:
    """Scores from products: scaled, capped, masked; `columns` says which ones, None means all."""
    scores = capped(products * call.scaling, call.options.get("softcap"))
    if call.mask is None:
        return scores
    mask = call.mask[0, 0, -1]
    if columns is None:
        return scores + mask[: scores.shape[-1]]
    return scores + mask[columns].unsqueeze(-2)


def _softmax(call: AttentionCall, scores: Tensor) -> Tensor:
    """Probabilities of the columns; a sink takes part as a null key and is left out again."""
    sinks = call.options.get("s_aux")
    if sinks is not None:
        sinks = sinks.reshape(scores.shape[0], 1, -1)
    return torch.softmax(sink_scores(scores, sinks), -1)[..., : scores.shape[-1]]
