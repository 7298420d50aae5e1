"""The gradient at the projected write against central differences of the native margin."""

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from finite_calculus.models.baseline import batch_baseline, skipping
from finite_calculus.models.prefix import run_last
from finite_calculus.models.support import Site
from native_checks.bench import Bench
from native_checks.records import Check, compared

# Steps relative to the size of the write, from large against curvature to small against rounding.
_STEPS = tuple(2.0**-k for k in range(12))


def gradient_matches_differences(bench: Bench) -> Check:
    """⟨g, w⟩ along the gradient itself and along a random direction, at every layer."""
    apart, bound, reference = [], [], []
    for layer in bench.capture.layers:
        site = bench.instrument.support.sites[layer.layer]
        gradient = layer.gradient_write.double()
        draw = torch.Generator().manual_seed(layer.layer)
        noise = torch.randn(gradient.shape, generator=draw, dtype=torch.float64)
        for direction in (gradient / gradient.norm(), noise / noise.norm()):
            steps = float(layer.write.double().norm()) * torch.tensor(_STEPS, dtype=torch.float64)
            moves = torch.cat([steps, -steps]).unsqueeze(-1) * direction
            slope, error = slope_at_zero(steps, _margins_at(bench, site, moves), bench.budget)
            apart.append(slope - torch.dot(gradient, direction))
            # A bound as large as the gradient would let anything pass.
            bound.append(torch.minimum(error, gradient.norm() / 4))
            reference.append(slope)
    return compared(
        "gradient at the write",
        torch.stack(apart),
        torch.stack(bound),
        torch.stack(reference),
        "D = (m(h) − m(−h))/2h: rounding of one margin over h, plus what D changes over smaller and larger h",
        waived="a float32 difference quotient is coarser than the tolerance of a replay",
    )


def slope_at_zero(steps: Tensor, margins: Tensor, budget: float) -> tuple[Tensor, Tensor]:
    """The slope from margins at steps h = s₀, s₀/2, …, followed by those at −h, and its error bound.

    D(h) = (m(h) − m(−h))/2h is rounded by at most budget/h. What D leaves out is measured twice and the
    larger counts. What it changed from 8h down to h: 63 times what is left below h for a smooth margin,
    whose D is off by h²m'''/6. And what it changes from h down to any smaller step, so that a kink
    (ReLU) or a jump (experts) below h is seen, at the price of the rounding of small steps. The step
    with the least sum is taken.
    """
    slopes = (margins[: len(steps)] - margins[len(steps) :]) / (2 * steps)
    above = (slopes[:-1] - slopes[1:]).abs().unfold(0, 3, 1).sum(-1)
    below = (slopes.unsqueeze(-1) - slopes).abs().triu(1).amax(-1)
    errors = torch.maximum(above, below[3:]) + budget / steps[3:]
    best = int(errors.argmin())
    return slopes[3 + best], errors[best]


def _margins_at(bench: Bench, site: Site, moves: Tensor) -> Tensor:
    """Margins with the projected write of one layer moved, one row per move."""

    def push(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        return output + moves.to(output).reshape(output.shape)

    model, sites = bench.instrument.model, bench.instrument.support.sites
    prefix, rows = bench.instrument.prefix(bench.ids), moves.shape[0]
    below = batch_baseline(model, sites, prefix, rows).layers
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(skipping(sites[: site.layer], below))
        stack.callback(site.projection.register_forward_hook(push).remove)
        logits = run_last(model, prefix, rows=rows)
    return bench.capture.margin.of(logits.double()).cpu()
