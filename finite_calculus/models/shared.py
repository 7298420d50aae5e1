"""The fast path of execution: one prefix for all rows, read where it is and never copied.

Above the edited layer the rows of a batch are so many queries of one matrix of keys, and each has a key
and value of its own for the last token. At the edited layer all rows have the same query, key and value
of the last token (row 0's); the columns that an edit touched get scores and values of their own, the
others are those of the prefix. Everything else (norms, projections, rotation, feed-forward) is the
model's own code. For a margin only the two rows of the head are multiplied.

Matrix products are grouped otherwise than in the native paths, so that results differ from theirs by
rounding. Row 0 of each batch is unedited and is the control of its rows.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from finite_calculus.models.baseline import batch_baseline, skipping
from finite_calculus.models.capture import Capture
from finite_calculus.models.columns import edited_columns
from finite_calculus.models.edits import Edits
from finite_calculus.models.kernels import Kernels
from finite_calculus.models.layer import LayerCapture
from finite_calculus.models.margins import Margin
from finite_calculus.models.outcomes import Outcome
from finite_calculus.models.patches import Patch, stack_patches
from finite_calculus.models.prefix import OwnLayer
from finite_calculus.models.prompt import PreparedPrompt
from finite_calculus.models.session import AttentionCall, Session, active, by_module, keep_call
from finite_calculus.models.sinks import sink_scores
from finite_calculus.models.softcap import capped
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
        stored = prompt.prefix.layers[where.layer]
        if where is not site:
            return shared_attention(call, stored.keys, stored.values)
        last = (tensor[0, :, -1].cpu() for tensor in (call.query, call.key, call.value))
        # Edited as row 0 rounded its last token, so that predictions share every input with the rows.
        own = layer.with_last_token(*last)
        patch = stack_patches(own, edited_columns(own, edits), prompt.prefix.ids.device)
        packed = all(x is not None and x.is_contiguous() for x in (stored.keys, stored.values))
        patches.append((own, patch, Kernels.of(site.projection, rows, packed=packed)))
        tensors["output"] = shared_attention(call, stored.keys, stored.values, patch)
        return tensors["output"]

    def write(module: nn.Module, args: Any, output: Tensor) -> None:
        tensors["write"] = output.reshape(rows, -1).cpu()

    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        below = batch_baseline(prompt, 1).layers
        stack.enter_context(skipping(prompt.sites[:number], below, rows=rows))
        stack.enter_context(
            active(Session(by_module(prompt.sites), keep_call, _keep_output, attend))
        )
        stack.callback(site.projection.register_forward_hook(write).remove)
        margin = capture.margin
        if not keep_logits:
            margin = stack.enter_context(_answers_only(prompt.model, margin))
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


def shared_attention(
    call: AttentionCall, keys: Tensor | None, values: Tensor | None, patch: Patch | None = None
) -> Tensor:
    """y of every row, (rows, 1, heads, width), over one prefix and each row's own last token.

    Scores are held as (groups, rows, heads of a group, columns), so that the product of a group with
    the prefix is one of matrices. With a patch, all rows have row 0's query, key and value.
    """
    if keys is None or values is None:
        raise ValueError("The prefix must hold keys and values to be shared; it holds none.")
    keys, values, count = keys[0], values[0], keys.shape[2]
    query = call.query.squeeze(2).unflatten(1, (keys.shape[0], -1)).movedim(1, 0)
    own_key, own_value = call.key.movedim(1, 0), call.value.movedim(1, 0)
    if patch is not None:
        query, own_key, own_value = query[:, :1], own_key[:, :1], own_value[:, :1]
        query = query if patch.query is None else query + patch.query
    products = torch.bmm(query.flatten(1, 2), keys.mT).unflatten(1, query.shape[1:3])
    own = (query * own_key).sum(-1, keepdim=True)
    scores = _finished(call, torch.cat([products, own], -1), None)
    if patch is None:
        y = _weighed(_softmax(call, scores), values, own_value)
    else:
        touched = _finished(call, query @ patch.keys.mT, patch.columns.clamp(max=count))
        probs, moved = patch.out_of(_softmax(call, patch.into(scores, touched)))
        y = _weighed(probs, values, own_value) + moved @ patch.values
    return y.movedim(0, 1).flatten(1, 2).unsqueeze(1)


def _weighed(probs: Tensor, values: Tensor, own_value: Tensor) -> Tensor:
    """Σpv over the prefix, one product of matrices, and the last token's own value."""
    count = values.shape[1]
    y = torch.bmm(probs[..., :count].flatten(1, 2), values).unflatten(1, probs.shape[1:3])
    return y + probs[..., count : count + 1] * own_value


def _finished(call: AttentionCall, products: Tensor, columns: Tensor | None) -> Tensor:
    """Scores from products: scaled, capped, masked; `columns` says which ones, None means all."""
    scores = capped(products * call.scaling, call.options.get("softcap"))
    if call.mask is None:
        return scores
    mask = call.mask[0, 0, -1]
    if columns is None:
        return scores + mask[: scores.shape[-1]]
    return scores + mask[columns].unsqueeze(-2)


def _softmax(call: AttentionCall, scores: Tensor) -> Tensor:
    """Probabilities of the columns; a sink takes part as a null key and is left out again."""
    sinks = call.options.get("s_aux")
    if sinks is not None:
        sinks = sinks.reshape(scores.shape[0], 1, -1)
    return torch.softmax(sink_scores(scores, sinks), -1)[..., : scores.shape[-1]]


@contextmanager
def _answers_only(model: PreTrainedModel, margin: Margin) -> Iterator[Margin]:
    """Let the head multiply the answer's and the other's row alone; yields the margin of those two.

    What a model does to its logits afterwards (a cap, a scale) is done entry by entry. A head that is
    no plain linear map runs as it is.
    """
    head = model.get_output_embeddings()
    if type(head) is not nn.Linear or "forward" in vars(head):
        yield margin
        return
    pair = torch.tensor([margin.answer, margin.versus], device=head.weight.device)
    bias = None if head.bias is None else head.bias[pair]
    head.forward = partial(nn.functional.linear, weight=head.weight[pair], bias=bias)
    try:
        yield Margin(0, 1)
    finally:
        del head.forward


def _keep_output(site: Site, call: AttentionCall, output: Tensor) -> Tensor:
    return output
