"""Hessian–vector products of the margin at the writes of the last token, batched over directions.

One zero offset is added to the projected write of every layer from the lowest edited one on. The margin's
gradient at the offsets keeps its own graph, and a second backward pass through it, batched over
directions, gives the products: the baseline and its gradient are evaluated once, so that weights are read
once for all directions, and a pass goes down to the lowest layer of its directions only. The last token's
own key and value move with its state and are part of the derivative; the prefix is shared and does not
move (`prefix_attention`). Blocks below the lowest layer hand on their captured state and enter no graph.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from finite_calculus.models.baseline import batch_baseline, skipping
from finite_calculus.models.latent import prefix_bank
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
from finite_calculus.models.smoothness import require_digits
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
    with gradient_graph(prompt, margin, layers) as graph:
        return [each.detach() for each in graph.gradients], graph.products(0, starts)


@dataclass(frozen=True, eq=False)
class GradientGraph:
    """Gradients of the margin at offsets to the writes of layers, with the graph that made them."""

    family: str
    layers: tuple[int, ...]
    offsets: tuple[Tensor, ...]
    gradients: tuple[Tensor, ...]

    def products(
        self, first: int, starts: Sequence[Float[Tensor, "_ model"]]
    ) -> list[Float[Tensor, "directions model"]]:
        """H b at the layers from place `first` on; `starts` has directions, or none, for each of these.

        The pass goes no deeper than that layer, so that directions of high layers cost little. Directions are
        moved to where their layer is.
        """
        pairs = zip(starts, self.offsets[first:], strict=True)
        moved = _offsets([each.to(offset.device) for each, offset in pairs])
        started = [place for place, each in enumerate(starts) if len(each)]
        try:
            products = torch.autograd.grad(
                [self.gradients[first + place] for place in started],
                self.offsets[first:],
                [moved[place] for place in started],
                is_grads_batched=True,
                retain_graph=True,
            )
        except NotImplementedError as error:
            raise UnsupportedModelError(
                f"`curvature` needs a second derivative of everything above layer {self.layers[first]}; "
                f"torch has none for a part of {self.family}: {error}. Capture without it."
            ) from error
        return list(products)


@contextmanager
def gradient_graph(
    prompt: PreparedPrompt, margin: Margin, layers: Sequence[int]
) -> Iterator[GradientGraph]:
    """The baseline's gradients at ascending layers, evaluated once for all directions."""
    with margins_of_offsets(prompt, margin, layers) as function, torch.enable_grad():
        writes = [batch_baseline(prompt, 1).layers[layer].write[0] for layer in layers]
        offsets = tuple(torch.zeros_like(each, dtype=torch.float32) for each in writes)
        offsets = tuple(offset.requires_grad_() for offset in offsets)
        gradients = torch.autograd.grad(function(*offsets)[0], offsets, create_graph=True)
        yield GradientGraph(type(prompt.model).__name__, tuple(layers), offsets, gradients)


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
        return shared_attention(call, *prefix_bank(prompt, site), products=one_by_one)

    require_digits(prompt.model)
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
