"""The independent one-step regression learner of Appendix I (eq:independentgd, eq:alignedeta)."""

from jaxtyping import Float
from torch import Tensor

from finite_calculus import _checks
from finite_calculus._transforms import refuted


def regression_step(
    inputs: Float[Tensor, "*batch examples width"], targets: Float[Tensor, "*batch examples"]
) -> Float[Tensor, "*batch width"]:
    """g_D = (1/N) Σ x_j t_j = −∇L_D(0): one unit step of least squares from zero (eq:independentgd)."""
    _checks.same_dtype(inputs=inputs, targets=targets)
    _checks.last_axes("inputs", inputs, (None, None), "(..., examples, width)")
    _checks.last_axes("targets", targets, inputs.shape[-2:-1], "(..., examples)")
    if inputs.shape[-2] == 0:
        raise ValueError("`inputs` must hold at least one example; got 0. The mean is undefined.")
    return (inputs * targets.unsqueeze(-1)).sum(-2) / inputs.shape[-2]


def aligned_rate(
    predictions: Float[Tensor, "*shape"], reference: Float[Tensor, "*shape"]
) -> Float[Tensor, ""]:
    """η = argmin_{η≥0} Σ (f − ηh)² = max(0, Σfh/Σh²) (eq:alignedeta).

    `reference` is h = xᵀg_D. Where it vanishes identically every η is a minimiser, so this raises.
    """
    _checks.same_dtype(predictions=predictions, reference=reference)
    if predictions.shape != reference.shape:
        raise ValueError(
            f"`reference` must have the shape of `predictions`, {tuple(predictions.shape)}; "
            f"got {tuple(reference.shape)}. Pair each prediction with its own reference."
        )
    scale = (reference * reference).sum()
    if refuted(scale > 0):
        raise ValueError(
            "`reference` must not vanish identically: the minimiser is not unique; got all zeros. "
            "Use episodes with non-zero targets."
        )
    return ((predictions * reference).sum() / scale).clamp(min=0)
