"""Local checks: captured attention replayed in float64, and edits predicted against executed.

Each bound comes from the running error analysis of the native computation on the very tensors that the
model used; it holds for every order of summation that probes of the same products revealed. Beside each
sure bound stands a probable one, exceeded with probability `DOUBT` per number if roundings are independent:
to exceed it is a warning.
"""

import dataclasses
from collections.abc import Sequence

import torch

from finite_calculus.margin import head_gradient, project
from finite_calculus.models import (
    Agreement,
    Execution,
    LayerBank,
    LayerCapture,
    compare_all,
    head_weights,
    local_error,
    output_error,
)
from finite_calculus.models.bounds import query_error
from finite_calculus.models.edits import Edits
from finite_calculus.models.probe import keys_at
from finite_calculus.models.projections import affine_query
from finite_calculus.models.sum_order import half_place
from finite_calculus.positional import key_shift_scores
from finite_calculus.rotary import displacement, rotate
from native_checks.bench import Bench
from native_checks.records import GateCheck, Gathered, compared, counted

_TINY = torch.finfo(torch.float64).tiny


def outputs_replay(bench: Bench) -> GateCheck:
    """y of every layer and head, replayed in float64 from the captured tensors."""
    layers = bench.capture.layers
    native = _joined([layer.output for layer in layers]).double()
    exact = _joined([layer.readout().output for layer in layers])
    errors = [local_error(layer, kernels=bench.kernels(layer)) for layer in layers]
    return compared(
        "head readouts replay",
        native - exact,
        _joined([error.output for error in errors]),
        exact,
        "roundings of q·k, softmax and Σpv in float32, in the orders that were probed",
        probable=_joined([error.probable_output for error in errors]),
    )


def writes_replay(bench: Bench) -> GateCheck:
    """Projected writes of every layer, replayed in float64 from q, k, v and W_o."""
    layers = bench.capture.layers
    native = torch.cat([layer.write for layer in layers]).double()
    exact = torch.cat([_write(layer) for layer in layers])
    errors = [
        local_error(layer, kernels=bench.kernels(layer), executed=layer.output) for layer in layers
    ]
    return compared(
        "projected writes replay",
        native - exact,
        _joined([error.write for error in errors]),
        exact,
        "the measured error of y, within its bound, carried through W_o, plus the roundings of yW_o",
        probable=_joined([error.probable_write for error in errors]),
    )


def effective_weights_reconstruct(bench: Bench) -> GateCheck:
    """μ + uᵀΔM of every head with an affine query against the native y, biases and groups included."""
    apart, bound, reference = [], [], []
    for layer in bench.capture.layers:
        if layer.query_weight is None or layer.softcap is not None:
            continue
        for head in range(layer.heads):
            y = head_weights(layer, head).output
            apart.append(y - layer.output[head].double())
            reference.append(y)
        rounding = output_error(layer, kernels=bench.kernels(layer))
        bound.append((rounding + query_share(layer)).reshape(-1))
    if not apart:
        return counted(
            "effective weights",
            0,
            f"none is defined: {bench.not_affine}",
        )
    return compared(
        "effective weights",
        torch.cat(apart),
        torch.cat(bound),
        torch.cat(reference),
        "roundings of y, plus how far the measured rounding of q, within its bound, moves it",
    )


def score_increments_match(bench: Bench) -> tuple[GateCheck, GateCheck]:
    """Shifted keys, and their score increments, against keys that the model itself rotated there."""
    model, sites = bench.instrument.model, bench.instrument.support.sites
    start, shift = 2, 9
    before, after = keys_at(model, sites, start), keys_at(model, sites, start + shift)
    turned, scores = Gathered("rotated keys"), Gathered("rotated score increments")
    for layer, probed in zip(bench.capture.layers, bench.instrument.probed, strict=True):
        if layer.rotary is None:
            continue
        heads = layer.heads // layer.keys.shape[0]
        old, new = before[layer.layer][0].double(), after[layer.layer][0].double()
        size = new.norm(dim=-1, keepdim=True) * probed.bound
        turned.add(rotate(layer.rotary, old, float(shift)) - new, size, new)
        turned.add(old + displacement(layer.rotary, old, float(shift)) - new, size, new)
        old, new = (keys.repeat_interleave(heads, 0) for keys in (old, new))
        query = layer.query.double()
        d = key_shift_scores(layer.rotary, query, old, float(shift), scaling=layer.scaling)
        reach = query.norm(dim=-1) * new.norm(dim=-1) * abs(layer.scaling)
        scores.add(d - ((new - old) * query).sum(-1) * layer.scaling, reach * probed.bound, d)
    none = "no layer has a rotary position"
    return (
        turned.check("‖k‖ times the error of two float32 rotations", none=none),
        scores.check(
            "‖q‖‖k‖·scaling times the error of two float32 rotations, angles p·ω·u included",
            none=none,
        ),
    )


def predictions_match_execution(bench: Bench) -> tuple[GateCheck, ...]:
    """Predicted against executed Δy and Δo, for every edit of the battery at every layer and head."""
    return _predicted("predicted Δ{}", bench.edits, bench.resumed)


