"""Capture of one baseline: the prefix without a graph, the last query with one, one backward pass.

A zero leaf is added to y and to the projected write of every requested layer, which changes no bit; a
single backward pass then gives the gradient of the margin at all of them and goes no deeper than the
lowest. The captured attention of each requested layer is replayed in float64 and must agree with the
native one within the derived bound, so that an attention variant unknown to the instrument is refused.
The same pass is the unedited batch of one row, from which execution resumes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finite_calculus.models.bounds import output_error
from finite_calculus.models.curvature import Curvature, take_curvature
from finite_calculus.models.edits import Edits, as_tuple
from finite_calculus.models.layer import LayerCapture, stored_copy
from finite_calculus.models.margins import Margin
from finite_calculus.models.precision import precision_of, widened
from finite_calculus.models.predict import Prediction, predict
from finite_calculus.models.probe import ProbedRotary
from finite_calculus.models.projections import projection_weights, with_query_weights
from finite_calculus.models.prompt import PreparedPrompt
from finite_calculus.models.recorder import Recorder, recording
from finite_calculus.models.session import AttentionCall, Session, active, by_module, keep_call
from finite_calculus.models.support import (
    Site,
    UnsupportedModelError,
    chunk_length,
    require_finite_run,
)
from finite_calculus.models.words import short_repr
from finite_calculus.readout import Readout


@dataclass(frozen=True, eq=False)
class Capture:
    """An immutable baseline: the prompt, the margin and the captured layers.

    `baseline` is the margin logit(answer) − logit(versus) and `logits` the two logits. `curvature`
    is the second order downstream, if it was asked for.
    """

    __repr__ = short_repr

    model: str
    ids: Int[Tensor, " tokens"]
    margin: Margin
    baseline: float
    logits: Float[Tensor, "2"]
    layers: tuple[LayerCapture, ...]
    curvature: Curvature | None = None

    @property
    def positions(self) -> range:
        """From 0 to the position of the query, the last token."""
        return range(self.ids.shape[0])

    @property
    def numbers(self) -> list[int]:
        """The captured layers by their indices in the model."""
        return [layer.layer for layer in self.layers]

    def layer(self, layer: int) -> LayerCapture:
        """The capture of one layer, by its index in the model."""
        for candidate in self.layers:
            if candidate.layer == layer:
                return candidate
        raise ValueError(
            f"`layer` must be one of the captured layers {self.numbers}; got {layer}. "
            f"Name it in `layers` when capturing."
        )

    def readout(self, layer: int) -> Readout:
        """The float64 readout of a layer, its heads as batch."""
        return self.layer(layer).readout()

    def predict(self, edits: Edits) -> Prediction:
        """Predict one counterfactual, an edit or a tuple of edits, without the model."""
        return predict(self.layer(as_tuple(edits)[0].layer), edits)


def take_capture(
    prompt: PreparedPrompt,
    probed: Sequence[ProbedRotary],
    margin: Margin,
    layers: Sequence[int],
    *,
    curvature: int = 0,
) -> Capture:
    """Run the last query of a prepared prompt with a graph and collect the requested layers.

    `curvature` directions of each layer get their second order downstream, by further passes.
    """
    sites, prefix = prompt.sites, prompt.prefix
    recorder = Recorder(frozenset(layers))
    session = Session(by_module(sites), keep_call, recorder.observe)
    with torch.enable_grad(), active(session), recording(sites, recorder):
        row = prompt.run_last()
        logits = row[0]
        require_finite_run(prompt.model, "logits", logits)
        value = margin.of(widened(logits))
        names = list(recorder.leaves)
        slopes = torch.autograd.grad(value, [recorder.leaves[name] for name in names])
    gradients = dict(zip(names, slopes, strict=True))
    prefix.baselines.setdefault(1, recorder.baseline(row))
    with torch.no_grad():
        layer_captures = [
            layer_capture(sites[i], probed[i], recorder, gradients, prefix.ids.shape[0])
            for i in layers
        ]
        for layer in layer_captures:
            check_replay(layer)
        bent = take_curvature(prompt, margin, layer_captures, curvature) if curvature else None
        pair = stored_copy(torch.stack([logits[margin.answer], logits[margin.versus]]))
        return Capture(
            model=type(prompt.model).__name__,
            ids=prefix.ids.cpu(),
            margin=margin,
            baseline=float(value),
            logits=pair,
            layers=tuple(layer_captures),
            curvature=bent,
        )


def check_replay(layer: LayerCapture) -> None:
    """Require that the float64 replay of y agrees with the native y within its derived bound."""
    apart = (layer.readout().output - layer.output.double()).abs()
    excess = apart - output_error(layer)
    if not bool((excess <= 0).all()):
        raise UnsupportedModelError(
            f"The attention of layer {layer.layer} must be softmax(q·k·scaling)·v of the captured "
            f"tensors; its replay differs by {float(apart.max()):.2e}, above the {layer.dtype} bound by "
            f"{float(excess.max()):.2e}. This attention variant is not supported."
        )


def layer_capture(
    site: Site,
    probed: ProbedRotary,
    recorder: Recorder,
    gradients: dict[tuple[str, int], Tensor],
    tokens: int,
) -> LayerCapture:
    """What the recorder saw of one layer at the last query."""
    call, i = recorder.calls[site.layer], site.layer
    heads, count = call.query.shape[1], call.key.shape[2]
    projection, bias = projection_weights(site.projection, heads)
    window = call.options.get("sliding_window") or chunk_length(site)
    sinks = call.options.get("s_aux")
    softcap = call.options.get("softcap")
    layer = LayerCapture(
        layer=i,
        position=tokens - 1,
        first=tokens - count,
        scaling=call.scaling,
        softcap=None if softcap is None else float(softcap),
        window=None if window is None else int(window),
        query=stored_copy(call.query[0, :, -1]),
        keys=stored_copy(call.key[0]),
        values=stored_copy(call.value[0]),
        attended=attended_keys(call, count),
        sinks=None if sinks is None else stored_copy(sinks.reshape(-1)),
        output=stored_copy(recorder.outputs[i][0, -1]).reshape(heads, -1),
        write=stored_copy(_last(recorder.writes[i])),
        output_projection=projection,
        output_bias=bias,
        gradient_output=stored_copy(gradients["output", i][0, -1]).reshape(heads, -1),
        gradient_write=stored_copy(_last(gradients["write", i])),
        rotary=probed.rotary,
        rotary_scaling=probed.scaling,
        switch=probed.limit,
        head_input=None,
        query_weight=None,
        query_bias=None,
        not_affine="",
        residual=recorder.residuals[i],
        dtype=precision_of(call.query.dtype).name,
    )
    return with_query_weights(site, layer, recorder.inputs.get(i))


def _last(writes: Tensor) -> Tensor:
    """The write of the last query, whether or not the module kept the dimensions before it."""
    return writes.reshape(-1, writes.shape[-1])[-1]


def attended_keys(call: AttentionCall, count: int, query: int = -1) -> Tensor:
    """A query's attended set from the additive mask, which may hold nothing between 0 and the minimum."""
    if call.mask is None:
        return torch.ones(count, dtype=torch.bool)
    row = call.mask[0, :, query, :count].detach().cpu()
    lowest = torch.finfo(row.dtype).min
    admitted, excluded = row == 0, row <= lowest / 2
    if not bool((admitted | excluded).all()) or not bool((admitted == admitted[:1]).all()):
        raise UnsupportedModelError(
            "The attention mask must only admit or exclude keys, alike in every head; it holds other "
            "values (a position bias such as ALiBi). This family is not supported."
        )
    return admitted[0].clone()
