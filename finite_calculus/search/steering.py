"""Constructing a requested relationship on a real head: Section 4 and Appendix C (main:querycontrol).

Requested attention ratios, after any positional shift of keys, are solved for the smallest edit of the
head's affine input; the edit is executed as an increment of the rotated query, and the ratios are read
from the native attention weights. Directions that preserve attention are checked in the same way.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.control import QueryControl, control_query, preserving_directions
from finite_calculus.effective import augment
from finite_calculus.models import (
    Capture,
    Edit,
    Instrument,
    KeyShift,
    LayerCapture,
    QueryEdit,
    edited_bank,
    output_error,
)
from finite_calculus.models.features import head_features, head_rotary
from finite_calculus.models.sinks import sink_mask
from finite_calculus.rotary import rotate
from finite_calculus.search.native import attention_weights

# Weights in float32 go down to 1e-38: a larger ratio could not be read from them.
MOST_RATIO = 1e30


@dataclass(frozen=True)
class Request:
    """Ask that `above` be attended `ratio` times as much as `below`; tokens by index."""

    above: int
    below: int
    ratio: float | int

    def __post_init__(self) -> None:
        if not 1 / MOST_RATIO <= self.ratio <= MOST_RATIO:
            raise ValueError(
                f"`ratio` must be positive and finite, from {1 / MOST_RATIO:g} to {MOST_RATIO:g}, which "
                f"float32 weights can show; got {self.ratio}."
            )


@dataclass(frozen=True, eq=False)
class Steering:
    """A solved and executed request at one head.

    `before` are the native ratios without any edit, `shifted` those after the positional shift alone,
    `achieved` those of the executed edit, all read from native attention weights. `control` is the
    solve in float64 with its residual; `effect` the executed change of the margin.
    """

    layer: int
    head: int
    requests: tuple[Request, ...]
    control: QueryControl
    edits: tuple[Edit, ...]
    before: tuple[float, ...]
    shifted: tuple[float, ...]
    achieved: tuple[float, ...]
    effect: float

    @property
    def edit_norm(self) -> float:
        """Norm of the edit of the head's input."""
        return float(torch.linalg.vector_norm(self.control.edit))


@dataclass(frozen=True)
class PreservingCheck:
    """Attention-preserving query directions of a head, and one of them executed.

    `kept` of `inputs` directions change no attention probability; `rank` can be controlled. `moved` is
    the largest change of an attention weight when the head's input is moved by its own norm along a
    random preserving direction, `response` the largest change of the head's output beside its
    float32 `bound`; `other` is the largest weight change for a move of the same size in a random
    controllable direction.
    """

    layer: int
    head: int
    inputs: int
    rank: int
    kept: int
    moved: float
    response: float
    bound: float
    other: float


def steer(
    instrument: Instrument,
    capture: Capture,
    layer: int,
    head: int,
    requests: Sequence[Request],
    *,
    shift: KeyShift | None = None,
) -> Steering:
    """Solve requested ratios at one head after an optional shift of keys, and execute the solution."""
    head_layer = capture.layer(layer)
    shifts: tuple[Edit, ...] = () if shift is None else (shift,)
    bank = edited_bank(head_layer, shifts) if shifts else head_layer.bank()
    features = head_features(head_layer, head, bank)
    pairs = torch.tensor(
        [[head_layer.column(r.above), head_layer.column(r.below)] for r in requests]
    )
    log_ratios = torch.tensor([math.log(r.ratio) for r in requests], dtype=torch.float64)
    head_input, _ = head_layer.query_map()
    control = control_query(augment(head_input.double()), features, pairs, log_ratios)
    edits = (*shifts, query_edit(head_layer, head, control.edit))
    before, shifted, achieved = (
        _ratios(attention_weights(instrument, capture, layer, each)[head], pairs)
        for each in ((), shifts, edits)
    )
    effect = instrument.execute(capture, [edits]).outcomes[0].effect
    return Steering(layer, head, tuple(requests), control, edits, before, shifted, achieved, effect)


def check_preserving(
    instrument: Instrument, capture: Capture, layer: int, head: int, *, seed: int = 0
) -> PreservingCheck:
    """Count the attention-preserving directions of a head and execute a random one of them."""
    head_layer = capture.layer(layer)
    features = head_features(head_layer, head)
    mask = sink_mask(head_layer.attended, head_layer.sinks)
    preserving = preserving_directions(features, mask=mask)
    inputs = features.shape[1] - 1
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(inputs, generator=generator, dtype=torch.float64)
    inside = preserving.basis @ (preserving.basis.mT @ noise)
    head_input, _ = head_layer.query_map()
    size = torch.linalg.vector_norm(head_input.double())
    base = attention_weights(instrument, capture, layer, ())[head]
    moves = []
    for direction in (inside, noise - inside):
        length = torch.linalg.vector_norm(direction)
        step = direction * (size / torch.where(length == 0, 1.0, length))
        edit = query_edit(head_layer, head, step)
        weights = attention_weights(instrument, capture, layer, (edit,))[head]
        moves.append((edit, float((weights - base).abs().max())))
    outcome = instrument.execute(capture, [moves[0][0]]).outcomes[0]
    allowed = output_error(outcome.layer, edited_bank(outcome.layer, moves[0][0]))
    return PreservingCheck(
        layer=layer,
        head=head,
        inputs=inputs,
        rank=preserving.rank,
        kept=preserving.basis.shape[1],
        moved=moves[0][1],
        response=float(outcome.response[head].abs().max()),
        bound=float((allowed + output_error(outcome.layer))[head].max()),
        other=moves[1][1],
    )


def query_edit(layer: LayerCapture, head: int, edit: Float[Tensor, " inputs"]) -> QueryEdit:
    """An edit of the head's input as an increment of its rotated query: c·R(p)(hW_q)."""
    _, query_weight = layer.query_map()
    unrotated = torch.matmul(edit, query_weight[head].double())
    rotated = rotate(head_rotary(layer), unrotated, layer.position) * layer.rotary_scaling
    delta = torch.zeros_like(layer.query)
    delta[head] = rotated.to(layer.query.dtype)
    return QueryEdit(layer.layer, (), delta)


def _ratios(weights: Tensor, pairs: Tensor) -> tuple[float, ...]:
    return tuple((weights[pairs[:, 0]] / weights[pairs[:, 1]]).tolist())
