"""The gradient at the projected write against central differences of the native margin."""

from typing import Any

import torch
from torch import Tensor, nn

from finite_calculus.models.prefix import run_last
from finite_calculus.models.support import Site
from native_checks.bench import Bench
from native_checks.records import Check, compared

# Steps relative to the size of the write: from large against rounding to small against curvature.
_STEPS = tuple(2.0**-k for k in range(5, 15))


def gradient_matches_differences(bench: Bench) -> Check:
    """⟨g, w⟩ along the gradient itself and along a random direction, at every layer.

    Central differences at steps h and h/2 are extrapolated to zero step. Twice the spread of three
    neighbouring extrapolations shows what curvature and kinks leave (ReLU, experts), and the rounding
    of margins as measured, divided by the step, is added; the step with the least sum is taken.
    """
    apart, bound, reference = [], [], []
    for layer in bench.capture.layers:
        site = bench.instrument.support.sites[layer.layer]
        gradient = layer.gradient_write.double()
        draw = torch.Generator().manual_seed(layer.layer)
        noise = torch.randn(gradient.shape, generator=draw, dtype=torch.float64)
        for direction in (gradient / gradient.norm(), noise / noise.norm()):
            slope, error = _slope(bench, site, direction, float(layer.write.double().norm()))
            apart.append(slope - torch.dot(gradient, direction))
            # A bound as large as the gradient would let anything pass.
            bound.append(torch.minimum(error, gradient.norm() / 4))
            reference.append(slope)
    # A float32 difference quotient is itself coarser than the paper's tolerance: shown, not required.
    return compared(
        "gradient at the write",
        torch.stack(apart),
        torch.stack(bound),
        torch.stack(reference),
        "twice the spread of three extrapolated differences, plus measured rounding over the step",
        require_ceiling=False,
    )


def _slope(bench: Bench, site: Site, direction: Tensor, size: float) -> tuple[Tensor, Tensor]:
    """Extrapolated slope of the margin along a direction of the projected write, and its error."""
    steps = size * torch.tensor(_STEPS, dtype=torch.float64)
    margins = _margins_at(bench, site, torch.cat([steps, -steps]).unsqueeze(-1) * direction)
    slopes = (margins[: len(steps)] - margins[len(steps) :]) / (2 * steps)
    extrapolated = (4 * slopes[1:] - slopes[:-1]) / 3
    three = torch.stack([extrapolated[:-2], extrapolated[1:-1], extrapolated[2:]])
    errors = 2 * (three.amax(0) - three.amin(0)) + 3 * bench.noise / steps[3:]
    best = int(errors.argmin())
    return extrapolated[best + 1], errors[best]


def _margins_at(bench: Bench, site: Site, moves: Tensor) -> Tensor:
    """Margins with the projected write of one layer moved, one row per move."""

    def push(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        return output + moves.to(output).reshape(output.shape)

    handle = site.projection.register_forward_hook(push)
    try:
        with torch.no_grad():
            prefix = bench.instrument.prefix(bench.ids)
            logits = run_last(bench.instrument.model, prefix, rows=moves.shape[0])
    finally:
        handle.remove()
    return bench.capture.margin.of(logits.double()).cpu()
