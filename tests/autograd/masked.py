"""Masked keys that hold garbage, and the gradients that they must not have."""

import torch
from torch import Tensor

from tests.autograd.functions import MASK


def spread(part: Tensor, garbage: float) -> Tensor:
    """Four attended entries placed among the keys of `MASK`, garbage at the others."""
    whole = torch.full((len(MASK), *part.shape[1:]), garbage, dtype=part.dtype)
    whole[MASK] = part
    return whole


def fitted(mask: Tensor, tensor: Tensor) -> Tensor:
    return mask.reshape(-1, *[1] * (tensor.ndim - 1))


def assert_quiet_at_masked_keys(results: Tensor | tuple[Tensor, ...], leaves: list[Tensor]) -> None:
    """Gradients are finite everywhere, zero at masked keys, and not all zero."""
    parts = results if isinstance(results, tuple) else (results,)
    total = torch.stack([(part * part.detach().cos()).sum() for part in parts]).sum()
    gradients = torch.autograd.grad(total, leaves, allow_unused=True)
    present = [gradient for gradient in gradients if gradient is not None]
    assert present
    for gradient in present:
        assert bool(torch.isfinite(gradient).all())
        assert int(gradient[~MASK].count_nonzero()) == 0
    assert any(int(gradient.count_nonzero()) > 0 for gradient in present)
