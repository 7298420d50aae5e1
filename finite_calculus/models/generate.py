"""An edit kept installed while text is generated.

From the last prompt token onwards every query reads the edited bank, in one pass over a longer text too:
key and value columns of the prompt are replaced, biases and deletions are added to the mask. Queries of
earlier prompt tokens are left alone, as in single-readout execution, so that the first generated token is
that of `execute`. A text that does not begin with the captured prompt is refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from finite_calculus.models.capture import Capture
from finite_calculus.models.edits import Edit, QueryEdit, edited_bank
from finite_calculus.models.execute import attend_edited
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
    lengths: dict[int, int] = {}

    def observe(site: Site, call: AttentionCall, output: Tensor) -> Tensor:
        if site.layer not in banks:
            return output
        layer, bank = banks[site.layer]
        queries, keys = call.query.shape[2], call.key.shape[2]
        # One more key and one query go on with the text that was compared before.
        if queries > 1 or keys != lengths.get(site.layer, 0) + 1:
            _check_prompt(layer, call, lowest=site.layer == min(banks))
        lengths[site.layer] = keys
        readers = min(queries, keys - layer.keys.shape[1] + 1)
        if readers < 1:
            return output
        rows = dict.fromkeys(range(call.query.shape[0]), (layer, bank))
        edited = attend_edited(site, _last_queries(call, readers), rows)
        return torch.cat([output[:, :-readers], edited], 1)

    return observe


def _last_queries(call: AttentionCall, count: int) -> AttentionCall:
    mask = None if call.mask is None else call.mask[:, :, -count:]
    return AttentionCall(call.query[:, :, -count:], call.key, call.value, mask, call.options)


def _check_prompt(layer: LayerCapture, call: AttentionCall, *, lowest: bool) -> None:
    """Require that a text begins as the captured prompt, whose last token an edit below may have moved."""
    count = min(layer.keys.shape[1] - (not lowest), call.key.shape[2])
    native = call.key[:, :, :count].cpu()
    apart = float((native - layer.keys[:, :count]).abs().max()) if count else 0.0
    if not apart <= _SAME_PROMPT * float(layer.keys.abs().max()):
        raise ValueError(
            f"Text that is run or generated must continue the captured prompt; its keys differ by "
            f"{apart:.1e}. Pass the same ids first, without padding, or leave the block."
        )
