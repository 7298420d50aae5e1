"""Joint edits of keys and values, native cell by native cell: Sections 3.1 and 3.2.

Every cell is a float32 replay of a layer's own attention (`native_checks.replays`). The parts that the
calculus gives in closed form are held to differences of two or four such cells.
"""

import torch
from torch import Tensor

from finite_calculus.certificate import certify
from finite_calculus.joint import (
    decompose,
    interaction,
    key_response,
    linear_response,
    quadratic_interaction,
    softmax_remainder,
    value_response,
)
from finite_calculus.models import LayerBank
from finite_calculus.models.bounds import log_weight_error, stored_weight_error
from finite_calculus.response import probability_change
from finite_calculus.spans import prepare_spans, read_bank
from finite_calculus.sparse import prepare
from native_checks.bench import Bench
from native_checks.local import query_share
from native_checks.records import GateCheck, Gathered
from native_checks.replays import Cell, Replay, spread_of, total, weights_of

_TWO = "roundings of two native readouts"
_FOUR = "roundings of four native readouts"
# Score increments so small that what is left of C_KV − C₂ is a small part of C₂.
_SMALL = 2.0**-6


def replays_are_native(bench: Bench) -> GateCheck:
    """A replayed readout against that of the model: the same tensors in the same function."""
    gathered = Gathered("replayed readouts")
    for replay in bench.replays:
        base = replay.base
        gathered.add(base.output - replay.native, 2 * base.output_error, base.output)
    return gathered.check("roundings of two native readouts of one row")


def parts_match_cells(bench: Bench) -> tuple[GateCheck, ...]:
    """K_f, V_0, C_KV and their sum against native readouts with keys, values or both edited.

    K_f is taken as a whole and as first order plus remainder.
    """
    names = (f"native cells, {part}" for part in ("K", "V", "C_KV", "all"))
    keys, values, crossed, joint = map(Gathered, names)
    for replay in bench.replays:
        base, key, value, both = _cells(replay, keys=1.0, values=1.0)
        change = replay.increments(both.bank)
        readout, edits = replay.readout, (change.scores, change.values)
        errors = [cell.output_error for cell in (base, key, value, both)]
        size = base.output
        expanded = linear_response(readout, edits[0]) + softmax_remainder(readout, edits[0])
        for response in (key_response(readout, edits[0]), expanded):
            keys.add(key.output - base.output - response, errors[0] + errors[1], size)
        response = value_response(readout, edits[1])
        values.add(value.output - base.output - response, errors[0] + errors[2], size)
        native = both.output - key.output - value.output + base.output
        crossed.add(native - interaction(readout, *edits), total(*errors), size)
        whole = decompose(readout, *edits).total
        joint.add(both.output - base.output - whole, errors[0] + errors[3], size)
    return keys.check(_TWO), values.check(_TWO), crossed.check(_FOUR), joint.check(_TWO)


def weights_renormalise(bench: Bench) -> GateCheck:
    """p' − p of a joint edit against the probabilities that the native attention returns."""
    gathered = Gathered("native probabilities")
    for replay in bench.replays:
        base, cell = replay.base, replay.rewritten
        change = replay.increments(cell.bank).scores
        keys = base.probs.shape[-1]
        exact = probability_change(replay.readout, change)[:, :keys]
        rounding = total(*(_weight_rounding(replay, each)[:, :keys] for each in (base, cell)))
        gathered.add(cell.probs - base.probs - exact, rounding, base.probs)
    return gathered.check("roundings of scores, exponentials, their sum and the quotients, twice")


def _weight_rounding(replay: Replay, cell: Cell) -> Tensor:
    """p·(e^{L_j + max L} − 1): a weight is off by L_j, their sum by the largest and by its own roundings.

    In half precision it is then stored.
    """
    readout = replay.layer.readout(cell.bank)
    own = log_weight_error(replay.layer, cell.bank, kernels=replay.kernels)
    summed = own.amax(-1, keepdim=True) + 2 * readout.keys * torch.finfo(torch.float32).eps
    moved = readout.probs * torch.expm1(own + summed) + torch.finfo(torch.float32).smallest_normal
    return moved + stored_weight_error(replay.layer, readout.probs + moved)


