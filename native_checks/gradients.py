"""The gradient at the projected write against central differences of the native margin.

Margins of half precision are too coarse to be subtracted. Theirs are formed with the same weights in float32,
one module at a time, and the gradient, which is rounded too, is held to a quarter of its own length.
"""

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from finite_calculus.joint import decompose
from finite_calculus.margin import contract, project
from finite_calculus.models import LayerCapture, Margin
from finite_calculus.models.baseline import batch_baseline, skipping
from finite_calculus.models.support import Site
from native_checks.bench import Bench
from native_checks.records import GateCheck, Gathered

# Steps relative to the size of the write, from large against curvature to small against rounding.
_STEPS = tuple(2.0**-k for k in range(12))
_REASON = (
    "difference quotients of m: rounding over h, plus what they change over smaller and larger h"
)
_COARSE = "a float32 difference quotient is coarser than the tolerance of a replay"


def gradient_matches_differences(bench: Bench) -> GateCheck:
    """⟨g, w⟩ along the gradient itself and along a random direction, at every layer."""
    gathered, layers = Gathered("gradient at the write"), bench.capture.layers
    with bench.finely() as fine:
        for layer in layers:
            gradient = layer.gradient_write.double()
            draw = torch.Generator().manual_seed(layer.layer)
            noise = torch.randn(gradient.shape, generator=draw, dtype=torch.float64)
            for direction in (gradient / gradient.norm(), noise / noise.norm()):
                _add(gathered, fine, layer, direction, torch.dot(gradient, direction))
    return gathered.check(_REASON, waived=_COARSE)


def predictor_matches_differences(bench: Bench) -> GateCheck:
    """G(Δy) and G(C_KV) of a joint edit against differences of the margin along the two exact writes.

    G is the margin to first order in the write: what a joint edit is predicted to do downstream, and
    what the four-cell difference of its margins is. Both are slopes; the size of a write is divided out.
    """
    gathered = Gathered("joint predictor")
    slopes = []
    for replay in bench.replays:
        layer, change = replay.layer, replay.increments(replay.rewritten.bank)
        parts = decompose(replay.readout, change.scores, change.values)
        weight, gradient = layer.output_projection.double(), layer.gradient_write.double()
        for response in (parts.total, parts.interaction):
            write = project(response, weight)
            size = write.norm()
            if float(size) > 0:
                predicted = contract(response, weight, gradient) / size
                slopes.append((layer, write / size, predicted))
    with bench.finely() as fine:
        for slope in slopes:
            _add(gathered, fine, *slope)
    return gathered.check(_REASON, none="no joint edit changes a write", waived=_COARSE)


def _add(
    gathered: Gathered, bench: Bench, layer: LayerCapture, direction: Tensor, predicted: Tensor
) -> None:
    """The slope of the native margin along a direction of the write, beside the predicted one."""
    site = bench.instrument.support.sites[layer.layer]
    steps = float(layer.write.double().norm()) * torch.tensor(_STEPS, dtype=torch.float64)
    moves = torch.cat([steps, -steps, torch.zeros(1)]).unsqueeze(-1) * direction
    slope, error = slope_at_zero(steps, _margins_at(bench, site, moves), bench.budget)
    # A bound as large as the gradient would let anything pass.
    most = layer.gradient_write.double().norm() / 4
    bound = most if layer.precision.half else torch.minimum(error, most)
    gathered.add(slope - predicted, bound, slope)


def slope_at_zero(steps: Tensor, margins: Tensor, budget: float) -> tuple[Tensor, Tensor]:
    """The slope from margins at steps h = s₀, s₀/2, …, at −h and at 0, and its error bound.

    The quotient of least error is taken: central, (m(h) − m(−h))/2h, or to one side, (m(h) − m(0))/h and
    (m(0) − m(−h))/h, which do not see a jump of the margin (another choice of experts) on the other side.
    """
    ahead, behind, here = margins.split([len(steps), len(steps), 1])
    quotients = [
        _settled((ahead - behind) / (2 * steps), budget / steps),
        _settled((ahead - here) / steps, 2 * budget / steps),
        _settled((here - behind) / steps, 2 * budget / steps),
    ]
    return min(quotients, key=lambda pair: float(pair[1]))


def _settled(slopes: Tensor, rounding: Tensor) -> tuple[Tensor, Tensor]:
    """The quotient of least error, and that error: its rounding and what it leaves out.

    What it leaves out is measured twice and the larger counts. What it changed from 8h down to h, which
    for a smooth margin is 63 times what is left below h (h²m'''/6, to one side 7 times: hm''/2). And
    what it changes from h down to any smaller step, so that a kink (ReLU) or a jump below h is seen,
    at the price of the rounding of small steps.
    """
    above = (slopes[:-1] - slopes[1:]).abs().unfold(0, 3, 1).sum(-1)
    below = (slopes.unsqueeze(-1) - slopes).abs().triu(1).amax(-1)
    errors = torch.maximum(above, below[3:]) + rounding[3:]
    best = int(errors.argmin())
    return slopes[3 + best], errors[best]


def _margins_at(bench: Bench, site: Site, moves: Tensor) -> Tensor:
    """Margins with the projected write of one layer moved, one row per move."""

    def push(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        return output + moves.to(output).reshape(output.shape)

    prompt, rows = bench.instrument.prompt(bench.ids), moves.shape[0]
    below = batch_baseline(prompt, rows).layers
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(skipping(prompt.sites[: site.layer], below))
        stack.callback(site.projection.register_forward_hook(push).remove)
        logits = prompt.run_last(rows=rows)
    return Margin(bench.answer, bench.versus).of(logits.double()).cpu()
