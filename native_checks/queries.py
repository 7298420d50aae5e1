"""Effective weights, anchors and query control on native tensors: Sections 3.3 and 4, Appendices B and C.

They are defined where the query is affine in the head input and scores are not capped; elsewhere a check
says so.
"""

from dataclasses import replace

import torch
from torch import Tensor

from finite_calculus.control import control_query, log_ratios
from finite_calculus.effective import (
    EffectiveWeights,
    anchor_bound,
    anchor_residual,
    augment,
    unit_gradient_step,
)
from finite_calculus.margin import norm
from finite_calculus.models import LayerBank, head_features
from finite_calculus.models.bounds import log_weight_error, stored_weight_error
from finite_calculus.models.features import head_rotary
from finite_calculus.models.projections import affine_query
from finite_calculus.models.query_bounds import query_error
from finite_calculus.models.sinks import null_sink
from finite_calculus.models.sum_order import half_place
from finite_calculus.rotary import rotate
from native_checks.bench import Bench
from native_checks.local import query_share
from native_checks.records import GateCheck, Gathered
from native_checks.replays import Replay, weights_of

_READOUT = "roundings of y, plus how far the measured rounding of q, within its bound, moves it"
# What a requested log ratio of a head is changed by.
_REQUEST = (0.5, -0.25)
_EPS = 16 * torch.finfo(torch.float64).eps


