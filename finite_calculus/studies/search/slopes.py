"""Other slopes than the gradient, for exact writes: relevance propagation, and integrated gradients.

RelP (relevance patching) takes the gradient of a model made linear in place: the scale of every norm, the
gate of an activation and the attention weights are held, and a product of two branches gives half to each.
Integrated gradients average the gradient over eight midpoints of the path on which a layer's own write
grows from nothing to what it is. Both are one vector for each layer, as the gradient is.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from finite_calculus.models import Capture
from finite_calculus.models.hessian import margins_of_offsets
from finite_calculus.models.prompt import PreparedPrompt
from finite_calculus.models.session import AttentionCall
from finite_calculus.models.support import Site

STEPS = 8


def relevance_slopes(prompt: PreparedPrompt, capture: Capture) -> list[Tensor]:
    """RelP's coefficient of the write at every captured layer, from one backward pass."""
    layers = [layer.layer for layer in capture.layers]
    offsets = [torch.zeros_like(layer.write, requires_grad=True) for layer in capture.layers]
    held = margins_of_offsets(prompt, capture.margin, layers, edit=_held_weights)
    with held as margins, _held(prompt.model), torch.enable_grad():
        return list(torch.autograd.grad(margins(*offsets)[0], offsets))


def integrated_slopes(prompt: PreparedPrompt, capture: Capture) -> list[Tensor]:
    """The mean gradient at every captured layer while its write grows from zero, eight midpoints."""
    shares = (torch.arange(STEPS) + 0.5) / STEPS
    slopes = []
    for layer in capture.layers:
        offset = ((shares - 1).reshape(-1, 1, 1) * layer.write).requires_grad_()
        path = margins_of_offsets(prompt, capture.margin, [layer.layer], rows=STEPS)
        with path as margins, torch.enable_grad():
            (slope,) = torch.autograd.grad(margins(offset).sum(), offset)
        slopes.append(slope.mean((0, 1)))
    return slopes


def _held_weights(site: Site, call: AttentionCall) -> AttentionCall:
    """Attention weights are constants of the pass; values are not."""
    return AttentionCall(
        call.query.detach(), call.key.detach(), call.value, call.mask, call.options
    )


@contextmanager
def _held(model: nn.Module) -> Iterator[None]:
    """Norms and activations as multiplications by what they multiply by here; products halved."""
    norms = [m for m in model.modules() if type(m).__name__.endswith("RMSNorm")]
    activations = [m for m in model.modules() if type(m).__name__ in ("SiLU", "SiLUActivation")]
    products = [m for name, m in model.named_modules() if name.endswith("mlp.down_proj")]
    if not norms or not activations or not products:
        raise ValueError(
            f"RelP must find RMS norms, SiLU gates and a down_proj in the model; "
            f"{type(model).__name__} has not all of them. Choose another model."
        )
    with ExitStack() as hooks:
        for module in (*norms, *activations):
            hooks.callback(module.register_forward_hook(_same_factor).remove)
        for module in products:
            hooks.callback(module.register_forward_pre_hook(_half).remove)
        yield


def _same_factor(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
    entered = args[0]
    factor = output.detach() / torch.where(entered == 0, 1.0, entered.detach())
    return entered * factor


def _half(module: nn.Module, args: tuple[Tensor, ...]) -> Any:
    entered = args[0] / 2
    return (entered + entered.detach(), *args[1:])
