"""Native execution of counterfactuals in batches, each from the untouched prefix.

Rounding depends on the batch size and on the row, so the control of an edited row is the same row of
an unedited batch of the same size; besides, row 0 of every batch stays unedited and must repeat its
own control, or rows leak. An edit replaces the key and value columns that it changed, adds its score
bias to the mask and its increment to the query of its own row and layer. Two paths lead to the same
bits: the whole model on the last token, and resumption from the edited layer, for which the blocks
below hand on the state of the unedited batch.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from tqdm.auto import tqdm
from transformers import PreTrainedModel

from finite_calculus.models.baseline import LayerBaseline, batch_baseline
from finite_calculus.models.capture import Capture
from finite_calculus.models.edits import Edits, as_tuple, edited_bank
from finite_calculus.models.layer import Bank, LayerCapture
from finite_calculus.models.prefix import Prefix, run_last
from finite_calculus.models.session import AttentionCall, Session, active, by_module
from finite_calculus.models.support import Site


@dataclass(frozen=True, eq=False)
class Outcome:
    """One executed counterfactual beside its control.

    `effect` = `margin` − `control`. `output` and `write` are the native y and o of the edited layer,
    `control_output` and `control_write` those of the control. `drift` is how far the margin of the
    batch's unedited row 0 is from its own control: zero, except that experts make the grouping of
    rows depend on the edits. `layer` is the captured layer with the last token's query, key and value
    as this row rounded them: a prediction from it and the execution share every input.
    """

    margin: float
    control: float
    effect: float
    drift: float
    output: Float[Tensor, "heads width"]
    control_output: Float[Tensor, "heads width"]
    write: Float[Tensor, " model"]
    control_write: Float[Tensor, " model"]
    layer: LayerCapture
    logits: Float[Tensor, " vocabulary"] | None

    @property
    def response(self) -> Float[Tensor, "heads width"]:
        """The executed Δy, subtracted in float64."""
        return self.output.double() - self.control_output.double()


@dataclass(frozen=True, eq=False)
class Execution:
    """Outcomes in the order of the edits."""

    outcomes: tuple[Outcome, ...]

    @property
    def margins(self) -> Float[Tensor, " edits"]:
        """Margins of the edited rows."""
        return torch.tensor([o.margin for o in self.outcomes], dtype=torch.float64)

    @property
    def controls(self) -> Float[Tensor, " edits"]:
        """Margins of the controls, each of its own row."""
        return torch.tensor([o.control for o in self.outcomes], dtype=torch.float64)

    @property
    def effects(self) -> Float[Tensor, " edits"]:
        """Executed margin changes: positive towards the answer."""
        return torch.tensor([o.effect for o in self.outcomes], dtype=torch.float64)


def execute(
    model: PreTrainedModel,
    sites: tuple[Site, ...],
    prefix: Prefix,
    capture: Capture,
    edits: Sequence[Edits],
    *,
    batch: int = 32,
    resume: bool = True,
    keep_logits: bool = False,
    quiet: bool = True,
) -> Execution:
    """Execute counterfactuals of one captured prompt; see `Outcome` for what each returns.

    `batch` counts rows with the control. `resume` runs only the layers from the edited one upwards.
    """
    if batch < 2:
        raise ValueError(
            f"`batch` must be at least 2, a control and an edited row; got {batch}. "
            f"The control has to sit in the batch that it controls."
        )
    given = [as_tuple(item) for item in edits]
    banks = [edited_bank(capture.layer(item[0].layer), item) for item in given]
    outcomes: list[Outcome | None] = [None] * len(given)
    with tqdm(total=len(given), disable=quiet, desc="execute", unit="edit") as progress:
        for layer in sorted({item[0].layer for item in given}):
            mine = [i for i, item in enumerate(given) if item[0].layer == layer]
            rows = max(2, min(batch, len(mine) + 1))
            for start in range(0, len(mine), rows - 1):
                chunk = mine[start : start + rows - 1]
                found = _run_batch(
                    model, sites, prefix, capture, layer, [banks[i] for i in chunk], rows,
                    resume=resume, keep_logits=keep_logits,
                )  # fmt: skip
                for index, outcome in zip(chunk, found, strict=True):
                    outcomes[index] = outcome
                progress.update(len(chunk))
    return Execution(tuple(o for o in outcomes if o is not None))


def apply_bank(call: AttentionCall, row: int, layer: LayerCapture, bank: Bank) -> None:
    """Write one edited bank into a row of a call whose tensors may be written to."""
    device = call.key.device
    columns = bank.changed.nonzero().squeeze(-1)
    call.key[row, :, columns] = bank.keys[:, columns].to(device)
    call.value[row, :, columns] = bank.values[:, columns].to(device)
    if call.mask is None:
        raise ValueError("The mask of an edited call must be present; the instrument prepares it.")
    bias = bank.bias.masked_fill(bank.removed, torch.finfo(bank.bias.dtype).min).to(device)
    count = bias.shape[-1]
    call.mask[row, :, -1, :count] = (call.mask[row, :, -1, :count] + bias).clamp(
        min=torch.finfo(bank.bias.dtype).min
    )
    if not torch.equal(bank.query, layer.query):
        call.query[row, :, -1] += (bank.query - layer.query).to(device)


def writable(call: AttentionCall) -> AttentionCall:
    """A copy of a call whose tensors belong to it, with a mask per row and head."""
    rows, heads, queries, _ = call.query.shape
    shape = (rows, heads, queries, call.key.shape[2])
    mask = call.query.new_zeros(shape)
    if call.mask is not None:
        mask = call.mask[..., : shape[-1]].expand(shape).clone()
    return AttentionCall(
        call.query.clone(), call.key.clone(), call.value.clone(), mask, call.options
    )


def _run_batch(
    model: PreTrainedModel,
    sites: tuple[Site, ...],
    prefix: Prefix,
    capture: Capture,
    layer: int,
    banks: Sequence[Bank],
    rows: int,
    *,
    resume: bool,
    keep_logits: bool,
) -> list[Outcome]:
    taken, site = capture.layer(layer), sites[layer]
    unedited = batch_baseline(model, sites, prefix, rows)
    control = unedited.layers[layer]
    seen: dict[str, Tensor] = {}

    def edit(where: Site, call: AttentionCall) -> AttentionCall:
        if where is not site:
            return call
        edited = writable(call)
        for row, bank in enumerate(banks, start=1):
            apply_bank(edited, row, taken, bank)
        return edited

    def observe(where: Site, call: AttentionCall, output: Tensor) -> Tensor:
        if where is site:
            seen["output"] = output[:, -1].reshape(rows, taken.heads, -1).cpu()
        return output

    def write(module: nn.Module, args: Any, output: Tensor) -> None:
        seen["write"] = output.reshape(rows, -1).cpu()

    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        if resume:
            stack.enter_context(_skipping(sites[:layer], unedited.layers))
        stack.enter_context(active(Session(by_module(sites), edit, observe)))
        stack.callback(site.projection.register_forward_hook(write).remove)
        logits = run_last(model, prefix, rows=rows).cpu()
    margins = capture.margin.of(logits.double())
    controls = capture.margin.of(unedited.logits.double().cpu())
    return [
        Outcome(
            margin=float(margins[row]),
            control=float(controls[row]),
            effect=float(margins[row] - controls[row]),
            drift=float(margins[0] - controls[0]),
            output=seen["output"][row],
            control_output=control.output[row].cpu(),
            write=seen["write"][row],
            control_write=control.write[row].cpu(),
            layer=control.seen_by(row, taken),
            logits=logits[row] if keep_logits else None,
        )
        for row in range(1, len(banks) + 1)
    ]


@contextmanager
def _skipping(sites: tuple[Site, ...], layers: tuple[LayerBaseline, ...]) -> Iterator[None]:
    """Let blocks hand on a known state instead of computing it."""
    with ExitStack() as stack:
        for site in sites:
            if "forward" in vars(site.block):
                raise ValueError(
                    f"Block {site.layer} must not have a forward of its own instance; it has one. "
                    f"Pass resume=False."
                )
            site.block.forward = partial(_hand_on, layers[site.layer])
            stack.callback(site.block.__dict__.pop, "forward", None)
        yield


def _hand_on(known: LayerBaseline, *args: Any, **kw: Any) -> Any:
    return known.state if known.others is None else (known.state, *[None] * known.others)
