"""An edit kept installed while text is generated.

From the last prompt token onwards every query reads the edited bank: key and value columns of the
prompt are replaced, biases and deletions are added to the mask. Queries of earlier prompt tokens are
left alone, as in single-readout execution, so that the first generated token is that of `execute`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from finite_calculus.models.capture import Capture
from finite_calculus.models.edits import Edit, QueryEdit, edited_bank
from finite_calculus.models.execute import apply_bank, writable
from finite_calculus.models.layer import LayerBank, LayerCapture
from finite_calculus.models.session import AttentionCall, Session, active, by_module, keep_call
from finite_calculus.models.support import Site

# Prefill and capture round in batches of different shape, in the last digits; another prompt differs
# in the first. Half of the digits of float32 tell the two apart.
_SAME_PROMPT = torch.finfo(torch.float32).eps ** 0.5


@contextmanager
def installed_edits(
    sites: tuple[Site, ...], capture: Capture, edits: Sequence[Edit]
) -> Iterator[None]:
    """Keep edits, of one or several layers, installed for a block that calls `model.generate`."""
    wrong = [type(edit).__name__ for edit in edits if isinstance(edit, QueryEdit)]
    if wrong:
        raise ValueError(
            "`edits` must not edit queries: each generated token has its own; got a QueryEdit. "
            "Use execute for a single readout."
        )
    windowed = [edit.layer for edit in edits if capture.layer(edit.layer).window is not None]
    if windowed:
        raise ValueError(
            f"`edits` must be at layers that keep the whole prompt; layer {windowed[0]} has a "
            f"sliding window, out of which edited tokens would move. Use execute."
        )
    banks = {
        layer: (
            capture.layer(layer),
            edited_bank(capture.layer(layer), tuple(e for e in edits if e.layer == layer)),
        )
        for layer in sorted({edit.layer for edit in edits})
    }
    with active(Session(by_module(sites), keep_call, _reader(banks))):
        yield


def _reader(banks: Mapping[int, tuple[LayerCapture, LayerBank]]):
    def observe(site: Site, call: AttentionCall, output: Tensor) -> Tensor:
        if site.layer not in banks:
            return output
        layer, bank = banks[site.layer]
        count = layer.keys.shape[1]
        if call.key.shape[2] < count:
            return output
        if call.key.shape[2] == count:
            _check_prompt(layer, call)
        last = writable(_last_query(call))
        for row in range(call.query.shape[0]):
            apply_bank(last, row, layer, bank)
        edited, _ = site.eager(
            site.module, last.query, last.key, last.value, last.mask, **last.options
        )
        return torch.cat([output[:, :-1], edited], 1)

    return observe


def _last_query(call: AttentionCall) -> AttentionCall:
    mask = None if call.mask is None else call.mask[:, :, -1:]
    return AttentionCall(call.query[:, :, -1:], call.key, call.value, mask, call.options)


def _check_prompt(layer: LayerCapture, call: AttentionCall) -> None:
    count = layer.keys.shape[1] - 1
    native = call.key[:, :, :count].cpu()
    apart = float((native - layer.keys[:, :count]).abs().max()) if count else 0.0
    if apart > _SAME_PROMPT * float(layer.keys.abs().max()):
        raise ValueError(
            f"The generated text must continue the captured prompt; its keys differ by {apart:.1e}. "
            f"Pass the same ids, without padding, to model.generate."
        )
