"""Simulated symmetric per-vector quantisation of Appendix G."""

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus import _checks
from finite_calculus._units import power_of_two


def quantise(vectors: Float[Tensor, "*batch width"], bits: int) -> Float[Tensor, "*batch width"]:
    """Round each vector to a·round(x/a), a = max|x|/(2^{bits−1} − 1), in the input's dtype.

    Codes lie in ±(2^{bits−1} − 1) and |x − Q(x)| ≤ a/2 up to rounding. Each vector is measured in units
    of a power of two near its largest entry, which changes no digit and keeps a scale from being
    rounded among the subnormal numbers. A zero vector stays zero. Ties go to even codes.
    """
    _checks.floating("vectors", vectors)
    _checks.finite("vectors", vectors)
    if not isinstance(bits, int) or bits < 2:
        raise ValueError(
            f"`bits` must be an integer of at least 2; got {bits!r}. "
            f"One bit leaves no level beside zero, so the scale is undefined."
        )
    largest = vectors.abs().amax(-1, keepdim=True)
    unit = power_of_two(largest)
    scale = largest / unit / (2 ** (bits - 1) - 1)
    codes = torch.round(vectors / unit / torch.where(scale == 0, 1.0, scale))
    most = torch.finfo(vectors.dtype).max  # a·code may round to beyond the largest entry
    return torch.where(scale == 0, 0.0, (scale * codes * unit).clamp(-most, most))
