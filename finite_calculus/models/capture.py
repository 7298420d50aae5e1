"""Capture of one baseline: the prefix without a graph, the last query with one, one backward pass.

A zero leaf is added to y and to the projected write of every requested layer, which changes no bit; a
single backward pass then gives the gradient of the margin at all of them and goes no deeper than the
lowest. The captured attention of each requested layer is replayed in float64 and must agree with the
native one within the derived bound, so that an attention variant unknown to the instrument is refused.
The same pass is the unedited batch of one row, from which execution resumes.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from finite_calculus.models.baseline import BatchBaseline, LayerBaseline, block_state
from finite_calculus.models.bounds import output_error, query_error
from finite_calculus.models.edits import Edits, as_tuple
from finite_calculus.models.layer import LayerCapture
from finite_calculus.models.margins import Margin
from finite_calculus.models.predict import Prediction, predict
from finite_calculus.models.probe import ProbedRotary
from finite_calculus.models.prompt import PreparedPrompt
from finite_calculus.models.session import AttentionCall, Session, active, by_module, keep_call
from finite_calculus.models.support import Site, UnsupportedModelError, has_query_norm
from finite_calculus.readout import Readout
from finite_calculus.rotary import rotate


@dataclass(frozen=True, eq=False)
class Capture:
    """An immutable baseline: the prompt, the margin and the captured layers.

    `baseline` is the margin logit(answer) − logit(versus) and `logits` the two logits.
    """

    model: str
    ids: Int[Tensor, " tokens"]
    margin: Margin
    baseline: float
    logits: Float[Tensor, "2"]
    layers: tuple[LayerCapture, ...]

    @property
    def positions(self) -> range:
        """Positions of the tokens."""
        return range(self.ids.shape[0])

    def layer(self, layer: int) -> LayerCapture:
        """The capture of one layer, by its index in the model."""
        for found in self.layers:
            if found.layer == layer:
                return found
        held = [found.layer for found in self.layers]
        raise ValueError(
            f"`layer` must be one of the captured layers {held}; got {layer}. "
            f"Name it in `layers` when capturing."
        )

    def readout(self, layer: int) -> Readout:
        """The float64 readout of a layer, its heads as batch."""
        return self.layer(layer).readout()

    def predict(self, edits: Edits) -> Prediction:
        """Predict one counterfactual, an edit or a tuple of edits, without the model."""
        return predict(self.layer(as_tuple(edits)[0].layer), edits)


@dataclass(eq=False)
class _Recorder:
    """What the hooks of one capture collect, layer by layer; leaves at the requested layers only."""

    layers: frozenset[int]
    calls: dict[int, AttentionCall] = field(default_factory=dict)
    outputs: dict[int, Tensor] = field(default_factory=dict)
    writes: dict[int, Tensor] = field(default_factory=dict)
    inputs: dict[int, Tensor] = field(default_factory=dict)
    states: dict[int, tuple[Tensor, int | None]] = field(default_factory=dict)
    leaves: dict[tuple[str, int], Tensor] = field(default_factory=dict)

    def leaf(self, kind: str, layer: int, tensor: Tensor) -> Tensor:
        if layer not in self.layers:
            return tensor
        zero = torch.zeros_like(tensor, requires_grad=True)
        self.leaves[kind, layer] = zero
        return tensor + zero

    def observe(self, site: Site, call: AttentionCall, output: Tensor) -> Tensor:
        self.calls[site.layer], self.outputs[site.layer] = call, output
        return self.leaf("output", site.layer, output)

    def baseline(self, logits: Tensor) -> BatchBaseline:
        """The pass as an unedited batch of one row."""
        layers = []
        for i, call in sorted(self.calls.items()):
            state, others = self.states[i]
            query, key, value = (x[:, :, -1].detach() for x in (call.query, call.key, call.value))
            output = self.outputs[i][:, -1].detach().reshape(1, query.shape[1], -1)
            write = self.writes[i].detach().reshape(1, -1)
            layers.append(LayerBaseline(state, others, query, key, value, output, write))
        return BatchBaseline(logits.detach(), tuple(layers))


def take_capture(
    prompt: PreparedPrompt, probed: Sequence[ProbedRotary], margin: Margin, layers: Sequence[int]
) -> Capture:
    """Run the last query of a prepared prompt with a graph and collect the requested layers."""
    sites, prefix = prompt.sites, prompt.prefix
    recorder = _Recorder(frozenset(layers))
    session = Session(by_module(sites), keep_call, recorder.observe)
    with torch.enable_grad(), active(session), _hooks(sites, recorder):
        row = prompt.run_last()
        logits = row[0]
        value = margin.of(logits)
        names = list(recorder.leaves)
        found = torch.autograd.grad(value, [recorder.leaves[name] for name in names])
    gradients = dict(zip(names, found, strict=True))
    prefix.baselines.setdefault(1, recorder.baseline(row))
    with torch.no_grad():
        taken = [
            _layer(sites[i], probed[i], recorder, gradients, prefix.ids.shape[0]) for i in layers
        ]
        for layer in taken:
            check_replay(layer)
        pair = torch.stack([logits[margin.answer], logits[margin.versus]]).detach().cpu()
        return Capture(
            model=type(prompt.model).__name__,
            ids=prefix.ids.cpu(),
            margin=margin,
            baseline=float(value),
            logits=pair,
            layers=tuple(taken),
        )


def check_replay(layer: LayerCapture) -> None:
    """Require that the float64 replay of y agrees with the native y within its derived bound."""
    apart = (layer.readout().output - layer.output.double()).abs()
    excess = apart - output_error(layer)
    if not bool((excess <= 0).all()):
        raise UnsupportedModelError(
            f"The attention of layer {layer.layer} must be softmax(q·k·scaling)·v of the captured "
            f"tensors; its replay differs by {float(apart.max()):.2e}, above the float32 bound by "
            f"{float(excess.max()):.2e}. This attention variant is not supported."
        )


def projection_weights(
    projection: nn.Module, heads: int
) -> tuple[Float[Tensor, "heads width model"], Float[Tensor, " model"] | None]:
    """Output projection per head in row convention, with its bias; Linear and GPT-2's Conv1D."""
    weight = getattr(projection, "weight", None)
    if not isinstance(weight, Tensor) or weight.ndim != 2:
        raise UnsupportedModelError(
            f"The output projection must be a linear map; got {type(projection).__name__}. "
            f"Merge adapters and quantised weights into a plain layer first."
        )
    rows = weight.mT if isinstance(projection, nn.Linear) else weight
    bias = getattr(projection, "bias", None)
    per_head = _plain(rows.reshape(heads, -1, rows.shape[-1]))
    return per_head, None if bias is None else _plain(bias)


