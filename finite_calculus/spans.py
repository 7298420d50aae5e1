"""Contiguous spans of keys as candidate groups: Section 4 and Appendix D (main:sparse).

Nothing here grows as candidates × keys. The baseline is read once; spans with at most half of the mass
need only their own keys, and what a heavier span leaves is summed from blocks of √N keys: the whole
blocks outside the span, and the outer parts of the two blocks in which it begins and ends.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finite_calculus import _checks
from finite_calculus._complement import Outside, Total, chunk, joined, normalised
from finite_calculus.readout import Readout, freeze, relative_scores
from finite_calculus.rounding import value_of
from finite_calculus.sparse import (
    PreparedGroups,
    Source,
    gather,
    gather_vectors,
    gathered,
    with_rest,
)


def prepare_spans(
    scores: Float[Tensor, "*batch keys"],
    values: Float[Tensor, "*values keys width"],
    starts: Int[Tensor, " candidates"],
    width: int,
    *,
    mask: Bool[Tensor, "*mask keys"] | None = None,
) -> PreparedGroups:
    """Prepare the spans starts[c], …, starts[c] + width − 1 for exact sparse edits (Section 4).

    The same as `prepare(freeze(scores, values, mask=mask), groups)` for these groups of keys, without
    the statistics of single keys that a readout holds. Values may be contracted with a gradient
    beforehand, which leaves them a width of 1.
    """
    _checks.last_axes("scores", scores, (None,), "(..., keys)")
    _check_spans(starts, width, scores.shape[-1])
    starts = starts.long()
    index = starts.unsqueeze(-1) + torch.arange(width, device=starts.device)
    source = Source(lambda: freeze(scores, values, mask=mask), index, _outside_spans(starts, width))
    if mask is not None or not _plain(scores, values):
        return gathered(source.readout(), source, "starts")
    return _read_once(scores, values, source)


def _outside_spans(starts: Int[Tensor, " candidates"], width: int) -> Outside:
    """Complements of spans of keys, from blocks of √N keys."""

    def outside(readout: Readout, some: Tensor) -> Total:
        blocks = _cut(readout)
        few = starts.index_select(0, some).split(blocks.chunk)
        return joined([_left_by(blocks, part, width) for part in few])

    return outside


@dataclass(frozen=True, eq=False)
class _Blocks:
    """A bank padded to a whole number of blocks, and each block as one key."""

    length: int
    scores: Tensor
    offsets: Tensor
    attended: Tensor
    total: Total

    @property
    def chunk(self) -> int:
        """How many spans to treat at once."""
        rows = self.total.present[..., 0].numel()
        return chunk(rows * self.length * (3 + 2 * self.offsets.shape[-1]))


def _cut(readout: Readout) -> _Blocks:
    length = math.isqrt(readout.keys - 1) + 1
    count = -(-readout.keys // length)
    spare = count * length - readout.keys
    scores = _extended(relative_scores(readout), spare, -1)
    attended = _extended(readout.attended, spare, -1)
    offsets = _extended(readout.offsets, spare, -2)
    shape = (*readout.batch, count, length)
    vectors = offsets.reshape(*shape, offsets.shape[-1])
    total = _summed(scores.reshape(shape), vectors, attended.reshape(shape))
    return _Blocks(length, scores, offsets, attended, total)


def _left_by(blocks: _Blocks, starts: Tensor, width: int) -> Total:
    """What each span leaves: whole blocks, and parts of those where it begins and ends."""
    starts = starts.unsqueeze(-1)
    first, last = starts // blocks.length, (starts + width - 1) // blocks.length
    number = torch.arange(blocks.total.present.shape[-1], device=starts.device)
    whole = _summed(
        blocks.total.log_mass.unsqueeze(-2),
        blocks.total.mean.unsqueeze(-3),
        blocks.total.present.unsqueeze(-2) & ((number < first) | (number > last)),
    )
    inner = torch.arange(blocks.length, device=starts.device)
    before, after = first * blocks.length + inner, last * blocks.length + inner
    index = torch.cat([before, after], -1)
    outer = torch.cat([before < starts, after >= starts + width], -1)
    parts = _summed(
        gather(blocks.scores, index),
        gather_vectors(blocks.offsets, index),
        gather(blocks.attended, index) & outer,
    )
    return _summed(
        torch.stack([whole.log_mass, parts.log_mass], -1),
        torch.stack([whole.mean, parts.mean], -2),
        torch.stack([whole.present, parts.present], -1),
    )


def _summed(scores: Tensor, vectors: Tensor, included: Tensor) -> Total:
    """The included keys of the last axis as one key."""
    weights, log_mass, present = normalised(scores, included)
    mean = torch.matmul(weights.unsqueeze(-2), vectors).squeeze(-2)
    return Total(log_mass, mean, present)


def _extended(per_key: Tensor, spare: int, axis: int) -> Tensor:
    shape = list(per_key.shape)
    shape[axis] = spare
    padding = torch.zeros(shape, dtype=per_key.dtype, device=per_key.device)
    return torch.cat([per_key, padding], axis)


def _read_once(scores: Tensor, values: Tensor, source: Source) -> PreparedGroups:
    """Prepare spans of a bank that is attended throughout, reading it once.

    Values are measured from the dominant key, as in `Readout`. Small banks are bound by the number
    of operations, so the gathered keys stay one axis until everything is known of them.
    """
    flat, shape = source.index.flatten(), (*scores.shape[:-1], *source.index.shape)
    probs = torch.softmax(scores, -1)
    dominant = scores.argmax(-1, keepdim=True).unsqueeze(-1)
    pivot = torch.gather(values, -2, dominant.expand(*dominant.shape[:-1], values.shape[-1]))
    mean = (probs.unsqueeze(-1) * (values - pivot)).sum(-2, keepdim=True)
    inside, vectors = probs.index_select(-1, flat), values.index_select(-2, flat)
    pulls = inside.unsqueeze(-1) * ((vectors - pivot) - mean)
    inside = inside.reshape(shape)
    prepared = PreparedGroups(
        scores=scores.index_select(-1, flat).reshape(shape),
        values=vectors.reshape(*shape, -1),
        probs=inside,
        pulls=pulls.reshape(*shape, -1),
        rest=1 - inside.sum(-1, keepdim=True),
        heavy=None,
        direct=True,
        source=source,
    )
    return with_rest(prepared)


def _plain(scores: Tensor, values: Tensor) -> bool:
    """Whether the bank can be read as it is; otherwise `freeze` broadcasts it or says what is wrong."""
    if scores.shape != values.shape[:-1] or scores.dtype != values.dtype or not scores.numel():
        return False
    if scores.dtype not in (torch.float32, torch.float64):
        return False
    return all(math.isfinite(value_of(part).detach().sum()) for part in (scores, values))


def _check_spans(starts: Tensor, width: int, keys: int) -> None:
    if not 1 <= width <= keys:
        raise ValueError(
            f"`width` must lie in 1..{keys}, the number of keys; got {width}. "
            f"Prepare spans of different widths one width at a time."
        )
    _checks.exact_axes("starts", starts, (None,), "(candidates,)")
    if starts.numel() == 0:
        raise ValueError(
            "`starts` must hold at least one span; got none. List the first key of each span."
        )
    _checks.key_indices("starts", starts, keys - width + 1)
