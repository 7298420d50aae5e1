"""Simulated symmetric per-vector quantisation of Appendix G."""

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus import _checks


def quantise(vectors: Float[Tensor, "*batch width"], bits: int) -> Float[Tensor, "*batch width"]:
    """Round each vector to a·round(x/a), a = max|x|/(2^{bits−1} − 1), in the input's dtype.

    Codes lie in ±(2^{bits−1} − 1) and |x − Q(x)| ≤ a/2 up to rounding. A zero vector stays zero, and
    so does one whose scale a underflows. Ties go to even codes.
    """
    _checks.floating("vectors", vectors)
    _checks.finite("vectors", vectors)
    if not isinstance(bits, int) or bits < 2:
        raise ValueError(
            f"`bits` must be an integer of at least 2; got {bits!r}. "
            f"One bit leaves no level beside zero, so the scale is undefined."
        )
    scale = vectors.abs().amax(-1, keepdim=True) / (2 ** (bits - 1) - 1)
    codes = torch.round(vectors / torch.where(scale == 0, 1.0, scale))
    return torch.where(scale == 0, 0.0, scale * codes)
