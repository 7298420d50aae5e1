"""The fast path of execution: one prefix for all rows, read where it is and never copied.

Above the edited layer the rows of a batch are so many queries of one matrix of keys, and each has a key
and value of its own for the last token. At the edited layer all rows have the same query, key and value
of the last token (row 0's); the columns that an edit touched get scores and values of their own, the
others are those of the prefix. Everything else (norms, projections, rotation, feed-forward) is the
model's own code. For a margin only the two rows of the head are multiplied.

Matrix products are grouped otherwise than in the native paths, so that results differ from theirs by
rounding. Row 0 of each batch is unedited and is the control of its rows.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from finite_calculus.models.baseline import batch_baseline, skipping
from finite_calculus.models.capture import Capture
from finite_calculus.models.columns import edited_columns
from finite_calculus.models.edits import Edits
from finite_calculus.models.kernels import Kernels
from finite_calculus.models.latent import in_rows, prefix_bank, with_prefix
from finite_calculus.models.layer import LayerCapture
from finite_calculus.models.margins import answers_only
from finite_calculus.models.outcomes import Outcome
from finite_calculus.models.patches import Patch, stack_patches
from finite_calculus.models.prefix import OwnLayer
from finite_calculus.models.prefix_attention import shared_attention
from finite_calculus.models.prompt import PreparedPrompt
from finite_calculus.models.session import (
    AttentionCall,
    Session,
    active,
    by_module,
    keep_call,
    keep_output,
)
from finite_calculus.models.support import Site


def run_shared(
    prompt: PreparedPrompt,
    capture: Capture,
    number: int,
    edits: Sequence[Edits],
    *,
    keep_logits: bool = False,
) -> list[Outcome]:
    """Execute counterfactuals of one layer; row 0 is their control."""
    layer, site, rows = capture.layer(number), prompt.sites[number], len(edits) + 1
    tensors: dict[str, Tensor] = {}
    patches: list[tuple[LayerCapture, Patch, Kernels | None]] = []

    def attend(where: Site, call: AttentionCall) -> Tensor:
        keys, values = prefix_bank(prompt, where)
        if where is not site:
            return shared_attention(call, keys, values)
        # Edited as row 0 rounded its tokens, so that predictions share every input with the rows.
        ((own,),) = in_rows(site, [layer], with_prefix(site, call, keys, values), slice(0, 1))
        patch = stack_patches(own, edited_columns(own, edits), call.key.device)
        packed = keys.is_contiguous() and values.is_contiguous()
        patches.append((own, patch, Kernels.of(site.projection, rows, packed=packed)))
        tensors["output"] = shared_attention(call, keys, values, patch)
        return tensors["output"]

    def write(module: nn.Module, args: Any, output: Tensor) -> None:
        tensors["write"] = output.reshape(rows, -1).cpu()

    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        below = batch_baseline(prompt, 1).layers
        stack.enter_context(skipping(prompt.sites[:number], below, rows=rows))
        stack.enter_context(
            active(Session(by_module(prompt.sites), keep_call, keep_output, attend))
        )
        stack.callback(site.projection.register_forward_hook(write).remove)
        margin = capture.margin
        if not keep_logits:
            margin = stack.enter_context(answers_only(prompt.model, margin))
        logits = prompt.run_last(rows=rows, kind=OwnLayer).cpu()
    margins = margin.of(logits.double()).tolist()
    outputs = tensors["output"].reshape(rows, layer.heads, -1).cpu().unbind(0)
    writes = tensors["write"].unbind(0)
    ((own, patch, kernels),) = patches
    return [
        Outcome(
            margin=margins[row],
            control=margins[0],
            effect=margins[row] - margins[0],
            drift=margins[0] - capture.baseline,
            output=outputs[row],
            control_output=outputs[0],
            write=writes[row],
            control_write=writes[0],
            layer=own,
            logits=logits[row] if keep_logits else None,
            kernels=kernels and kernels.patched(patch.columns[row], layer.keys.shape[1]),
        )
        for row in range(1, rows)
    ]
