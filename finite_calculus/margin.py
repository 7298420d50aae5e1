"""From head readouts to one answer margin: main:scorecandidate and eq:marginprediction.

Head outputs are projected into the residual stream and summed over heads, then contracted with a
gradient taken at the baseline. The projected write is exact; the contraction is a prediction of the
downstream margin, whose error only execution can measure.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus import _checks
from finite_calculus._units import power_of_two
from finite_calculus.rounding import value_of


def project(
    head_writes: Float[Tensor, "*batch heads width"],
    output_projection: Float[Tensor, "heads width model"],
) -> Float[Tensor, "*batch model"]:
    """Projected write o = Σ_h y_h W_{o,h} (main:scorecandidate)."""
    _check(head_writes, output_projection)
    joined = output_projection.flatten(0, 1)
    return torch.matmul(head_writes.flatten(-2).unsqueeze(-2), joined).squeeze(-2)


def contract(
    head_writes: Float[Tensor, "*batch heads width"],
    output_projection: Float[Tensor, "heads width model"],
    gradient: Float[Tensor, " model"],
) -> Float[Tensor, "*batch"]:
    """Predicted margin change ⟨g, Σ_h Δy_h W_{o,h}⟩ (eq:marginprediction).

    Exact for the edited attention write; beyond it a prediction with the gradient frozen.
    """
    _check(head_writes, output_projection)
    return (head_writes * head_gradient(output_projection, gradient)).sum((-2, -1))


def head_gradient(
    output_projection: Float[Tensor, "heads width model"], gradient: Float[Tensor, " model"]
) -> Float[Tensor, "heads width"]:
    """Gradient of the margin at each head's own output: g_h = W_{o,h} gᵀ."""
    _checks.same_dtype(output_projection=output_projection, gradient=gradient)
    _checks.exact_axes("gradient", gradient, (output_projection.shape[-1],), "(model width,)")
    return torch.matmul(output_projection, gradient.unsqueeze(-1)).squeeze(-1)


def norm(writes: Float[Tensor, "*batch model"]) -> Float[Tensor, "*batch"]:
    """‖o‖₂ of each projected write, in units of a power of two near its largest entry.

    The squares of small writes would underflow; a power of two changes no digit of the others.
    """
    unit = power_of_two(value_of(writes).abs().amax(-1, keepdim=True))
    return torch.linalg.vector_norm(writes / unit, dim=-1) * unit.squeeze(-1)


def _check(head_writes: Tensor, output_projection: Tensor) -> None:
    _checks.same_dtype(head_writes=head_writes, output_projection=output_projection)
    _checks.exact_axes(
        "output_projection", output_projection, (None, None, None), "(heads, value width, model)"
    )
    heads, width, _ = output_projection.shape
    _checks.last_axes("head_writes", head_writes, (heads, width), "(..., heads, value width)")