def projections_match(bench: Bench) -> tuple[GateCheck, GateCheck]:
    """The native query of every head against c·R(p)(xW + b), and its scores against uᵀa, in float64."""
    queries, scores = Gathered("affine projections"), Gathered("affine scores")
    for replay in bench.affine_replays:
        layer = replay.layer
        query, rounding = affine_query(layer), query_error(layer)
        queries.add(layer.query.double() - query, rounding, query)
        head_input, _ = layer.query_map()
        features = torch.stack([head_features(layer, head) for head in range(layer.heads)])
        native, seen = replay.readout.scores, replay.readout.attended
        apart = native - features @ augment(head_input.double())
        keys = layer.keys.double().abs().repeat_interleave(layer.heads // layer.keys.shape[0], 0)
        size = (keys * rounding.unsqueeze(-2)).sum(-1) * abs(layer.scaling)
        # The score of a sink depends on no query; it is a float32 number on both sides.
        allowed = null_sink(size, layer.sinks) + _EPS * native.abs().nan_to_num(posinf=0.0)
        scores.add(apart[seen], allowed[seen], native[seen])
    reason = "one float32 product per head, its bias, and the rotation by a float32 angle"
    waived = "angles grow with the position"
    return (
        queries.check(reason, none=bench.not_affine, waived=waived),
        scores.check(f"{reason}, times the keys", none=bench.not_affine, waived=waived),
    )


def gradient_steps_reconstruct(bench: Bench) -> GateCheck:
    """μ + uᵀ(−∇E(0)), the gradient by automatic differentiation, against the native y."""
    gathered = Gathered("unit gradient steps")
    for replay in bench.affine_replays:
        rounding = replay.base.output_error + query_share(replay.layer)
        weights = weights_of(replay)
        output = _written(weights, unit_gradient_step(weights))
        gathered.add(replay.base.output - output, rounding, replay.base.output)
    return gathered.check(_READOUT, none=bench.not_affine)


def anchors_leave_their_residual(bench: Bench) -> tuple[GateCheck, GateCheck]:
    """What the matrix of another query leaves of the native y, token by token, and its norm.

    The anchor is the head input of the donor prompt at the same position, over this prompt's bank.
    """
    residuals, bounds = Gathered("reused matrix"), Gathered("reused matrix, norm")
    for replay in bench.affine_replays:
        layer, other = replay.layer, replay.donor.head_input
        if other is None:
            continue
        rounding = replay.base.output_error + query_share(layer)
        weights, anchor = weights_of(replay), weights_of(replay, head_input=other)
        left = replay.base.output - _written(weights, anchor.matrix)
        exact = anchor_residual(weights, anchor).sum(-2)
        residuals.add(left - exact, rounding, replay.base.output)
        bounds.add(norm(left), anchor_bound(weights, anchor) + norm(rounding))
    return (
        residuals.check(_READOUT, none=bench.not_affine),
        bounds.check(
            f"‖u‖‖ΔM − ΔM_a‖, and {_READOUT}", none=bench.not_affine, waived="not a rounding"
        ),
    )


def requested_ratios_are_native(bench: Bench) -> GateCheck:
    """Log ratios of native probabilities under the smallest edit of the head input that asks for them."""
    gathered = Gathered("requested log ratios")
    for replay in bench.affine_replays:
        pairs = _pairs(replay)
        if pairs is None:
            continue
        delta, wanted, left_over = _control(replay, pairs)
        layer = replay.layer
        bank = replace(
            layer.bank(),
            query=layer.precision.round((layer.query.double() + delta).to(layer.query.dtype)),
        )
        cell = replay.cell(bank)
        heads = torch.arange(replay.layer.heads).unsqueeze(-1)
        change = cell.probs.log() - replay.base.probs.log()
        native = change[heads, pairs[..., 0]] - change[heads, pairs[..., 1]]
        rounding = _ratio_rounding(replay, bank, delta, pairs)
        # A weight so light that it may be stored as zero has no logarithm: its pair is not asked about.
        held = torch.isfinite(rounding)
        if bool(held.any()):
            gathered.add((native - wanted)[held], (rounding + left_over)[held], wanted[held])
    return gathered.check(
        "roundings of four native weights and of the edited query, and the solve's accuracy",
        none=f"{bench.not_affine}, fewer than three keys, or weights that the precision does not hold",
        waived="a logarithm of native weights",
    )


def _written(weights: EffectiveWeights, matrix: Tensor) -> Tensor:
    """μ + uᵀM in every head."""
    return weights.mean + torch.einsum("hi,hiv->hv", weights.query_input, matrix)


def _pairs(replay: Replay) -> Tensor | None:
    """For every head its heaviest key against the second, and the second against the third."""
    if len(replay.columns) < 3:
        return None
    order = replay.readout.probs[:, replay.columns].argsort(-1, descending=True)
    top = replay.columns[order[:, :3]]
    return torch.stack([top[:, :2], top[:, 1:]], -2)


def _control(replay: Replay, pairs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For every head the increment of its rotated query, the changes asked for, and what is left of them."""
    layer = replay.layer
    head_input, weights = layer.query_map()
    query_input = augment(head_input.double())
    deltas, wanted, residuals = [], [], []
    for head in range(layer.heads):
        features = head_features(layer, head)
        current = log_ratios(query_input, features, pairs[head])
        request = torch.tensor(_REQUEST, dtype=torch.float64)
        answer = control_query(query_input, features, pairs[head], current + request)
        moved = answer.edit @ weights[head].double()
        deltas.append(rotate(head_rotary(layer), moved, layer.position) * layer.rotary_scaling)
        # Keys that are alike cannot be told apart by any query: then what the calculus says it achieves.
        wanted.append(request if answer.feasible else answer.achieved - current)
        residuals.append(torch.full_like(request, answer.accuracy))
    return torch.stack(deltas), torch.stack(wanted), torch.stack(residuals)


def _ratio_rounding(replay: Replay, bank: LayerBank, delta: Tensor, pairs: Tensor) -> Tensor:
    """Roundings of the two log ratios before and after, and of the edited query."""
    layer, heads = replay.layer, torch.arange(replay.layer.heads).unsqueeze(-1)
    total = torch.zeros(pairs.shape[:2], dtype=torch.float64)
    for each in (layer.bank(), bank):
        error = log_weight_error(layer, each, kernels=replay.kernels)
        probs = layer.readout(each).probs
        kept = stored_weight_error(layer, probs * torch.exp(error)) * torch.exp(error) / probs
        error = error - torch.log1p(-kept.clamp(max=1))
        total = total + error[heads, pairs[..., 0]] + error[heads, pairs[..., 1]]
    keys = layer.keys.double().repeat_interleave(layer.heads // layer.keys.shape[0], 0)
    apart = keys[heads, pairs[..., 0]] - keys[heads, pairs[..., 1]]
    off = half_place(bank.query.double().abs(), layer.precision)
    return total + (apart.abs() * off.unsqueeze(-2)).sum(-1) * abs(layer.scaling)
