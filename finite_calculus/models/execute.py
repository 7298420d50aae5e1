"""Execution of counterfactuals in batches, each from the untouched prefix, on one of three paths.

"whole" and "resumed" are native: the model's own attention runs on keys and values that an edit
changed in its own row. Rounding depends on the batch size and on the row, so the control of an edited
row is the same row of an unedited batch of the same size; besides, row 0 of every batch stays unedited
and must repeat its own control, or rows leak. The two lead to the same bits: one runs the whole model
on the last token, the other resumes at the edited layer, for which the blocks below hand on the state
of the unedited batch. "shared" (`finite_calculus.models.shared`) is the fast one: it differs from them
by rounding and is held to them by the preflight.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from finite_calculus.models.baseline import batch_baseline, skipping
from finite_calculus.models.capture import Capture
from finite_calculus.models.edits import Edit, Edits, as_counterfactuals, edited_bank
from finite_calculus.models.kernels import Kernels
from finite_calculus.models.latent import in_rows
from finite_calculus.models.layer import LayerBank, LayerCapture
from finite_calculus.models.outcomes import Execution, Outcome
from finite_calculus.models.prompt import PreparedPrompt
from finite_calculus.models.session import AttentionCall, Session, active, by_module, keep_call
from finite_calculus.models.shared import run_shared
from finite_calculus.models.support import Site
from finite_calculus.models.words import progress_bar

Path = Literal["resumed", "whole", "shared"]


def execute(
    prompt: PreparedPrompt,
    capture: Capture,
    edits: Sequence[Edits],
    *,
    batch: int = 32,
    path: Path = "resumed",
    keep_logits: bool = False,
    quiet: bool = True,
) -> Execution:
    """Execute counterfactuals of one captured prompt; see `Outcome` for what each returns.

    `batch` counts rows with the control. `path` is described above.
    """
    _check_options(batch, path)
    counterfactuals = as_counterfactuals(edits)
    if path == "shared":
        _check_shared(counterfactuals)
    outcomes: dict[int, Outcome] = {}
    total = len(counterfactuals)
    with progress_bar(total, quiet=quiet, title="execute", unit="edit") as progress:
        for layer, numbers, rows in batches(counterfactuals, batch):
            chunk = [counterfactuals[number] for number in numbers]
            if path == "shared":
                results = run_shared(prompt, capture, layer, chunk, keep_logits=keep_logits)
            else:
                resume = path == "resumed"
                results = _run_batch(
                    prompt, capture, layer, chunk, rows, resume=resume, keep_logits=keep_logits
                )
            outcomes |= zip(numbers, results, strict=True)
            progress.update(len(chunk))
    return Execution(tuple(outcomes[number] for number in range(len(counterfactuals))))


def batches(
    counterfactuals: Sequence[tuple[Edit, ...]], batch: int
) -> Iterator[tuple[int, list[int], int]]:
    """Layer, numbers of the counterfactuals and rows of each batch; one size for all of a layer."""
    for layer in sorted({edits[0].layer for edits in counterfactuals}):
        numbers = [n for n, edits in enumerate(counterfactuals) if edits[0].layer == layer]
        rows = max(2, min(batch, len(numbers) + 1))
        for start in range(0, len(numbers), rows - 1):
            yield layer, numbers[start : start + rows - 1], rows


def check_batch(batch: int) -> None:
    """Require room for a control and an edited row."""
    if batch < 2:
        raise ValueError(
            f"`batch` must be at least 2, a control and an edited row; got {batch}. "
            f"The control has to sit in the batch that it controls."
        )


def _check_options(batch: int, path: str) -> None:
    check_batch(batch)
    if path not in get_args(Path):
        raise ValueError(
            f"`path` must be an execution path, one of {', '.join(get_args(Path))}; got {path!r}."
        )


def _check_shared(counterfactuals: Sequence[tuple[Edit, ...]]) -> None:
    """Rows of the shared path have one key and value for the heads of a group."""
    for edit in (edit for several in counterfactuals for edit in several):
        if edit.heads is not None and not edit.by_score:
            raise ValueError(
                f"`path` must be resumed or whole for keys and values of some heads alone; got shared with "
                f"{type(edit).__name__} of heads {edit.heads}."
            )


def apply_bank(call: AttentionCall, row: int, layer: LayerCapture, bank: LayerBank) -> None:
    """Write one edited bank into a row of a call whose tensors may be written to; all its queries read it."""
    device = call.key.device
    columns = bank.changed.nonzero().squeeze(-1)
    call.key[row, :, columns] = bank.keys[:, columns].to(call.key)
    call.value[row, :, columns] = bank.values[:, columns].to(call.value)
    if call.mask is None:
        raise ValueError("The mask of an edited call must be present; the instrument prepares it.")
    lowest = torch.finfo(call.mask.dtype).min
    bias = bank.bias.to(call.mask).masked_fill(bank.removed.to(device), lowest)
    count = bias.shape[-1]
    mask = call.mask[row, :, :, :count] + bias.unsqueeze(1)
    call.mask[row, :, :, :count] = mask.clamp(min=lowest)
    if not torch.equal(bank.query, layer.query):
        moved = (bank.query.double() - layer.query.double()).to(device)
        call.query[row, :, -1] = (call.query[row, :, -1].double() + moved).to(call.query.dtype)


def attend_edited(
    site: Site, call: AttentionCall, edited: Mapping[int, tuple[LayerCapture, LayerBank]]
) -> Tensor:
    """y of a call whose rows, those named, read an edited bank of their layer.

    A bank with keys for every head runs in as many passes as a group has heads, each head's own in one of
    them; a pass gives the y of the heads whose keys it had.
    """
    groups = call.key.shape[1]
    members = call.query.shape[1] // groups
    apart = any(bank.keys.shape[0] != groups for _, bank in edited.values())
    outputs = []
    for member in range(members if apart else 1):
        own = writable(call)
        for row, (layer, bank) in edited.items():
            apply_bank(own, row, layer, bank.of_member(member, groups))
        output, _ = site.eager(site.module, own.query, own.key, own.value, own.mask, **own.options)
        outputs.append(output)
    if not apart:
        return outputs[0]
    # (passes, rows, queries, groups, members, width): pass m holds the y of each group's member m.
    shape = outputs[0].shape
    passes = torch.stack(outputs).unflatten(3, (groups, members))
    return torch.stack([passes[m, ..., m, :] for m in range(members)], -2).reshape(shape)


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
    prompt: PreparedPrompt,
    capture: Capture,
    number: int,
    edits: Sequence[tuple[Edit, ...]],
    rows: int,
    *,
    resume: bool,
    keep_logits: bool,
) -> list[Outcome]:
    layer, site = capture.layer(number), prompt.sites[number]
    unedited = batch_baseline(prompt, rows)
    control = unedited.layers[number]
    layers: list[LayerCapture] = []
    tensors: dict[str, Tensor] = {}
    kernels: list[Kernels | None] = []

    def attend(where: Site, call: AttentionCall) -> Tensor:
        if where is site:
            # Each row is edited as it rounded its tokens, so that its prediction shares every input with it.
            own = in_rows(site, [layer], call, slice(1, len(edits) + 1))
            layers.extend(each for (each,) in own)
            banks = [
                edited_bank(each, several) for each, several in zip(layers, edits, strict=True)
            ]
            return attend_edited(site, call, dict(enumerate(zip(layers, banks, strict=True), 1)))
        return where.eager(
            where.module, call.query, call.key, call.value, call.mask, **call.options
        )[0]

    def observe(where: Site, call: AttentionCall, output: Tensor) -> Tensor:
        if where is site:
            kernels.append(Kernels.of_call(site.projection, call))
            tensors["output"] = output[:, -1].reshape(rows, layer.heads, -1).cpu()
        return output

    def write(module: nn.Module, args: Any, output: Tensor) -> None:
        tensors["write"] = output.reshape(rows, -1).cpu()

    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        if resume:
            stack.enter_context(skipping(prompt.sites[:number], unedited.layers))
        session = Session(by_module(prompt.sites), keep_call, observe, attend)
        stack.enter_context(active(session))
        stack.callback(site.projection.register_forward_hook(write).remove)
        logits = prompt.run_last(rows=rows).cpu()
    margins = capture.margin.of(logits.double())
    controls = capture.margin.of(unedited.logits.double().cpu())
    return [
        Outcome(
            margin=float(margins[row]),
            control=float(controls[row]),
            effect=float(margins[row] - controls[row]),
            drift=float(margins[0] - controls[0]),
            output=tensors["output"][row],
            control_output=control.output[row].cpu(),
            write=tensors["write"][row],
            control_write=control.write[row].cpu(),
            layer=layers[row - 1],
            logits=logits[row] if keep_logits else None,
            kernels=kernels[0],
        )
        for row in range(1, len(edits) + 1)
    ]
