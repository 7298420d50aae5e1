"""What one pass of the last token does, recorded by hooks layer by layer, with leaves for its gradients.

Hooks sit at output projections, blocks and query projections and are removed when the pass is over.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from finite_calculus.models.baseline import BatchBaseline, LayerBaseline, block_state
from finite_calculus.models.projections import query_projection
from finite_calculus.models.session import AttentionCall
from finite_calculus.models.support import Site


@dataclass(eq=False)
class Recorder:
    """What the hooks of one capture collect, layer by layer; leaves at the requested layers only."""

    layers: frozenset[int]
    calls: dict[int, AttentionCall] = field(default_factory=dict)
    outputs: dict[int, Tensor] = field(default_factory=dict)
    writes: dict[int, Tensor] = field(default_factory=dict)
    inputs: dict[int, Tensor] = field(default_factory=dict)
    states: dict[int, tuple[Tensor, int | None]] = field(default_factory=dict)
    residuals: dict[int, float] = field(default_factory=dict)
    leaves: dict[tuple[str, int], Tensor] = field(default_factory=dict)

    def leaf(self, kind: str, layer: int, tensor: Tensor) -> Tensor:
        """The tensor plus a zero leaf at a requested layer, which changes no bit."""
        if layer not in self.layers:
            return tensor
        zero = torch.zeros_like(tensor, requires_grad=True)
        self.leaves[kind, layer] = zero
        return tensor + zero

    def observe(self, site: Site, call: AttentionCall, output: Tensor) -> Tensor:
        """The hook at an attention call, as a `Session` takes it."""
        self.calls[site.layer], self.outputs[site.layer] = call, output
        return self.leaf("output", site.layer, output)

    def baseline(self, logits: Tensor) -> BatchBaseline:
        """The pass as an unedited batch of one row."""
        layers = []
        for i, call in sorted(self.calls.items()):
            state, others = self.states[i]
            query, key, value = (x[:, :, -1].detach() for x in (call.query, call.key, call.value))
            output = self.outputs[i][:, -1].detach().reshape(1, query.shape[1], -1)
            write = self.writes[i].detach().reshape(1, -1)
            layers.append(LayerBaseline(state, others, query, key, value, output, write))
        return BatchBaseline(logits.detach(), tuple(layers))


@contextmanager
def recording(sites: tuple[Site, ...], recorder: Recorder) -> Iterator[None]:
    """A block whose forward pass of the last token goes into the recorder."""
    with ExitStack() as stack:
        for site in sites:
            hook = _projection_hook(site.layer, recorder)
            stack.callback(site.projection.register_forward_hook(hook).remove)
            hook = _block_hook(site.layer, recorder)
            stack.callback(site.block.register_forward_hook(hook).remove)
            hook = _residual_hook(site.layer, recorder)
            added = site.block.register_forward_pre_hook(hook, with_kwargs=True)
            stack.callback(added.remove)
            query = query_projection(site.module)
            if query is not None:
                hook = _input_hook(site.layer, recorder)
                stack.callback(query.register_forward_pre_hook(hook).remove)
        yield


def _projection_hook(layer: int, recorder: Recorder) -> Any:
    def hook(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        recorder.writes[layer] = output
        return recorder.leaf("write", layer, output)

    return hook


def _block_hook(layer: int, recorder: Recorder) -> Any:
    def hook(module: nn.Module, args: Any, output: Any) -> None:
        recorder.states[layer] = block_state(output)

    return hook


def _residual_hook(layer: int, recorder: Recorder) -> Any:
    def hook(module: nn.Module, args: Any, kwargs: Any) -> None:
        state = args[0] if args else kwargs["hidden_states"]
        recorder.residuals[layer] = float(torch.linalg.vector_norm(state.detach().double()))

    return hook


def _input_hook(layer: int, recorder: Recorder) -> Any:
    def hook(module: nn.Module, args: Any) -> None:
        recorder.inputs[layer] = args[0].detach()

    return hook
