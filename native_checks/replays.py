"""Native replays: a layer's own attention and projection, run again on edited keys, values and queries.

The module's eager attention, as the library defines it, gets the tensors that it got for the last token, in
one row, with a bank's edits written into them; its y goes through the module's own output projection.
Nothing else of the model runs, so that a cell costs one readout, and every cell of a layer shares the
tensors that were not edited. Bounds on what rounding does to a cell are those of `finite_calculus.models`.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.effective import (
    EffectiveWeights,
    augment,
    effective_weights,
    mean_key_gauge,
)
from finite_calculus.models import LayerBank, LayerCapture, head_features, local_error
from finite_calculus.models.baseline import batch_baseline
from finite_calculus.models.edits.base import replace_columns
from finite_calculus.models.execute import apply_bank, writable
from finite_calculus.models.kernels import Kernels
from finite_calculus.models.latent import in_rows
from finite_calculus.models.layer import head_products, repeat_groups
from finite_calculus.models.precision import FLOAT64, widened
from finite_calculus.models.predict import Increments, increments
from finite_calculus.models.prompt import PreparedPrompt
from finite_calculus.models.session import AttentionCall, Session, active, by_module, keep_call
from finite_calculus.models.sinks import null_sink, sink_mask
from finite_calculus.models.sum_order import half_place
from finite_calculus.models.support import Site
from finite_calculus.readout import Readout


@dataclass(frozen=True, eq=False)
class Cell:
    """One native readout: its bank, y, probabilities and o in float64, and bounds on their rounding."""

    bank: LayerBank
    output: Float[Tensor, "heads width"]
    probs: Float[Tensor, "heads keys"]
    write: Float[Tensor, " model"]
    output_error: Float[Tensor, "heads width"]
    write_error: Float[Tensor, " model"]


@dataclass(frozen=True, eq=False)
class Replay:
    """One layer at the last query, to be run again on other banks."""

    layer: LayerCapture
    donor: LayerCapture
    site: Site
    call: AttentionCall
    native: Float[Tensor, "heads width"]

    @cached_property
    def kernels(self) -> Kernels | None:
        """What every cell is computed with: one row in memory of its own."""
        return Kernels.of_call(self.site.projection, writable(self.call))

    @cached_property
    def base(self) -> Cell:
        """The unedited readout."""
        return self.cell(self.layer.bank())

    @cached_property
    def rewritten(self) -> Cell:
        """The readout with every attended key and value of the donor."""
        return self.cell(self.towards_donor(self.columns, keys=1.0, values=1.0))

    @cached_property
    def readout(self) -> Readout:
        """The unedited readout in float64, the sink as its last key."""
        return self.layer.readout()

    @cached_property
    def columns(self) -> Tensor:
        """The attended key columns."""
        return self.layer.attended.nonzero().squeeze(-1)

    def cell(self, bank: LayerBank) -> Cell:
        """Run the module's attention and projection on a bank."""
        call = writable(self.call)
        apply_bank(call, 0, self.layer, bank)
        with torch.no_grad():
            y, probs = self.site.eager(
                self.site.module, call.query, call.key, call.value, call.mask, **call.options
            )
            o = self.site.projection(y[:, -1:].reshape(1, 1, -1))
        output = widened(y[0, -1].reshape(self.layer.heads, -1).cpu())
        error = local_error(self.layer, bank, kernels=self.kernels, executed=output)
        return Cell(
            bank,
            output.double(),
            probs[0, :, -1].double().cpu(),
            o.reshape(-1).double().cpu(),
            error.output,
            error.write,
        )

    def moved(
        self, columns: Tensor, *, keys: Tensor | None = None, values: Tensor | None = None
    ) -> LayerBank:
        """The bank with float64 keys or values at some columns, rounded once as the model holds them."""

        def rounded(tensor: Tensor | None, like: Tensor) -> Tensor | None:
            return None if tensor is None else self.layer.precision.round(tensor.to(like.dtype))

        layer = self.layer
        return replace_columns(
            layer.bank(),
            columns,
            keys=rounded(keys, layer.keys),
            values=rounded(values, layer.values),
        )

    def towards_donor(
        self, columns: Tensor, *, keys: float = 0.0, values: float = 0.0
    ) -> LayerBank:
        """The bank with keys and values moved so far towards those of the donor prompt."""

        def mixed(here: Tensor, there: Tensor, strength: float) -> Tensor | None:
            start, end = here[:, columns].double(), there[:, columns].double()
            return start + strength * (end - start) if strength else None

        return self.moved(
            columns,
            keys=mixed(self.layer.keys, self.donor.keys, keys),
            values=mixed(self.layer.values, self.donor.values, values),
        )

    def without(self, columns: Tensor) -> LayerBank:
        """The bank with some columns deleted."""
        bank = self.layer.bank()
        return replace(bank, removed=bank.removed.index_fill(0, columns, True))

    def increments(self, bank: LayerBank) -> Increments:
        """Score and value increments of a bank in float64, taken from its rounded tensors."""
        return increments(self.layer, bank)

    def key_rounding(self, bank: LayerBank) -> Float[Tensor, "heads keys"]:
        """What rounding the edited keys may do to each score: Σ|q|·half a place of k'."""
        places = half_place(
            bank.keys.double().abs(), self.layer.precision
        ) * bank.changed.unsqueeze(-1)
        per_head = places.repeat_interleave(self.layer.heads // places.shape[0], 0)
        query, keys = self.layer.query.double().abs(), bank.keys.double().abs()
        rounded = (query.unsqueeze(-2) * per_head).sum(-1)
        # Of a float64 model the algebra beside it rounds as much.
        width = keys.shape[-1]
        algebra = (width + 8) * FLOAT64.unit * head_products(query, keys)
        return (rounded + algebra) * abs(self.layer.scaling)


def replays_of(
    prompt: PreparedPrompt,
    layers: tuple[LayerCapture, ...],
    donors: tuple[LayerCapture, ...],
) -> tuple[Replay, ...]:
    """A replay of every captured layer, with the tensors of one native row."""
    calls: dict[int, AttentionCall] = {}

    def observe(site: Site, call: AttentionCall, output: Tensor) -> Tensor:
        calls[site.layer] = writable(call)
        return output

    with torch.no_grad(), active(Session(by_module(prompt.sites), keep_call, observe)):
        prompt.run_last(rows=1)
    rows = batch_baseline(prompt, 1).layers
    replays = []
    for layer, donor in zip(layers, donors, strict=True):
        site, call = prompt.sites[layer.layer], calls[layer.layer]
        ((own,),) = in_rows(site, [layer], call, slice(0, 1))
        native = rows[layer.layer].output[0].double().cpu()
        replays.append(Replay(own, donor, site, call, native))
    return tuple(replays)


def weights_of(
    replay: Replay, bank: LayerBank | None = None, *, head_input: Tensor | None = None
) -> EffectiveWeights:
    """Effective weights of all heads in the mean-key gauge, of a bank and at a head input."""
    layer = replay.layer
    bank = layer.bank() if bank is None else bank
    own, _ = layer.query_map()
    mask = sink_mask(layer.attended, layer.sinks).expand(layer.heads, -1)
    features = torch.stack([head_features(layer, head, bank) for head in range(layer.heads)])
    values = null_sink(repeat_groups(bank.values.double(), layer.heads), layer.sinks, dim=-2)
    query_input = augment((own if head_input is None else head_input).double())
    return effective_weights(
        query_input.expand(layer.heads, -1),
        features,
        values,
        gauge=mean_key_gauge(features, mask=mask),
        mask=mask,
    )


def shared_by_scores(
    readout: Readout, uncertain: Float[Tensor, "heads keys"]
) -> Float[Tensor, "heads width"]:
    """How far y may move if no score is off by more than η: Σp(e^η − 1)|v − y| over 1 − max(e^η − 1)."""
    growth = torch.expm1(uncertain)
    most = growth.amax(-1, keepdim=True)
    attended = readout.attended.unsqueeze(-1)
    reach = torch.where(attended, readout.probs.unsqueeze(-1) * readout.centred.abs(), 0.0)
    return (growth.unsqueeze(-1) * reach).sum(-2) / (1 - most)


def total(*parts: Tensor) -> Tensor:
    """The sum of tensors of one shape."""
    return torch.stack(parts).sum(0)


def spread_of(increment: Tensor, attended: Tensor) -> Tensor:
    """max − min over the attended keys, the last axis of `attended`."""
    most = torch.finfo(increment.dtype).max
    high = torch.where(attended, increment, -most).amax(-1)
    return high - torch.where(attended, increment, most).amin(-1)
