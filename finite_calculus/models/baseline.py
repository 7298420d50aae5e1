"""The unedited batch: what every row of a batch of a given size computes without an edit.

Rounding depends on the batch size and, where a matrix kernel treats left-over rows apart, on the row.
The control of an edited row is therefore the same row of an unedited batch of the same size; it is
computed once per prompt and size, and serves resumption from any layer too.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from finite_calculus.models.devices import moving_hook, standing_in
from finite_calculus.models.prompt import PreparedPrompt
from finite_calculus.models.session import AttentionCall, Session, active, by_module, keep_call
from finite_calculus.models.support import Site
from finite_calculus.models.words import short_repr


@runtime_checkable
class BlockState(Protocol):
    """What a block handed on."""

    @property
    def state(self) -> Tensor:
        """The residual stream."""
        ...

    @property
    def others(self) -> int | None:
        """How many things came with it, if it was in a tuple."""
        ...


@dataclass(frozen=True, eq=False)
class LayerBaseline:
    """One layer of an unedited batch at the last token, row by row.

    `state` is the output of the block and `others` counts what a tuple held beside it; `query`,
    `key` and `value` are the last token's own.
    """

    __repr__ = short_repr

    state: Float[Tensor, "rows 1 model"]
    others: int | None
    query: Float[Tensor, "rows heads width"]
    key: Float[Tensor, "rows groups width"]
    value: Float[Tensor, "rows groups value_width"]
    output: Float[Tensor, "rows heads value_width"]
    write: Float[Tensor, "rows model"]


@dataclass(frozen=True, eq=False)
class BatchBaseline:
    """Logits and layers of an unedited batch."""

    __repr__ = short_repr

    logits: Float[Tensor, "rows vocabulary"]
    layers: tuple[LayerBaseline, ...]


def batch_baseline(prompt: PreparedPrompt, rows: int) -> BatchBaseline:
    """The unedited batch of `rows` for a prompt, computed on first use and kept with its prefix."""
    baselines = prompt.prefix.baselines
    if rows not in baselines:
        baselines[rows] = _run(prompt, rows)
    return baselines[rows]


@contextmanager
def skipping(
    sites: tuple[Site, ...], layers: Sequence[BlockState], *, rows: int | None = None
) -> Iterator[None]:
    """Let blocks hand on the state of an unedited batch instead of computing it.

    With `rows`, the state of a batch of one is handed on for that many rows.
    """
    with ExitStack() as stack:
        for site in sites:
            if "forward" in vars(site.block) and moving_hook(site.block) is None:
                raise ValueError(
                    f"Block {site.layer} must not have a forward of its own instance; it has one. "
                    f'Pass path="whole".'
                )
            repeat = partial(_repeat_state, layers[site.layer], rows)
            stack.enter_context(standing_in(site.block, repeat))
        yield


def _repeat_state(layer: BlockState, rows: int | None, *args: Any, **kw: Any) -> Any:
    """The forward of a skipped block: what it returned in the unedited batch, whatever comes in."""
    state = layer.state if rows is None else layer.state.expand(rows, -1, -1)
    return state if layer.others is None else (state, *[None] * layer.others)


def _run(prompt: PreparedPrompt, rows: int) -> BatchBaseline:
    sites = prompt.sites
    fields: dict[int, dict[str, Any]] = {site.layer: {} for site in sites}

    def observe(site: Site, call: AttentionCall, output: Tensor) -> Tensor:
        fields[site.layer] |= {
            "query": call.query[:, :, -1].clone(),
            "key": call.key[:, :, -1].clone(),
            "value": call.value[:, :, -1].clone(),
            "output": output[:, -1].reshape(rows, call.query.shape[1], -1).clone(),
        }
        return output

    with ExitStack() as stack:
        for site in sites:
            own = fields[site.layer]
            stack.callback(site.block.register_forward_hook(_block_hook(own)).remove)
            stack.callback(site.projection.register_forward_hook(_write_hook(own)).remove)
        stack.enter_context(torch.no_grad())
        stack.enter_context(active(Session(by_module(sites), keep_call, observe)))
        logits = prompt.run_last(rows=rows)
    return BatchBaseline(logits, tuple(LayerBaseline(**fields[site.layer]) for site in sites))


def block_state(output: Any) -> tuple[Tensor, int | None]:
    """The residual stream in a block's output, and how many things came with it, if it is a tuple."""
    if isinstance(output, tuple):
        return output[0].detach().clone(), len(output) - 1
    return output.detach().clone(), None


def _block_hook(fields: dict[str, Any]) -> Any:
    def hook(module: nn.Module, args: Any, output: Any) -> None:
        fields["state"], fields["others"] = block_state(output)

    return hook


def _write_hook(fields: dict[str, Any]) -> Any:
    def hook(module: nn.Module, args: Any, output: Tensor) -> None:
        fields["write"] = output.reshape(-1, output.shape[-1]).clone()

    return hook
