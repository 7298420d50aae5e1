"""Capped scores, cap·tanh(s/cap), as Gemma 2 has them; a cap of None leaves scores alone.

The cap bends scores, so that increments of bands do not add up and effective weights do not exist.
"""

import torch
from torch import Tensor


def capped(scores: Tensor, cap: float | None) -> Tensor:
    """cap·tanh(s/cap)."""
    return scores if cap is None else torch.tanh(scores / cap) * cap


def capped_change(scores: Tensor, change: Tensor, cap: float | None) -> Tensor:
    """cap(s + d) − cap(s) = cap·tanh(d/cap)·(1 − tanh(s/cap) tanh((s + d)/cap)), which does not cancel."""
    if cap is None:
        return change
    before, step = scores / cap, change / cap
    return torch.tanh(step) * (1 - torch.tanh(before) * torch.tanh(before + step)) * cap