def leading_term_matches_cells(bench: Bench) -> GateCheck:
    """|C_KV − C₂| ≤ range(d)²·range(ε), with C_KV from four native cells and keys moved a little."""
    gathered = Gathered("native cells, C₂")
    for replay in bench.replays:
        d = replay.increments(replay.rewritten.bank).scores
        reach = float(spread_of(d, replay.readout.attended).max())
        strength = min(1.0, _SMALL / max(reach, _SMALL))
        base, key, value, both = _cells(replay, keys=strength, values=1.0)
        change = replay.increments(both.bank)
        leading = quadratic_interaction(replay.readout, change.scores, change.values)
        native = both.output - key.output - value.output + base.output
        attended = replay.readout.attended
        scores = spread_of(change.scores, attended).unsqueeze(-1)
        values = spread_of(change.values.mT, attended.unsqueeze(-2))
        rounding = total(*(cell.output_error for cell in (base, key, value, both)))
        gathered.add(native - leading, scores * scores * values + rounding, base.output)
    return gathered.check(
        f"range(d)²·range(ε) and the {_FOUR}", waived="what is left of C_KV is not rounding"
    )


def certificates_hold(bench: Bench) -> GateCheck:
    """|S − Ŝ| ≤ KL·max|a| + TV·(max b − min b), S the native change under a joint edit along g."""
    gathered = Gathered("certificates")
    for replay in bench.replays:
        change = replay.increments(replay.rewritten.bank)
        gradient = replay.layer.gradient_output.double()
        certificate = certify(replay.readout, change.scores, change.values, gradient)
        native = replay.rewritten.output - replay.base.output
        rounding = replay.rewritten.output_error + replay.base.output_error
        score = (gradient * native).sum(-1)
        allowed = certificate.bound + (gradient.abs() * rounding).sum(-1)
        gathered.add(score - certificate.first_order, allowed)
    return gathered.check(
        "the certificate, and roundings of two native readouts", waived="not a rounding"
    )


def sparse_groups_match_cells(bench: Bench) -> GateCheck:
    """The sparse response of prepared groups and spans against native cells, edits on S ∩ T."""
    gathered = Gathered("sparse groups")
    for replay in bench.replays:
        groups = _runs(replay.columns)
        if not len(groups):
            continue
        cells = [replay.cell(replay.towards_donor(g, keys=1.0, values=1.0)) for g in groups]
        changes = [replay.increments(cell.bank) for cell in cells]
        scores = torch.stack([c.scores[:, g] for c, g in zip(changes, groups, strict=True)], 1)
        values = torch.stack([c.values[:, g] for c, g in zip(changes, groups, strict=True)], 1)
        readout = replay.readout
        spans = read_bank(readout.scores, readout.values, mask=readout.attended)
        for prepared in (
            prepare(readout, groups),
            prepare_spans(spans, groups[:, 0], groups.shape[1]),
        ):
            response = prepared.response(scores, values)
            for number, cell in enumerate(cells):
                native = cell.output - replay.base.output
                rounding = cell.output_error + replay.base.output_error
                gathered.add(native - response[:, number], rounding, replay.base.output)
    return gathered.check(_TWO, none="no layer attends to two keys")


def matrices_match_cells(bench: Bench) -> GateCheck:
    """(μ' − μ) + uᵀ(ΔM' − ΔM) of a joint edit against two native cells, in every affine head."""
    gathered = Gathered("joint change of weights")
    for replay in bench.affine_replays:
        cell, base, layer = replay.rewritten, replay.base, replay.layer
        shares = query_share(layer, cell.bank) + query_share(layer)
        rounding = cell.output_error + base.output_error + shares
        change = weights_of(replay, cell.bank).output - weights_of(replay).output
        gathered.add(cell.output - base.output - change, rounding, base.output)
    return gathered.check(
        "roundings of two native readouts, and what that of q moves both by", none=bench.not_affine
    )


def _edited(replay: Replay, keys: float, values: float) -> LayerBank:
    return replay.towards_donor(replay.columns, keys=keys, values=values)


def _cells(replay: Replay, *, keys: float, values: float) -> tuple[Cell, Cell, Cell, Cell]:
    """The base, keys alone, values alone, both."""
    key, value = _edited(replay, keys, 0.0), _edited(replay, 0.0, values)
    both = replay.rewritten if keys == values == 1 else replay.cell(_edited(replay, keys, values))
    return replay.base, replay.cell(key), replay.cell(value), both


def _runs(columns: Tensor) -> Tensor:
    """Two runs of two neighbouring attended columns, at both ends; fewer where there are not as many."""
    pairs = torch.stack([columns[:-1], columns[1:]], -1)
    pairs = pairs[pairs[:, 1] - pairs[:, 0] == 1]
    return pairs[[0, -1]] if len(pairs) > 1 else pairs
