"""The whole Hessian of a tiny model's margin by the last token's write, in float64, and its rounding."""

import torch
from torch import Tensor

from finite_calculus.models.support import find_sites
from finite_calculus.models.tiny import tiny_model

FLOAT32 = torch.finfo(torch.float32).eps
ANSWERS = {"answer": 5, "versus": 9}


def margin_of_offset(model, ids: Tensor, layer: int):
    """The margin as a function of an offset to the last token's write: the whole prompt, no cache."""
    projection = find_sites(model)[layer].projection

    def function(offset: Tensor) -> Tensor:
        last = torch.zeros(len(ids), 1, dtype=offset.dtype)
        last[-1] = 1
        hook = projection.register_forward_hook(lambda module, args, out: out + last * offset)
        try:
            logits = model(input_ids=ids.unsqueeze(0), use_cache=False).logits[0, -1]
        finally:
            hook.remove()
        return logits[5] - logits[9]

    return function


def full_hessian(family: str, ids: Tensor, layer: int) -> Tensor:
    """Row by row, by two backward passes in float64 and without the instrument."""
    model = tiny_model(family).double()
    model.set_attn_implementation("eager")
    if family == "gpt_oss":
        model.set_experts_implementation("eager")  # the grouped kernel has no float64
    offset = torch.zeros(48, dtype=torch.float64)
    return torch.autograd.functional.hessian(margin_of_offset(model, ids, layer), offset)


def rounding_of(exact: Tensor) -> Tensor:
    """Float32 sums of 48 terms in each of three layers, of entries as large as the largest."""
    return 3 * 48 * FLOAT32 * exact.abs().max()
