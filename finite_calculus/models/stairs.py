"""Hessian–vector products of all layers in one pass up and one down, for models of gated blocks.

Directions are stacked as they enter: at each layer the rows are those of all lower layers and its own, so
that every weight is read once up and once down for all of them, and none is multiplied by a row of zeros.
Where one row of torch's own double derivative takes hundreds of small operations a block, all rows
together take some sixty here. What is computed is that of `finite_calculus.models.hessian`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import linear

from finite_calculus.models.baseline import batch_baseline
from finite_calculus.models.gated_blocks import Attention, Gate, MovedAttention, Norm, rotation
from finite_calculus.models.margins import Margin
from finite_calculus.models.prompt import PreparedPrompt


@dataclass(frozen=True, eq=False)
class _Step:
    """A block, and the directions on their way up: as they enter, and between attention and gate."""

    block: Any
    entered: Float[Tensor, "lower model"]
    first: Norm
    attention: Attention
    read: MovedAttention
    middle: Float[Tensor, "rows model"]
    second: Norm
    gate: Gate
    gates: Float[Tensor, "rows inner"]
    ups: Float[Tensor, "rows inner"]


def stair_products(
    prompt: PreparedPrompt,
    margin: Margin,
    layers: Sequence[int],
    starts: Sequence[Float[Tensor, "_ model"]],
) -> Iterator[tuple[Float[Tensor, " model"], Float[Tensor, "rows model"]]]:
    """Gradient at each layer, the highest first, and H b there for the directions of it and of lower ones.

    `layers` ascend; `starts` are their directions, none for a layer at which only products are wanted.
    """
    steps = _up(prompt, dict(zip(layers, starts, strict=True)))
    slopes = _at_top(prompt, margin, steps[-1])
    for number in range(len(prompt.sites) - 1, layers[0] - 1, -1):
        step = steps.pop()
        slopes = _through_gate(step, slopes)
        if number in layers:
            yield slopes[-1], slopes[:-1]
        slopes = _through_attention(step, slopes)


@torch.no_grad()
def _up(prompt: PreparedPrompt, starts: dict[int, Tensor]) -> list[_Step]:
    states, turn = _states(prompt), rotation(prompt)
    lowest = min(starts)
    none = starts[lowest][:0]
    steps: list[_Step] = []
    for number in range(lowest, len(prompt.sites)):
        block: Any = prompt.sites[number].block
        entered = _out(steps[-1]) if steps else none
        first = Norm.of(block.input_layernorm, states[number])
        attention, own = Attention.of(prompt, number, turn), block.self_attn
        rows = first.along(entered)
        moved = [linear(rows, each.weight) for each in (own.q_proj, own.k_proj, own.v_proj)]
        output, read = attention.along(*moved)
        middle = torch.addmm(entered, output, own.o_proj.weight.T)
        middle = torch.cat([middle, starts.get(number, none)])
        write = batch_baseline(prompt, 1).layers[number].write[0]
        second = Norm.of(block.post_attention_layernorm, states[number] + write)
        # The baseline is the last row, so that weights are read once for it too.
        rows, mlp = torch.cat([second.along(middle), second.value.unsqueeze(0)]), block.mlp
        gates, ups = linear(rows, mlp.gate_proj.weight), linear(rows, mlp.up_proj.weight)
        gate = Gate(_biased(gates[-1], mlp.gate_proj.bias), _biased(ups[-1], mlp.up_proj.bias))
        steps.append(
            _Step(
                block, entered, first, attention, read, middle, second, gate, gates[:-1], ups[:-1]
            )
        )
    return steps


@torch.no_grad()
def _at_top(prompt: PreparedPrompt, margin: Margin, last: _Step) -> Float[Tensor, "slopes model"]:
    """Through the head and the last norm: what every direction bends there, and the baseline's slope."""
    model: Any = prompt.model
    norm, head = Norm.of(model.base_model.norm, _states(prompt)[-1]), model.lm_head.weight
    slope = head[margin.answer] - head[margin.versus]
    return torch.cat([norm.bent(_out(last), slope), norm.back(slope.unsqueeze(0))])


def _out(step: _Step) -> Float[Tensor, "rows model"]:
    """The directions as they leave a block."""
    moved = step.gate.along(step.gates, step.ups)
    return torch.addmm(step.middle, moved, step.block.mlp.down_proj.weight.T)


@torch.no_grad()
def _through_gate(step: _Step, slopes: Tensor) -> Float[Tensor, "slopes model"]:
    mlp = step.block.mlp
    to_gate, to_up = step.gate.back(slopes @ mlp.down_proj.weight, step.gates, step.ups)
    normed = torch.addmm(to_gate @ mlp.gate_proj.weight, to_up, mlp.up_proj.weight)
    return _through_norm(step.second, step.middle, slopes, normed)


@torch.no_grad()
def _through_attention(step: _Step, slopes: Tensor) -> Float[Tensor, "slopes model"]:
    """Of the directions of lower layers alone: those of this one entered after its attention."""
    own, slopes = step.block.self_attn, torch.cat([slopes[: len(step.entered)], slopes[-1:]])
    parts = step.attention.back(slopes @ own.o_proj.weight, step.read)
    weights = (own.q_proj.weight, own.k_proj.weight, own.v_proj.weight)
    normed = parts[0] @ weights[0]
    for part, weight in zip(parts[1:], weights[1:], strict=True):
        normed.addmm_(part, weight)
    return _through_norm(step.first, step.entered, slopes, normed)


def _through_norm(norm: Norm, rows: Tensor, slopes: Tensor, normed: Tensor) -> Tensor:
    slopes = slopes + norm.back(normed)
    slopes[:-1] += norm.bent(rows, normed[-1])
    return slopes


def _states(prompt: PreparedPrompt) -> list[Float[Tensor, " model"]]:
    """The residual stream of the last token: as it enters each block, and as it leaves the last."""
    entered = prompt.model.get_input_embeddings()(prompt.prefix.last)[0, -1]
    layers = batch_baseline(prompt, 1).layers
    return [entered, *(layer.state[0, -1] for layer in layers)]


def _biased(row: Tensor, bias: Tensor | None) -> Tensor:
    return row if bias is None else row + bias
