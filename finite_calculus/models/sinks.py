"""A layer's sink as one more key: a learned score per head, a null value, always attended, never edited.

Every tensor over the keys of a layer is extended here and nowhere else; a layer without a sink
(`sinks` is None) keeps its tensors as they are. Tracked tensors pass through (`finite_calculus.rounding`).
"""

import torch
from torch import Tensor


def sink_scores(scores: Tensor, sinks: Tensor | None) -> Tensor:
    """Scores (..., keys) followed by the sink's own; `sinks` has their leading shape or broadcasts to it."""
    if sinks is None:
        return scores
    null = sinks.to(scores.dtype).unsqueeze(-1).expand(*scores.shape[:-1], 1)
    return torch.cat([scores, null], -1)


def sink_mask(attended: Tensor, sinks: Tensor | None) -> Tensor:
    """The attended set with the sink in it."""
    if sinks is None:
        return attended
    return torch.cat([attended, torch.ones_like(attended[..., :1])], -1)


def null_sink(tensor: Tensor, sinks: Tensor | None, *, dim: int = -1) -> Tensor:
    """Values, increments or a set of edited keys, followed by the sink's: zero, or not edited."""
    if sinks is None:
        return tensor
    return torch.cat([tensor, torch.zeros_like(tensor.narrow(dim, 0, 1))], dim)
