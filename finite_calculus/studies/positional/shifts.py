"""Positional edits of one variant: built, predicted, certified, and compared with their execution."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from finite_calculus.certificate import certify
from finite_calculus.models import KeyShift, LocalComparison, Outcome
from finite_calculus.models.comparison import LocalCheck
from finite_calculus.positional import rotary_remainder
from finite_calculus.response import finite_response
from finite_calculus.studies.positional.budgets import plain_readout, readout_budget
from finite_calculus.studies.positional.predictors import (
    PREDICTORS,
    LayerShifts,
    band_mask,
    rotary_of,
)
from finite_calculus.studies.positional.rows import PositionalEdit, SpanDeletion
from finite_calculus.studies.positional.settings import BANDS
from finite_calculus.studies.positional.variant import Part, Variant, violations

# One rounding to float32, and that of the float64 rotation and product before it.
_FLOAT32 = torch.finfo(torch.float32).eps / 2 * (1 + 2.0**-20)


@dataclass(frozen=True)
class Shift:
    """One edit: all demonstrations' keys at a layer, shifted in a band."""

    layer: int
    shift: int
    band: str

    def edit(self, variant: Variant) -> KeyShift:
        """The edit as the instrument executes it."""
        tokens = variant.prompt.demonstrations
        return KeyShift(self.layer, tokens, self.shift, None if self.band == "all" else self.band)


def list_shifts(layers: Sequence[int], shifts: Sequence[int]) -> list[Shift]:
    """Every layer, shift and band."""
    return [Shift(layer, shift, band) for layer in layers for shift in shifts for band in BANDS]


def shift_part(
    variant: Variant,
    shifts: Sequence[Shift],
    known: Mapping[int, LayerShifts],
    outcomes: Sequence[Outcome],
    comparisons: Sequence[LocalComparison],
) -> Part:
    """Rows and checks of executed shifts, of which `known` holds the predictions by layer."""
    rows: list[PositionalEdit] = []
    checks: dict[str, Sequence[tuple[float, float]]] = {}
    for number, predicted in known.items():
        chosen = [n for n, shift in enumerate(shifts) if shift.layer == number]
        figures = _figures(predicted)
        for k, n in enumerate(chosen):
            numbers = {
                name: None if values is None else float(values[k])
                for name, values in figures.items()
            }
            rows.append(_row(variant, shifts[n], outcomes[n], comparisons[n], numbers))
        checks |= _prediction_checks(predicted, figures)
    checks |= write_checks("shift", comparisons, rows)
    return Part(rows, {**checks, "shift: numbers that are not finite": violations(rows)})


def write_checks(
    kind: str,
    comparisons: Sequence[LocalComparison],
    rows: Sequence[PositionalEdit | SpanDeletion],
) -> dict[str, list[tuple[float, float]]]:
    """Executed writes against their exact predictions: as vectors, and along the gradient."""
    norms = [LocalCheck.of(comparison) for comparison in comparisons]
    along = [(abs(row.local_executed - row.local_predicted), row.local_bound) for row in rows]
    return {
        f"{kind}: executed write": [(norm.error, norm.bound) for norm in norms],
        f"{kind}: executed write along the gradient": along,
    }


def _figures(known: LayerShifts) -> dict[str, Any]:
    """Columns of the row that predictions give, None for an empty one, and the budgets of two checks."""
    readout, exact = known.readout, known.exact
    zero = torch.zeros_like(readout.scores)
    gradient, size = known.gradient.abs(), known.gradient.numel()
    plain = plain_readout(readout, known.scores) - plain_readout(readout, zero)
    budget = readout_budget(readout, known.scores, size) + readout_budget(readout, zero, size)
    still = torch.zeros_like(readout.values)
    certificate = certify(
        readout, exact, still, known.gradient, score_remainder=known.remainder
    ).over_heads()
    response = known.contract(finite_response(readout, exact))
    rotary = (rotary_remainder(readout, known.remainder) * known.gradient).sum(-1)
    predicted = {f"predicted_{name}": predict(known) for name, predict in PREDICTORS.items()}
    linear = predicted["predicted_jacobian"]
    heads = known.layer.heads
    return {
        **predicted,
        "dense": known.contract(plain),
        "dense_budget": (budget * gradient).sum((-2, -1)),
        "kl": certificate.divergence / heads,
        "tv": certificate.total_variation / heads,
        # The column of the Jacobian is never empty.
        "softmax_gap": (response - linear - rotary.sum(-1)).abs(),  # pyright: ignore[reportOperatorIssue]
        "rotary_part": rotary.abs().sum(-1),
        "jacobian_gap": (response - linear).abs(),  # pyright: ignore[reportOperatorIssue]
        "jacobian_bound": certificate.bound,
    }


def _prediction_checks(
    known: LayerShifts, figures: Mapping[str, Any]
) -> dict[str, Sequence[tuple[float, float]]]:
    at = f"shift, layer {known.layer.layer}: "
    apart = (known.scores - known.exact).abs().flatten(1)
    allowed = (_FLOAT32 * known.rounding).flatten(1)
    # A key of zeros allows nothing, and nothing is apart there.
    worst = torch.where(apart > 0, apart / allowed, 0.0).argmax(-1, keepdim=True)
    rounded = _pairs(*(part.gather(1, worst).squeeze(1) for part in (apart, allowed)))
    gap = (figures["predicted_finite"] - figures["dense"]).abs()
    return {
        at + "rounded keys against the exact rotation": rounded,
        at + "finite against dense": _pairs(gap, figures["dense_budget"]),
        at + "Jacobian's error within its certificate": _pairs(
            figures["jacobian_gap"], figures["jacobian_bound"]
        ),
    }


def _pairs(figures: Tensor, bounds: Tensor) -> list[tuple[float, float]]:
    return list(zip(figures.tolist(), bounds.tolist(), strict=True))


def _row(
    variant: Variant,
    shift: Shift,
    outcome: Outcome,
    comparison: LocalComparison,
    numbers: dict[str, Any],
) -> PositionalEdit:
    layer, sign = variant.capture.layer(shift.layer), variant.sign
    along = comparison.write.along(layer.gradient_write.double())
    mask = band_mask(layer, None if shift.band == "all" else shift.band)
    frequencies = rotary_of(layer).frequencies.double().abs()
    fastest = float(frequencies.max() if mask is None else frequencies[mask].max())
    predicted = {name: numbers.pop(f"predicted_{name}") for name in PREDICTORS}
    signed = {name: None if x is None else sign * x for name, x in predicted.items()}
    numbers.pop("dense_budget")
    return PositionalEdit(
        *variant.place,
        variant=variant.number,
        layer=shift.layer,
        shift=shift.shift,
        band=shift.band,
        tokens=len(variant.prompt.ids),
        edited=len(variant.prompt.demonstrations),
        answer=variant.tokens.text.answers[variant.number],
        preferred=variant.preferred,
        control=sign * outcome.control,
        path_drift=outcome.drift,
        effect=sign * outcome.effect,
        dense=sign * numbers.pop("dense"),
        local_executed=sign * float(along.executed),
        local_predicted=sign * float(along.predicted),
        local_bound=float(along.bound),
        angle=shift.shift * fastest,
        **{f"predicted_{name}": value for name, value in signed.items()},
        **numbers,
    )
