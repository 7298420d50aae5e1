"""Predictors of positional edits at one captured layer, all edits of a layer at once.

Each contracts a response of the heads with the one gradient of the capture (eq:marginprediction). A further
predictor is one function in `PREDICTORS` and one column `predicted_NAME` of the row: it gets everything
that is known of the edits, their exact responses included. One adds the second order downstream, which
takes a Hessian product for each edit: where that is not asked for, its column stays empty.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.margin import head_gradient, project
from finite_calculus.models import Capture, Instrument, KeyShift, LayerCapture, edited_bank
from finite_calculus.models.edits.key_shift import third
from finite_calculus.models.layer import head_products, repeat_groups
from finite_calculus.positional import (
    key_shift_scores,
    key_shift_scores_linear,
    key_shift_scores_remainder,
    positional_jacobian,
)
from finite_calculus.readout import Readout
from finite_calculus.response import finite_response
from finite_calculus.rotary import Band, Rotary


@dataclass(frozen=True, eq=False)
class LayerShifts:
    """Shifts of keys at one layer, side by side.

    `scores` are increments of the rounded keys that are executed; `exact`, `linear` and `remainder` those
    of the exact rotation, of its tangent, and their difference. `gradient` is that at the head outputs.
    `response` is exact, to the executed keys, and `second` are the terms ½ ΔoᵀHΔo of the projected writes,
    None where they were not asked for.
    """

    layer: LayerCapture
    readout: Readout
    gradient: Float[Tensor, "heads width"]
    scores: Float[Tensor, "edits heads keys"]
    exact: Float[Tensor, "edits heads keys"]
    linear: Float[Tensor, "edits heads keys"]
    remainder: Float[Tensor, "edits heads keys"]
    rounding: Float[Tensor, "edits heads keys"]
    response: Float[Tensor, "edits heads width"]
    second: Float[Tensor, " edits"] | None

    def contract(
        self, response: Float[Tensor, "edits heads width"]
    ) -> Float[Tensor, "edits"]:  # fmt: skip
        """⟨g, Δo⟩ of every edit."""
        return (response * self.gradient).sum((-2, -1))


def rotary_of(layer: LayerCapture) -> Rotary:
    """The rotary planes of a layer that is known to have them."""
    if layer.rotary is None:
        raise ValueError(f"Layer {layer.layer} must rotate its keys; it does not.")
    return layer.rotary


def band_mask(layer: LayerCapture, band: str | None) -> Band | None:
    """The planes of a named third, None for all of them."""
    return None if band is None else third(rotary_of(layer), band)


def known_shifts(
    instrument: Instrument, capture: Capture, edits: Sequence[KeyShift], *, second: bool
) -> dict[int, LayerShifts]:
    """Everything that predictors need of shifts, by layer; the second order on request."""
    numbers = dict.fromkeys(edit.layer for edit in edits)
    known = {
        n: _layer_shifts(capture.layer(n), [edit for edit in edits if edit.layer == n])
        for n in numbers
    }
    if not second:
        return known
    writes = {
        n: project(shifts.response, shifts.layer.output_projection.double())
        for n, shifts in known.items()
    }
    seconds = instrument.second_terms(capture, writes)
    return {n: replace(shifts, second=seconds[n]) for n, shifts in known.items()}


def _layer_shifts(layer: LayerCapture, edits: Sequence[KeyShift]) -> LayerShifts:
    query, keys = layer.query.double(), layer.keys.double()
    turned = [edited_bank(layer, edit).keys.double() for edit in edits]
    gradient = head_gradient(layer.output_projection.double(), layer.gradient_write.double())
    # |q|·|k'| is what one rounding of every coordinate of the turned keys can move a score by.
    reach = [head_products(query.abs(), bank.abs()) * layer.scaling for bank in turned]
    readout = layer.readout()
    scores = torch.stack([head_products(query, bank - keys) * layer.scaling for bank in turned])
    return LayerShifts(
        layer=layer,
        readout=readout,
        gradient=gradient,
        scores=scores,
        exact=torch.stack([shift_scores(layer, edit, key_shift_scores) for edit in edits]),
        linear=torch.stack([shift_scores(layer, edit, key_shift_scores_linear) for edit in edits]),
        remainder=torch.stack(
            [shift_scores(layer, edit, key_shift_scores_remainder) for edit in edits]
        ),
        rounding=torch.stack(reach),
        response=finite_response(readout, scores),
        second=None,
    )


def shift_scores(
    layer: LayerCapture, edit: KeyShift, form: Callable[..., Tensor]
) -> Float[Tensor, "heads keys"]:
    """Score increments of one shift by a form of `finite_calculus.positional`, zero at other tokens."""
    columns = edit.columns(layer)
    band = band_mask(layer, edit.band) if isinstance(edit.band, str) else edit.band
    keys = repeat_groups(layer.keys[:, columns].double(), layer.heads)
    query = layer.query.double().unsqueeze(-2)
    moved = form(rotary_of(layer), query, keys, edit.shift, band=band, scaling=layer.scaling)
    whole = moved.new_zeros(layer.heads, layer.keys.shape[1])
    return whole.index_copy(-1, columns, moved)


def predict_finite(shifts: LayerShifts) -> Float[Tensor, " edits"]:
    """The exact local response to the executed keys."""
    return shifts.contract(shifts.response)


def predict_jacobian(shifts: LayerShifts) -> Float[Tensor, " edits"]:
    """The positional Jacobian (eq:phasejacobian)."""
    return shifts.contract(positional_jacobian(shifts.readout, shifts.linear))


def predict_second(shifts: LayerShifts) -> Float[Tensor, " edits"] | None:
    """The finite prediction and the second order downstream, where that is known."""
    return None if shifts.second is None else predict_finite(shifts) + shifts.second


PREDICTORS: Mapping[str, Callable[[LayerShifts], Tensor | None]] = {
    "finite": predict_finite,
    "jacobian": predict_jacobian,
    "second": predict_second,
}
