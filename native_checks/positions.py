"""Shifted keys, native cell by native cell: Sections 2.2 and 2.3, Appendices D and G.

Keys are rotated in float64 and rounded once, as an edit rotates them. Formulas that start from the
stored key and the angle are allowed what that rounding does to the scores.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from finite_calculus.bands import band_interaction, mixed_second_derivative
from finite_calculus.joint import softmax_remainder
from finite_calculus.margin import norm, project
from finite_calculus.models import LayerBank
from finite_calculus.models.edits.key_shift import third
from finite_calculus.models.sinks import null_sink
from finite_calculus.positional import (
    key_shift_scores,
    key_shift_scores_linear,
    key_shift_scores_remainder,
    positional_jacobian,
    rotary_remainder,
)
from finite_calculus.readout import Readout, freeze
from finite_calculus.reordering import PhaseContext, phase_context, signed_projections
from finite_calculus.response import finite_response
from finite_calculus.rotary import Rotary, rotate
from native_checks.bench import Bench
from native_checks.records import GateCheck, Gathered
from native_checks.replays import Cell, Replay, shared_by_scores, spread_of, total

_SHIFT = 3.0
_NO_ROTARY = "no layer has a rotary position and scores without a cap"
# Score increments of the two edits of the mixed derivative, and nodes of Gauss and Legendre on each.
_REACH, _NODES = 1.0, 4
_EPS = torch.finfo(torch.float64).eps


def jacobian_and_remainders(bench: Bench) -> GateCheck:
    """Δy_Jac and its two remainders against the native change under a shift of all attended keys."""
    gathered = Gathered("Jacobian and two remainders")
    for replay in _rotary(bench):
        bank = _shifted(replay, None)
        cell = replay.cell(bank)
        shift, linear, rest = (
            _scores(replay, function, None)
            for function in (key_shift_scores, key_shift_scores_linear, key_shift_scores_remainder)
        )
        base = replay.readout
        predicted = (
            positional_jacobian(base, linear)
            + softmax_remainder(base, shift)
            + rotary_remainder(base, rest)
        )
        native = cell.output - replay.base.output
        rounding = cell.output_error + replay.base.output_error + _key_share(replay, bank)
        gathered.add(native - predicted, rounding, replay.base.output)
    return gathered.check(
        "roundings of two native readouts and of the turned keys", none=_NO_ROTARY
    )


def bands_match_cells(bench: Bench) -> tuple[GateCheck, ...]:
    """d and H of two bands, with H projected and relative to T, against four native cells."""
    names = ("bands add up", "native cells, H", "projected H", "relative interaction")
    scores, cells, writes, ratios = map(Gathered, names)
    for replay in _rotary(bench):
        first, second = _bands(replay)
        banks = [_shifted(replay, band) for band in (first, second, first | second)]
        deltas = [_scores(replay, key_shift_scores, band) for band in (first, second)]
        d, seen = replay.increments(banks[2]).scores, replay.readout.attended
        rounding = null_sink(replay.key_rounding(banks[2]), replay.layer.sinks)
        scores.add((d - total(*deltas))[seen], rounding[seen], d[seen])
        one, two, both = map(replay.cell, banks)
        base, shares = replay.base, total(*(_key_share(replay, bank) for bank in banks))
        exact = band_interaction(replay.readout, *deltas)
        whole = finite_response(replay.readout, _scores(replay, key_shift_scores, first | second))
        errors = [cell.output_error for cell in (base, one, two, both)]
        cells.add(
            _mixed(base, one, two, both, "output") - exact, total(*errors) + shares, base.output
        )
        weight = replay.layer.output_projection.double()
        native, exact, whole = (
            _mixed(base, one, two, both, "write"),
            project(exact, weight),
            project(whole, weight),
        )
        through = torch.einsum("hv,hvm->m", shares, weight.abs())
        errors = [cell.write_error for cell in (base, one, two, both)]
        allowed = total(*errors) + through
        writes.add(native - exact, allowed, base.write)
        # ‖H‖/‖T‖: the numerator may be off by ‖δH‖, the denominator by ‖δT‖.
        length, drift = norm(both.write - base.write), norm(errors[0] + errors[3] + through)
        if float(length) > 2 * float(drift):
            kappa = norm(exact) / norm(whole)
            ratios.add(
                norm(native) / length - kappa, (norm(allowed) + kappa * drift) / length, kappa
            )
    four = "roundings of four native readouts and of the turned keys"
    return (
        scores.check("roundings of the turned keys, Σ|q|·half a place of k'", none=_NO_ROTARY),
        cells.check(four, none=_NO_ROTARY),
        writes.check(f"{four}, through W_o", none=_NO_ROTARY),
        ratios.check(
            "those of H and T as norms, over ‖T‖", none=_NO_ROTARY, waived="a quotient of writes"
        ),
    )


def mixed_derivative_matches_cells(bench: Bench) -> GateCheck:
    """H = ∬ D²F(s + ta + ub)[a, b] dt du by Gauss and Legendre, against four native cells.

    Keys go part of the way to their turned places, so that no score moves by more than 1.
    """
    gathered = Gathered("mixed derivative")
    for replay in _rotary(bench):
        banks = _part_of_the_way(replay)
        base, one, two, both = (replay.base, *map(replay.cell, banks))
        a, b = (replay.increments(bank).scores for bank in banks[:2])
        integral, left = _integrated(replay.readout, a, b)
        # Rounded keys of the joint cell are not the sum of the two: their scores are off by so much.
        off = total(*(null_sink(replay.key_rounding(x), replay.layer.sinks) for x in banks))
        uncertain = torch.where(replay.readout.attended, off, 0.0)
        share = shared_by_scores(replay.layer.readout(banks[2]), uncertain)
        rounding = total(*(cell.output_error for cell in (base, one, two, both))) + share
        native = _mixed(base, one, two, both, "output")
        gathered.add(native - integral, left + rounding, base.output)
    return gathered.check(
        "roundings of four native readouts and of the keys, and the error of the quadrature",
        none=_NO_ROTARY,
    )


def _part_of_the_way(replay: Replay) -> list[LayerBank]:
    """Keys moved in the one band, in the other and in both."""
    start, columns = replay.layer.keys.double(), replay.columns
    moves = [(_turned(replay, band) - start)[:, columns] for band in _bands(replay)]
    start = start[:, columns]
    whole = [replay.increments(replay.moved(columns, keys=start + move)).scores for move in moves]
    reach = max(float(spread_of(d, replay.readout.attended).max()) for d in whole)
    first, second = (min(1.0, _REACH / max(reach, _REACH)) * move for move in moves)
    return [replay.moved(columns, keys=start + move) for move in (first, second, first + second)]


def _integrated(readout: Readout, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """∬ D²F(s + ta + ub)[a, b] and a bound on what the quadrature leaves.

    At complex t with |Im t|·range(a) ≤ 2π/3 the terms of Z lie in a sector of that angle, so that |Z| is at
    least half of Σ|pe^{ta}| and Σ|p_t| ≤ 2. There |D²F| ≤ M = 30/8·range(a)·range(b)·range(v), as a third
    cumulant of distances from the middles of the ranges. On an ellipse ρ within that strip n nodes leave at
    most 32/15·M·ρ^{−2n}/(1 − ρ^{−2}): Trefethen, Approximation Theory and Practice, Theorem 19.3.
    """
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    nodes, weights = (nodes + 1) / 2, weights / 2
    integral = torch.zeros_like(readout.output)
    for t, first in zip(nodes, weights, strict=True):
        for u, second in zip(nodes, weights, strict=True):
            moved = freeze(
                readout.scores + float(t) * a + float(u) * b,
                readout.values,
                mask=readout.attended,
            )
            integral = integral + float(first * second) * mixed_second_derivative(moved, a, b)
    ra, rb = (spread_of(x, readout.attended).unsqueeze(-1) for x in (a, b))
    rv = spread_of(readout.values.mT, readout.attended.unsqueeze(-2))
    height = 4 * torch.pi / 3 / torch.maximum(ra, rb).clamp(min=_EPS)
    rho = height + torch.sqrt(height**2 + 1)
    left = 32 / 15 * 30 / 8 * ra * rb * rv * rho ** (-2 * _NODES) / (1 - rho**-2)
    return integral, 2 * left


def phase_and_context_match_cells(bench: Bench) -> tuple[GateCheck, ...]:
    """Phase, context and interaction of four native writes against exact ones; their signed projections."""
    parts, gammas = Gathered("phase, context, interaction"), Gathered("signed projections")
    for replay in _rotary(bench):
        columns = replay.columns
        turned = _turned(replay, None)[:, columns]
        again = rotate(_rotary_of(replay), replay.donor.keys.double(), _SHIFT)[:, columns]
        donors = replay.donor.values[:, columns].double()
        banks = (
            replay.moved(columns, keys=turned),
            replay.rewritten.bank,
            replay.moved(columns, keys=again, values=donors),
        )
        cells = (
            replay.base,
            replay.cell(banks[0]),
            replay.rewritten,
            replay.cell(banks[2]),
        )
        weight = replay.layer.output_projection.double()
        exact = [torch.zeros_like(replay.base.write)]
        for bank in banks:
            change = replay.increments(bank)
            response = finite_response(replay.readout, change.scores, change.values)
            exact.append(project(response, weight))
        native = phase_context(*(cell.write for cell in cells))
        stated = phase_context(*exact)
        errors = [cell.write_error for cell in cells]
        bounds = PhaseContext(
            errors[0] + errors[1], errors[0] + errors[2], total(*errors), errors[0] + errors[3]
        )
        for name in ("phase", "context", "interaction", "total"):
            apart = getattr(native, name) - getattr(stated, name)
            parts.add(apart, getattr(bounds, name), replay.base.write)
        _add_projections(gammas, native, stated, bounds)
    return (
        parts.check("roundings of two or four native writes", none=_NO_ROTARY),
        gammas.check(
            "those of each part and of the total, as norms", none=_NO_ROTARY, waived="a quotient"
        ),
    )


def _add_projections(
    gathered: Gathered, native: PhaseContext, stated: PhaseContext, bounds: PhaseContext
) -> None:
    """γ_X native against exact; ⟨X, T⟩ and ‖T‖² are off by products of norms, and γ by their quotient."""
    length, off = norm(native.total), norm(bounds.total)
    if float(length) <= 2 * float(off):
        return
    drift = off * (2 * length + off)
    observed, exact = signed_projections(native), signed_projections(stated)
    shares = torch.stack(list(observed.values()))
    gathered.add(shares.sum() - 1, 16 * _EPS * (1 + shares.abs().sum()))
    for name, gamma in observed.items():
        part, part_off = norm(getattr(native, name)), norm(getattr(bounds, name))
        numerator = part_off * (length + off) + part * off
        gathered.add(gamma - exact[name], (numerator + abs(exact[name]) * drift) / length**2)


def _rotary(bench: Bench) -> list[Replay]:
    """Layers that rotate, without a cap, and far enough from where frequencies would change."""
    return [
        replay
        for replay in bench.replays
        if replay.layer.rotary is not None
        and replay.layer.softcap is None
        and (
            replay.layer.switch is None or replay.layer.tokens.stop + _SHIFT <= replay.layer.switch
        )
    ]


def _rotary_of(replay: Replay) -> Rotary:
    rotary = replay.layer.rotary
    if rotary is None:
        raise ValueError(f"layer {replay.layer.layer} must have a rotary position; it has none.")
    return rotary


def _bands(replay: Replay) -> tuple[Tensor, Tensor]:
    """The fast third of the planes, and the rest."""
    fast = third(_rotary_of(replay), "fast")
    return fast, ~fast


def _turned(replay: Replay, band: Tensor | None) -> Tensor:
    return rotate(_rotary_of(replay), replay.layer.keys.double(), _SHIFT, band=band)


def _shifted(replay: Replay, band: Tensor | None) -> LayerBank:
    return replay.moved(replay.columns, keys=_turned(replay, band)[:, replay.columns])


def _scores(replay: Replay, function: Callable[..., Tensor], band: Tensor | None) -> Tensor:
    """What a formula of shifted keys says from the stored keys, in every head."""
    layer = replay.layer
    keys = layer.keys.double().repeat_interleave(layer.heads // layer.keys.shape[0], 0)
    query = layer.query.double().unsqueeze(-2)
    d = function(_rotary_of(replay), query, keys, _SHIFT, band=band, scaling=layer.scaling)
    return null_sink(d, layer.sinks)


def _key_share(replay: Replay, bank: LayerBank) -> Tensor:
    """How far the rounding of turned keys moves y."""
    off = null_sink(replay.key_rounding(bank), replay.layer.sinks)
    return shared_by_scores(replay.layer.readout(bank), torch.where(_seen(replay), off, 0.0))


def _seen(replay: Replay) -> Tensor:
    return replay.readout.attended


def _mixed(base: Cell, one: Cell, two: Cell, both: Cell, part: str) -> Tensor:
    """The four-cell difference of y or of o."""
    cells = (getattr(cell, part) for cell in (both, one, two, base))
    joint, first, second, zero = cells
    return joint - first - second + zero
