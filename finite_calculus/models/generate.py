"""An edit kept installed while text is generated.

From the last prompt token onwards every query reads the edited bank, in one pass over a longer text too:
key and value columns of the prompt are replaced, biases and deletions are added to the mask. Queries of
earlier prompt tokens are left alone, as in single-readout execution, so that the first generated token is
that of `execute`. A text that does not begin with the captured prompt is refused. The rows of a batch may
have edits of their own, each with its own cache.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from torch import Tensor

from finite_calculus.models.capture import Capture
from finite_calculus.models.edits import Edit, QueryEdit, edited_bank
from finite_calculus.models.execute import attend_edited
from finite_calculus.models.layer import LayerBank, LayerCapture
from finite_calculus.models.precision import widened
from finite_calculus.models.session import AttentionCall, Session, active, by_module, keep_call
from finite_calculus.models.support import Site

Banks = Mapping[int, tuple[LayerCapture, LayerBank]]


@contextmanager
def installed_edits(
    sites: tuple[Site, ...], capture: Capture, edits: Sequence[Edit]
) -> Iterator[None]:
    """Keep edits, of one or several layers, installed for a block that calls `model.generate`."""
    banks = _banks(capture, edits)
    with active(Session(by_module(sites), keep_call, _reader(lambda rows: [banks] * rows))):
        yield


@contextmanager
def installed_rows(
    sites: tuple[Site, ...], capture: Capture, rows: Sequence[Sequence[Edit]]
) -> Iterator[None]:
    """The same with edits of its own for each row of the batch; an empty sequence leaves a row as it is."""
    banks = [_banks(capture, edits) for edits in rows]

    def of_batch(count: int) -> Sequence[Banks]:
        if count != len(banks):
            raise ValueError(
                f"The batch must have one row for each of `rows`, {len(banks)}; it has {count}."
            )
        return banks

    with active(Session(by_module(sites), keep_call, _reader(of_batch))):
        yield


def _banks(capture: Capture, edits: Sequence[Edit]) -> Banks:
    """The edited bank of every layer that the edits touch."""
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
    return {
        layer: (
            capture.layer(layer),
            edited_bank(capture.layer(layer), tuple(e for e in edits if e.layer == layer)),
        )
        for layer in sorted({edit.layer for edit in edits})
    }


def _reader(banks_of: Callable[[int], Sequence[Banks]]):
    lengths: dict[int, int] = {}

    def observe(site: Site, call: AttentionCall, output: Tensor) -> Tensor:
        banks = banks_of(call.query.shape[0])
        rows = [row for row, own in enumerate(banks) if site.layer in own]
        if not rows:
            return output
        layer = banks[rows[0]][site.layer][0]
        queries, keys = call.query.shape[2], call.key.shape[2]
        # One more key and one query go on with the text that was compared before.
        if queries > 1 or keys != lengths.get(site.layer, 0) + 1:
            lowest = min(min(own) for own in banks if own)
            _check_prompt(layer, call, lowest=site.layer == lowest)
        lengths[site.layer] = keys
        readers = min(queries, keys - layer.keys.shape[1] + 1)
        if readers < 1:
            return output
        edited = {place: banks[row][site.layer] for place, row in enumerate(rows)}
        changed = output.clone()
        changed[rows, -readers:] = attend_edited(site, _last_queries(call, rows, readers), edited)
        return changed

    return observe


def _last_queries(call: AttentionCall, rows: Sequence[int], count: int) -> AttentionCall:
    """The last queries of some rows, which alone read an edited bank."""
    mask = call.mask
    if mask is not None:
        mask = mask[:, :, -count:]
        mask = mask if mask.shape[0] == 1 else mask[rows]
    own = {name: getattr(call, name)[rows] for name in ("key", "value")}
    return replace(call, query=call.query[rows, :, -count:], mask=mask, **own)


def _check_prompt(layer: LayerCapture, call: AttentionCall, *, lowest: bool) -> None:
    """Require that a text begins as the captured prompt, whose last token an edit below may have moved."""
    count = min(layer.keys.shape[1] - (not lowest), call.key.shape[2])
    native = widened(call.key[:, :, :count].cpu())
    apart = float((native - layer.keys[:, :count]).abs().max()) if count else 0.0
    if not apart <= layer.key_tolerance:
        raise ValueError(
            f"Text that is run or generated must continue the captured prompt; its keys differ by "
            f"{apart:.1e}. Pass the same ids first, without padding, or leave the block."
        )
