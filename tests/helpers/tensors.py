"""Random tensors, the same on every run."""

import torch
from torch import Tensor


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Standard normal numbers, drawn in float64 on the CPU and rounded to the dtype."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randn(*shape, generator=generator, dtype=torch.float64, device="cpu")
    return numbers.to(dtype)
