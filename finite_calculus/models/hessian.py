"""Hessian–vector products of the margin at the writes of the last token, batched over directions.

One zero offset is added to the projected write of every layer from the lowest edited one on. The margin's
gradient at the offsets keeps its own graph, and a second backward pass through it, batched over
directions, gives the products: the baseline and its gradient are evaluated once, so that weights are read
once for all directions. The last token's own key and value move with its state and are part of the
derivative; the prefix is shared and does not move (`prefix_attention`). Blocks below the lowest layer
hand on their captured state and enter no graph.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from finite_calculus.models.baseline import batch_baseline, skipping
from finite_calculus.models.margins import Margin, answers_only
from finite_calculus.models.prefix import OwnLayer
from finite_calculus.models.prefix_attention import one_by_one, shared_attention
from finite_calculus.models.prompt import PreparedPrompt
from finite_calculus.models.session import (
    AttentionCall,
    Session,
    active,
    by_module,
    keep_call,
    keep_output,
)
from finite_calculus.models.support import Site, UnsupportedModelError


def hessian_products(
    prompt: PreparedPrompt,
    margin: Margin,
    layers: Sequence[int],
    starts: Sequence[Float[Tensor, "_ model"]],
) -> tuple[list[Tensor], list[Float[Tensor, "directions model"]]]:
    """Gradients at `layers`, and H b at each of them for every direction b, all in float32.

    `layers` ascend. `starts[i]` are directions at `layers[i]`, none for a layer whose gradient's
    derivative is wanted but that starts no direction; all directions of all layers are one batch, in
    that order.
    """
    offsets = [torch.zeros_like(each[0]).requires_grad_() for each in _offsets(starts)]
    started = [place for place, each in enumerate(starts) if len(each)]
    with margins_of_offsets(prompt, margin, layers) as function, torch.enable_grad():
        gradients = torch.autograd.grad(function(*offsets)[0], offsets, create_graph=True)
        moved = _offsets(starts)
        try:
            products = torch.autograd.grad(
                [gradients[place] for place in started],
                offsets,
                [moved[place] for place in started],
                is_grads_batched=True,
            )
        except NotImplementedError as error:
            raise UnsupportedModelError(
                f"`curvature` needs a second derivative of everything above layer {layers[0]}; torch "
                f"has none for a part of {type(prompt.model).__name__}: {error}. Capture without it."
            ) from error
    return [gradient.detach() for gradient in gradients], list(products)


def _offsets(starts: Sequence[Tensor]) -> list[Float[Tensor, "directions model"]]:
    """The batch of directions as seen by each layer: its own ones, zero in the rows of others."""
    total, done, offsets = sum(len(each) for each in starts), 0, []
    for each in starts:
        rows = each.new_zeros(total, each.shape[-1])
        rows[done : done + len(each)] = each
        done += len(each)
        offsets.append(rows)
    return offsets


@contextmanager
def margins_of_offsets(
    prompt: PreparedPrompt,
    margin: Margin,
    layers: Sequence[int],
    *,
    rows: int = 1,
    edit: Callable[[Site, AttentionCall], AttentionCall] = keep_call,
) -> Iterator[Callable[..., Float[Tensor, " rows"]]]:
    """The margins of rows as a function of offsets to the writes of layers, while the block lasts."""

    def attend(site: Site, call: AttentionCall) -> Tensor:
        stored = prompt.prefix.layers[site.layer]
        return shared_attention(call, stored.keys, stored.values, products=one_by_one)

    with ExitStack() as stack:
        # Parameters would otherwise be recorded in a graph of their own.
        stack.enter_context(torch.no_grad())
        below = batch_baseline(prompt, 1).layers
        stack.enter_context(skipping(prompt.sites[: layers[0]], below, rows=rows))
        session = Session(by_module(prompt.sites), edit, keep_output, attend)
        stack.enter_context(active(session))
        stack.enter_context(_plain_experts(prompt.model))
        stack.enter_context(_plain_activation(prompt.model))
        pair = stack.enter_context(answers_only(prompt.model, margin))

        def function(*offsets: Tensor) -> Tensor:
            with ExitStack() as hooks:
                for layer, offset in zip(layers, offsets, strict=True):
                    projection = prompt.sites[layer].projection
                    hooks.callback(projection.register_forward_hook(_adding(offset)).remove)
                return pair.of(prompt.run_last(rows=rows, kind=OwnLayer))

        yield function


def _adding(offset: Tensor) -> Any:
    def hook(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        return output + offset

    return hook


@contextmanager
def _plain_activation(model: nn.Module) -> Iterator[None]:
    """SiLU as x σ(x): the derivative of torch's own kernel goes through a batch row by row."""
    with ExitStack() as hooks:
        for module in model.modules():
            if type(module).__name__ in ("SiLU", "SiLUActivation"):
                hooks.callback(module.register_forward_hook(_sigmoid_product).remove)
        yield


def _sigmoid_product(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
    return args[0] * torch.sigmoid(args[0])


@contextmanager
def _plain_experts(model: Any) -> Iterator[None]:
    """Experts by plain products: the grouped kernel has no second derivative."""
    before = getattr(model.config, "_experts_implementation", None)
    if before in (None, "eager", "batched_mm"):
        yield
        return
    model.set_experts_implementation("batched_mm")
    try:
        yield
    finally:
        model.set_experts_implementation(before)
