"""Local checks: captured attention replayed in float64, and edits predicted against executed.

Each bound comes from the running error analysis of the float32 computation on the very tensors that
the model used; it holds for any order of summation.
"""

import dataclasses
from collections.abc import Sequence

import torch

from finite_calculus.margin import head_gradient, project
from finite_calculus.models import (
    Execution,
    LayerCapture,
    compare_all,
    head_weights,
    output_error,
    write_error,
)
from finite_calculus.models.bounds import query_error
from finite_calculus.models.edits import Edits
from finite_calculus.models.layer import repeat_groups
from finite_calculus.models.probe import keys_at
from finite_calculus.positional import key_shift_scores
from native_checks.bench import Bench
from native_checks.records import GateCheck, compared, counted

_UNIT = torch.finfo(torch.float32).eps / 2
_TINY = torch.finfo(torch.float64).tiny


def outputs_replay(bench: Bench) -> GateCheck:
    """y of every layer and head, replayed in float64 from the captured tensors."""
    layers = bench.capture.layers
    native = torch.cat([layer.output.reshape(-1) for layer in layers]).double()
    exact = torch.cat([layer.readout().output.reshape(-1) for layer in layers])
    bound = torch.cat([output_error(layer).reshape(-1) for layer in layers])
    return compared(
        "head readouts replay",
        native - exact,
        bound,
        exact,
        "running error analysis of q·k, softmax and Σpv in float32",
    )


def writes_replay(bench: Bench) -> GateCheck:
    """Projected writes of every layer, replayed in float64 from y and W_o."""
    layers = bench.capture.layers
    native = torch.cat([layer.write for layer in layers]).double()
    exact = torch.cat([_write(layer) for layer in layers])
    bound = torch.cat([write_error(layer) for layer in layers])
    return compared(
        "projected writes replay",
        native - exact,
        bound,
        exact,
        "the error of y carried through |W_o|, plus n·u·Σ|y||W_o|",
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
        bound.append((output_error(layer) + query_share(layer)).reshape(-1))
    if not apart:
        return counted(
            "effective weights",
            0,
            f"none is defined: {bench.capture.layers[0].not_affine or 'softcap'}",
        )
    return compared(
        "effective weights",
        torch.cat(apart),
        torch.cat(bound),
        torch.cat(reference),
        "error of y, plus (e^{2δ} − 1)·Σp|v − y| for scores off by δ from the rounding of q",
    )


def score_increments_match(bench: Bench) -> GateCheck:
    """Score increments of shifted keys against keys that the model itself rotated to the new place."""
    model, sites = bench.instrument.model, bench.instrument.support.sites
    start, shift = 2, 9
    before, after = keys_at(model, sites, start), keys_at(model, sites, start + shift)
    apart, bound, reference = [], [], []
    for layer, probed in zip(bench.capture.layers, bench.instrument.probed, strict=True):
        if layer.rotary is None:
            continue
        heads = layer.heads // layer.keys.shape[0]
        old = before[layer.layer][0].double().repeat_interleave(heads, 0)
        new = after[layer.layer][0].double().repeat_interleave(heads, 0)
        query = layer.query.double()
        d = key_shift_scores(layer.rotary, query, old, float(shift), scaling=layer.scaling)
        apart.append(d - ((new - old) * query).sum(-1) * layer.scaling)
        reference.append(d)
        reach = query.norm(dim=-1) * new.norm(dim=-1) * abs(layer.scaling)
        bound.append(reach * probed.bound)
    if not apart:
        return counted("rotated score increments", 0, "no layer has a rotary position")
    return compared(
        "rotated score increments",
        torch.cat(apart),
        torch.cat(bound),
        torch.cat(reference),
        "‖q‖‖k‖·scaling times the error of two float32 rotations, angles p·ω·u included",
    )


def predictions_match_execution(bench: Bench) -> tuple[GateCheck, ...]:
    """Predicted against executed Δy and Δo, for every edit of the battery at every layer and head."""
    return _predicted("predicted Δ{}", bench.edits, bench.resumed)


def predictions_match_shared_path(bench: Bench) -> tuple[GateCheck, ...]:
    """The same on the fast path, whose own arithmetic is bounded in the same way."""
    return _predicted("shared path, predicted Δ{}", bench.edits, bench.shared)


def _predicted(name: str, battery: Sequence[Edits], executed: Execution) -> tuple[GateCheck, ...]:
    """An executed Δ is the difference of two float32 readouts, so the paper's relative tolerance refers
    to their size: a layer that writes 500 rounds by 3e-5 however small the change.
    """
    dy, dy_bound, dy_ref, do, do_bound, do_ref = [], [], [], [], [], []
    heads: dict[int, torch.Tensor] = {}
    comparisons = compare_all(battery, executed.outcomes)
    for outcome, local in zip(executed.outcomes, comparisons, strict=True):
        layer = outcome.layer
        dy.append(local.response.error)
        dy_bound.append(local.response.bound)
        dy_ref.append(outcome.control_output)
        do.append(local.write.error)
        do_bound.append(local.write.bound)
        do_ref.append(outcome.control_write)
        worst = (dy[-1].abs() / dy_bound[-1].clamp(min=_TINY)).amax(-1)
        heads[layer.layer] = torch.maximum(worst, heads.get(layer.layer, torch.zeros_like(worst)))
    reason = "rounding of the edited and of the control readout, both by running error analysis"
    return (
        compared(name.format("y"), _joined(dy), _joined(dy_bound), _joined(dy_ref), reason),
        compared(name.format("o"), _joined(do), _joined(do_bound), _joined(do_ref), reason),
        _head_by_head(name.format("y, head by head"), heads, len(dy)),
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
        bound.append((weight.shape[-1] + 2) * _UNIT * size.reshape(-1))
    return compared(
        "gradient at y",
        torch.cat(apart),
        torch.cat(bound),
        torch.cat(reference),
        "one float32 matrix product: n·u·Σ|W_o||g|",
    )


def _write(layer: LayerCapture) -> torch.Tensor:
    write = project(layer.readout().output, layer.output_projection.double())
    return write if layer.output_bias is None else write + layer.output_bias.double()


def query_share(layer: LayerCapture) -> torch.Tensor:
    """What the rounding of the native query may move y by."""
    keys = repeat_groups(layer.keys.double().abs(), layer.heads)
    moved = (query_error(layer).unsqueeze(-2) * keys).sum(-1) * abs(layer.scaling)
    most = torch.where(layer.attended, moved, 0.0).amax(-1, keepdim=True)
    readout = layer.readout()
    spread = (readout.probs.unsqueeze(-1) * readout.centred.abs()).sum(-2)
    return torch.expm1(2 * most) * spread
