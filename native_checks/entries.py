"""Cache entries taken out, corrupted and put back, native cell by native cell: Section 4, Appendix G."""

import torch
from torch import Tensor

from finite_calculus.deletion import deletion_jacobian, select_evictions
from finite_calculus.margin import norm
from finite_calculus.models.edits.base import replace_columns
from finite_calculus.models.layer import repeat_groups
from finite_calculus.readout import freeze
from finite_calculus.restoration import (
    CachePair,
    restoration_response,
    restoration_scores,
    restore_greedily,
)
from native_checks.bench import Bench
from native_checks.records import GateCheck, Gathered
from native_checks.replays import Cell, Replay

_TWO = "roundings of two native readouts"
_ALONE = "every layer attends to one key alone"
# Of the norm of a write: what evictions may cost.
_BUDGET = 0.1
_CANDIDATES = 6
# As in native_checks.positions: joint cumulants of third and fourth order, by ranges.
_THIRD, _FOURTH = 1 / 4, 19 / 16
_SMALL = 2.0**-6


def own_key_carries_its_mass(bench: Bench) -> GateCheck:
    """y = (1 − π)·y_prefix + π·v_own, with y and y_prefix native: the bank with and without the own key."""
    gathered = Gathered("own key")
    for replay in _several(bench):
        own = replay.columns[-1:]
        prefix, base = replay.cell(replay.without(own)), replay.base
        mass = replay.readout.probs[:, own]
        value = repeat_groups(replay.layer.values.double(), replay.layer.heads)[:, own[0]]
        native = (1 - mass) * prefix.output + mass * value
        rounding = base.output_error + (1 - mass) * prefix.output_error
        gathered.add(base.output - native, rounding, base.output)
    return gathered.check(_TWO, none=_ALONE)