@contextmanager
def _hooks(sites: tuple[Site, ...], recorder: _Recorder) -> Iterator[None]:
    """Hooks at output projections, blocks and query projections; removed on exit."""
    with ExitStack() as stack:
        for site in sites:
            hook = _projection_hook(site.layer, recorder)
            stack.callback(site.projection.register_forward_hook(hook).remove)
            hook = _block_hook(site.layer, recorder)
            stack.callback(site.block.register_forward_hook(hook).remove)
            query = _query_projection(site.module)
            if query is not None:
                hook = _input_hook(site.layer, recorder)
                stack.callback(query.register_forward_pre_hook(hook).remove)
        yield


def _projection_hook(layer: int, recorder: _Recorder) -> Any:
    def hook(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        recorder.writes[layer] = output
        return recorder.leaf("write", layer, output)

    return hook


def _block_hook(layer: int, recorder: _Recorder) -> Any:
    def hook(module: nn.Module, args: Any, output: Any) -> None:
        recorder.states[layer] = block_state(output)

    return hook


def _input_hook(layer: int, recorder: _Recorder) -> Any:
    def hook(module: nn.Module, args: Any) -> None:
        recorder.inputs[layer] = args[0].detach()

    return hook


def _query_projection(module: nn.Module) -> nn.Linear | None:
    found = getattr(module, "q_proj", None) or getattr(module, "qkv_proj", None)
    return found if type(found) is nn.Linear else None


def _layer(
    site: Site,
    probed: ProbedRotary,
    recorder: _Recorder,
    gradients: dict[tuple[str, int], Tensor],
    tokens: int,
) -> LayerCapture:
    call, i = recorder.calls[site.layer], site.layer
    heads, count = call.query.shape[1], call.key.shape[2]
    projection, bias = projection_weights(site.projection, heads)
    window = call.options.get("sliding_window")
    sinks = call.options.get("s_aux")
    softcap = call.options.get("softcap")
    layer = LayerCapture(
        layer=i,
        position=tokens - 1,
        first=tokens - count,
        scaling=call.scaling,
        softcap=None if softcap is None else float(softcap),
        window=None if window is None else int(window),
        query=_plain(call.query[0, :, -1]),
        keys=_plain(call.key[0]),
        values=_plain(call.value[0]),
        attended=_attended(call, count),
        sinks=None if sinks is None else _plain(sinks.reshape(-1)),
        output=_plain(recorder.outputs[i][0, -1]).reshape(heads, -1),
        write=_plain(recorder.writes[i].reshape(-1)),
        output_projection=projection,
        output_bias=bias,
        gradient_output=_plain(gradients["output", i][0, -1]).reshape(heads, -1),
        gradient_write=_plain(gradients["write", i].reshape(-1)),
        rotary=probed.rotary,
        rotary_scaling=probed.scaling,
        switch=probed.limit,
        head_input=None,
        query_weight=None,
        query_bias=None,
        not_affine="",
    )
    return _with_query_weights(site, layer, recorder.inputs.get(i))


def _attended(call: AttentionCall, count: int) -> Tensor:
    """The attended set from the additive mask, which may hold nothing between 0 and the minimum."""
    if call.mask is None:
        return torch.ones(count, dtype=torch.bool)
    row = call.mask[0, :, -1, :count].detach().cpu()
    lowest = torch.finfo(row.dtype).min
    kept, dropped = row == 0, row <= lowest / 2
    if not bool((kept | dropped).all()) or not bool((kept == kept[:1]).all()):
        raise UnsupportedModelError(
            "The attention mask must only admit or exclude keys, alike in every head; it holds other "
            "values (a position bias such as ALiBi). This family is not supported."
        )
    return kept[0].clone()


def _with_query_weights(site: Site, layer: LayerCapture, head_input: Tensor | None) -> LayerCapture:
    """Add the affine query map where there is one, and only if it reproduces the captured query."""
    query = _query_projection(site.module)
    if query is None or head_input is None:
        return replace(layer, not_affine="the query projection is not a plain linear layer")
    if has_query_norm(site.module):
        return replace(layer, not_affine="queries are normalised after projection")
    heads, width = layer.query.shape
    weight = query.weight.detach()[: heads * width].reshape(heads, width, -1).mT
    bias = None if query.bias is None else query.bias.detach()[: heads * width]
    filled = replace(
        layer,
        head_input=_plain(head_input.reshape(-1)),
        query_weight=_plain(weight),
        query_bias=None if bias is None else _plain(bias.reshape(heads, width)),
    )
    apart = (affine_query(filled) - layer.query.double()).abs() - query_error(filled)
    if not bool((apart <= 0).all()):
        return replace(layer, not_affine="the query is more than projection and rotation")
    return filled


def affine_query(layer: LayerCapture) -> Float[Tensor, "heads width"]:
    """q̃ = c·R(p)(xW + b) in float64, for layers with an affine query."""
    head_input, weight = layer.query_map()
    plain = torch.matmul(head_input.double(), weight.double())
    if layer.query_bias is not None:
        plain = plain + layer.query_bias.double()
    if layer.rotary is not None:
        plain = rotate(layer.rotary, plain, layer.position)
    return plain * layer.rotary_scaling


def _plain(tensor: Tensor) -> Tensor:
    """A copy on the CPU; contiguous, so that the capture and its saved twin are summed alike."""
    return tensor.detach().clone().cpu().contiguous()