def predictions_match_shared_path(bench: Bench) -> tuple[GateCheck, ...]:
    """The same on the fast path, whose own arithmetic is bounded in the same way."""
    return _predicted("shared path, predicted Δ{}", bench.edits, bench.shared)


def several_queries_match_execution(bench: Bench) -> tuple[GateCheck, ...]:
    """The same for edits that the last two queries see, each in its own readout."""
    edits, outcomes = bench.passage_edits, bench.passage_outcomes
    battery = [edit for edit in edits for _ in range(len(outcomes[0].queries))]
    queries = tuple(query for outcome in outcomes for query in outcome.queries)
    return _predicted("two queries, predicted Δ{}", battery, Execution(queries))


def _predicted(name: str, battery: Sequence[Edits], executed: Execution) -> tuple[GateCheck, ...]:
    """An executed Δ is the difference of two float32 readouts, so the paper's relative tolerance refers
    to their size: a layer that writes 500 rounds by 3e-5 however small the change.
    """
    outcomes = executed.outcomes
    comparisons = list(compare_all(battery, outcomes))
    heads: dict[int, torch.Tensor] = {}
    for outcome, local in zip(outcomes, comparisons, strict=True):
        number, response = outcome.layer.layer, local.response
        worst = (response.error.abs() / response.bound.clamp(min=_TINY)).amax(-1)
        heads[number] = torch.maximum(worst, heads.get(number, torch.zeros_like(worst)))
    responses = [local.response for local in comparisons]
    writes = [local.write for local in comparisons]
    return (
        _agreed(
            name.format("y"),
            responses,
            [outcome.control_output for outcome in outcomes],
            "roundings of the edited and of the control readout, in the orders that were probed",
        ),
        _agreed(
            name.format("o"),
            writes,
            [outcome.control_write for outcome in outcomes],
            "measured errors of both y, within their bounds, through W_o, plus the roundings of yW_o",
        ),
        _head_by_head(name.format("y, head by head"), heads, len(outcomes)),
    )


def _agreed(
    name: str, agreements: list[Agreement], references: list[torch.Tensor], reason: str
) -> GateCheck:
    return compared(
        name,
        _joined([each.error for each in agreements]),
        _joined([each.bound for each in agreements]),
        _joined(references),
        reason,
        probable=_joined([each.probable_bound for each in agreements]),
    )


def _joined(tensors: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def _head_by_head(name: str, heads: dict[int, torch.Tensor], edits: int) -> GateCheck:
    """The largest |Δy predicted − executed| of every layer and head, in units of its bound."""
    table = torch.stack([heads[layer] for layer in sorted(heads)])
    layers, count = table.shape
    layer, head = divmod(int(table.argmax()), count)
    return dataclasses.replace(
        counted(
            name,
            int((~(table <= 1)).sum()),
            f"of {layers} × {count} heads above the bound under {edits} edits; "
            f"the closest, layer {layer} head {head}, at {float(table.max()):.3f} of it",
        ),
        by_head=tuple(tuple(round(float(x), 6) for x in row) for row in table),
    )


def gradients_relate(bench: Bench) -> GateCheck:
    """The gradient at y is W_o times the gradient at the projected write."""
    apart, bound, reference = [], [], []
    for layer in bench.capture.layers:
        weight, gradient = layer.output_projection.double(), layer.gradient_write.double()
        exact = head_gradient(weight, gradient)
        apart.append((exact - layer.gradient_output.double()).reshape(-1))
        reference.append(exact.reshape(-1))
        size = head_gradient(weight.abs(), gradient.abs())
        bound.append(_product_error(layer, exact, size, weight.shape[-1]).reshape(-1))
    return compared(
        "gradient at y",
        torch.cat(apart),
        torch.cat(bound),
        torch.cat(reference),
        "one matrix product, summed in float32: n·u·Σ|W_o||g|, and stored in the model's precision",
    )


def _product_error(
    layer: LayerCapture, exact: torch.Tensor, size: torch.Tensor, terms: int
) -> torch.Tensor:
    """Roundings of W_o·g: of the sum, in any order, and of storing it with fewer digits."""
    precision = layer.precision
    summed = (terms + 2) * precision.summing.unit * size
    return summed + half_place(exact.abs() + summed, precision) if precision.half else summed


def _write(layer: LayerCapture) -> torch.Tensor:
    write = project(layer.readout().output, layer.output_projection.double())
    return write if layer.output_bias is None else write + layer.output_bias.double()


def query_share(layer: LayerCapture, bank: LayerBank | None = None) -> torch.Tensor:
    """What the rounding of the native query moved y by: its measured residual, cut off at its bound."""
    bank = layer.bank() if bank is None else bank
    allowed = query_error(layer)
    residual = (layer.query.double() - affine_query(layer)).clamp(-allowed, allowed)
    query = layer.query.double() - residual
    moved = layer.readout(dataclasses.replace(bank, query=query)).output
    # Two float64 readouts: far below anything that float32 rounds.
    return (moved - layer.readout(bank).output).abs()