def deletions_match_control(bench: Bench) -> tuple[GateCheck, GateCheck]:
    """(1 − α)·Δy of a deleted group against αy − w_G; distortions of an eviction plan against native ones."""
    control, plans = Gathered("deletion, Jacobian control"), Gathered("planned evictions")
    for replay in _several(bench):
        removed, base = replay.columns[: max(1, len(replay.columns) // 3)], replay.base
        cell = replay.cell(replay.without(removed))
        kept = 1 - replay.readout.probs[:, removed].sum(-1, keepdim=True)
        exact = deletion_jacobian(replay.readout, _marked(replay, removed)[None]).squeeze(-2)
        rounding = kept * (cell.output_error + base.output_error)
        control.add(kept * (cell.output - base.output) - exact, rounding, base.output)
        _add_plan(plans, replay)
    return (
        control.check(_TWO, none=_ALONE),
        plans.check(f"{_TWO} through W_o, as a norm", none=f"{_ALONE}, or nothing fits the budget"),
    )


def _add_plan(gathered: Gathered, replay: Replay) -> None:
    """Native distortions beside those of a plan, which lie within its budget."""
    candidates = replay.columns[:-1][:_CANDIDATES]
    groups = torch.stack([_marked(replay, column[None]) for column in candidates])
    weight = replay.layer.output_projection.double()
    budget = _BUDGET * float(norm(replay.base.write))
    plan = select_evictions(replay.readout, groups, weight, budget)
    for last, distortion in enumerate(plan.distortions, 1):
        cell = replay.cell(replay.without(candidates[list(plan.evicted[:last])]))
        off = norm(cell.write_error + replay.base.write_error)
        apart = norm(cell.write - replay.base.write)
        gathered.add(apart - distortion, off, replay.base.write.abs().max())
        gathered.add((apart - budget).clamp(min=0), off, replay.base.write.abs().max())


def restorations_match_cells(bench: Bench) -> tuple[GateCheck, ...]:
    """Restored entries of a corrupted cache: response, benefit, the best of them, the error that is left."""
    names = ("restored entries", "restoration benefit", "greedy restoration")
    responses, benefits, choices = map(Gathered, names)
    for replay in _several(bench):
        corrupt, cache = replay.rewritten, _cache(replay, replay.rewritten)
        weight = replay.layer.output_projection.double()
        response = restoration_response(
            freeze(cache.scores, cache.values), cache.score_delta, cache.value_delta
        )
        exact = restoration_scores(cache, weight, "exact")
        plan = restore_greedily(cache, weight, 1, candidates=_entries(replay, cache))
        best = int(plan.restored[0])
        cells = {key: _restored(replay, corrupt, key) for key in {best, *_tried(replay)}}
        native = {key: _benefit(replay.base, corrupt, cell) for key, cell in cells.items()}
        for key, cell in cells.items():
            rounding = cell.output_error + corrupt.output_error
            apart = cell.output - corrupt.output - response[:, key]
            responses.add(apart, rounding, corrupt.output)
            benefits.add(native[key][0] - exact[key], native[key][1])
            worse = native[key][0] - native[best][0]
            choices.add(worse.clamp(min=0), native[key][1] + native[best][1])
        left = norm(cells[best].write - replay.base.write)
        off = norm(cells[best].write_error + replay.base.write_error)
        choices.add(left - plan.errors[1], off)
    squares = f"{_TWO} through W_o: r(2‖e‖ + r) of both squares"
    return (
        responses.check(_TWO, none=_ALONE),
        benefits.check(squares, none=_ALONE, waived="a difference of squares"),
        choices.check(squares, none=_ALONE, waived="a difference of squares"),
    )


def expansions_match_cells(bench: Bench) -> GateCheck:
    """The second-order score of a restoration against native benefits, keys and values a little corrupted.

    With Δ = f + s + R along the joint path, B differs from its second order by −2⟨e, R⟩ and by
    ‖f + s + R‖² − ‖f‖². Cumulants of the path bound s and R: |s| ≤ δ²·range(v)/8 + |δε|/4 and
    |R| ≤ (19/16·|δ|³(range(v) + |ε|) + 3/4·δ²|ε|)/6.
    """
    gathered = Gathered("second-order restoration")
    for replay in _several(bench):
        strength = _strength(replay)
        move = replay.towards_donor(replay.columns, keys=strength, values=strength)
        corrupt = replay.cell(move)
        cache = _cache(replay, corrupt)
        weight = replay.layer.output_projection.double()
        scores = restoration_scores(cache, weight, "second-order")
        error = corrupt.write - replay.base.write
        first, second, third = _orders(cache, weight)
        for key in _tried(replay):
            native, rounding = _benefit(replay.base, corrupt, _restored(replay, corrupt, key))
            tail = second[key] + third[key]
            left = 2 * (error.abs() * third[key]).sum() + norm(tail) * (
                2 * norm(first[key]) + norm(tail)
            )
            gathered.add(native - scores[key], left + rounding)
    return gathered.check(
        "the third order by cumulants, and roundings of native writes",
        none=_ALONE,
        waived="what is left of B is not rounding",
    )


def _several(bench: Bench) -> list[Replay]:
    """Layers that attend to more than one key."""
    return [replay for replay in bench.replays if len(replay.columns) > 1]


def _marked(replay: Replay, columns: Tensor) -> Tensor:
    """A mask over the keys of the readout, the sink among them, True at some columns."""
    mask = torch.zeros(replay.readout.keys, dtype=torch.bool)
    mask[columns] = True
    return mask


def _cache(replay: Replay, corrupt: Cell) -> CachePair:
    """The corrupted bank beside the original, over the attended keys, the sink last."""
    seen = replay.readout.attended[0]
    broken, whole = replay.layer.readout(corrupt.bank), replay.readout
    return CachePair(
        broken.scores[:, seen], broken.values[:, seen], whole.scores[:, seen], whole.values[:, seen]
    )


def _entries(replay: Replay, cache: CachePair) -> Tensor:
    """Entries of the cache that can be restored: all but the sink."""
    return torch.arange(cache.scores.shape[-1]) < len(replay.columns)


def _tried(replay: Replay) -> tuple[int, ...]:
    """The first and the last entry of the cache."""
    return (0, len(replay.columns) - 1)


def _restored(replay: Replay, corrupt: Cell, entry: int) -> Cell:
    """The corrupted readout with one entry put back."""
    column = replay.columns[entry : entry + 1]
    layer = replay.layer
    return replay.cell(
        replace_columns(
            corrupt.bank, column, keys=layer.keys[:, column], values=layer.values[:, column]
        )
    )


def _benefit(base: Cell, corrupt: Cell, restored: Cell) -> tuple[Tensor, Tensor]:
    """‖e‖² − ‖e_j‖² of native writes, and what rounding may do to it."""
    benefit, rounding = torch.zeros(()).double(), torch.zeros(()).double()
    for sign, cell in ((1, corrupt), (-1, restored)):
        length = norm(cell.write - base.write)
        off = norm(cell.write_error + base.write_error)
        benefit = benefit + sign * length * length
        rounding = rounding + off * (2 * length + off)
    return benefit, rounding


def _strength(replay: Replay) -> float:
    """How far to corrupt, so that no score moves by more than a little."""
    reach = float(
        replay.increments(replay.rewritten.bank).scores.abs()[replay.readout.attended].max()
    )
    return min(1.0, _SMALL / max(reach, _SMALL))


def _orders(cache: CachePair, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Bounds on the first, second and third order of every restored entry, (keys, model)."""
    readout = freeze(cache.scores, cache.values)
    delta, edit = cache.score_delta.abs().unsqueeze(-1), cache.value_delta.abs()
    reach = (cache.values.amax(-2) - cache.values.amin(-2)).unsqueeze(-2)
    first = readout.probs.unsqueeze(-1) * (delta * readout.centred.abs() + edit)
    second = delta**2 * reach * _THIRD / 2 + delta * edit / 4
    third = (_FOURTH * delta**3 * (reach + edit) + 3 * _THIRD * delta**2 * edit) / 6
    bounds = (torch.einsum("hkv,hvm->km", part, weight.abs()) for part in (first, second, third))
    first, second, third = bounds
    return first, second, third
