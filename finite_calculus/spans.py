"""Contiguous spans of keys as candidate groups: Section 4 and Appendix D (main:sparse).

Nothing here grows as candidates × keys. The bank is read once; spans with at most half of the mass need
only their own keys, and what a heavier span leaves is summed from blocks of √N keys: the whole
blocks outside the span, and the outer parts of the two blocks in which it begins and ends.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finite_calculus import _checks
from finite_calculus._complement import Total, chunk, joined, normalised
from finite_calculus._once import computed_once
from finite_calculus._transforms import known, number
from finite_calculus._units import product
from finite_calculus.readout import Readout, at_reference, freeze, relative_scores
from finite_calculus.rounding import Tracked
from finite_calculus.sparse import (
    PreparedGroups,
    Source,
    assemble,
    gather,
    gather_vectors,
    numbers_of,
    require_attended,
)


@dataclass(frozen=True, eq=False)
class Bank:
    """A bank of keys, read once for the preparation of any number of spans; build with `read_bank`.

    `probs` is the softmax of the scores, `pivot` the value of the dominant key and `mean` the readout
    measured from it, as in `Readout`. `attended` is None if every key is.
    """

    scores: Float[Tensor, "*batch keys"]
    values: Float[Tensor, "*batch keys width"]
    attended: Bool[Tensor, "*batch keys"] | None
    probs: Float[Tensor, "*batch keys"]
    pivot: Float[Tensor, "*batch 1 width"]
    mean: Float[Tensor, "*batch 1 width"]

    @property
    def output(self) -> Float[Tensor, "*batch width"]:
        """The readout y = Σ p v."""
        return (self.pivot + self.mean).squeeze(-2)

    @property
    def readout(self) -> Readout:
        """The frozen readout, with all its statistics of single keys."""
        return computed_once(self, self._freeze)

    def _freeze(self) -> Readout:
        return freeze(self.scores, self.values, mask=self.attended)

    def _blocks(self) -> "_Blocks":
        return computed_once(self, self._cut)

    def _cut(self) -> "_Blocks":
        return _cut(self.readout)


def read_bank(
    scores: Float[Tensor, "*scores keys"],
    values: Float[Tensor, "*values keys width"],
    *,
    mask: Bool[Tensor, "*mask keys"] | None = None,
) -> Bank:
    """Read a bank of keys once, for `prepare_spans` (eq:attention).

    Arguments are those of `freeze`, and are refused as there. Values may be contracted with a gradient
    beforehand, which leaves them a width of 1.
    """
    if mask is not None or not _simple(scores, values):
        return _from_readout(freeze(scores, values, mask=mask), masked=mask is not None)
    probs = torch.softmax(scores, -1)
    dominant = scores.argmax(-1, keepdim=True).unsqueeze(-1)
    pivot = torch.gather(values, -2, dominant.expand(*dominant.shape[:-1], values.shape[-1]))
    mean = (probs.unsqueeze(-1) * (values - pivot)).sum(-2, keepdim=True)
    return Bank(scores, values, None, probs, pivot, mean)


def prepare_spans(bank: Bank, starts: Int[Tensor, " candidates"], width: int) -> PreparedGroups:
    """Prepare the spans starts[c], …, starts[c] + width − 1 for exact sparse edits (Section 4).

    The same as `prepare` for these groups of keys. Work and memory grow with the members of the spans
    alone: prepare many spans in portions.
    """
    _check_spans(starts, width, bank.scores.shape[-1])
    _checks.one_device(starts=starts, bank=bank.scores)
    starts = starts.long()
    index = starts.unsqueeze(-1) + torch.arange(width, device=starts.device)
    source = Source(
        lambda: bank.readout, index, lambda _, some: _outside(bank, starts[some], width)
    )
    # Few keys are bound by the number of operations, so they stay one axis as long as possible.
    flat, shape = index.flatten(), (*bank.scores.shape[:-1], *index.shape)
    probs, vectors = bank.probs.index_select(-1, flat), bank.values.index_select(-2, flat)
    pulls = probs.unsqueeze(-1) * ((vectors - bank.pivot) - bank.mean)
    inside = None if bank.attended is None else gather(bank.attended, index)
    return assemble(
        bank.scores.index_select(-1, flat).reshape(shape),
        vectors.reshape(*shape, vectors.shape[-1]),
        probs.reshape(shape),
        pulls.reshape(*shape, vectors.shape[-1]),
        require_attended("starts", inside),
        source,
    )


def _outside(bank: Bank, starts: Tensor, width: int) -> Total:
    """What spans leave of the bank, a chunk of spans at a time."""
    blocks = bank._blocks()
    return joined([_left_by(blocks, few, width) for few in starts.split(blocks.chunk)])


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
    mean = product(weights.unsqueeze(-2), vectors).squeeze(-2)
    return Total(log_mass, mean, present)


def _extended(per_key: Tensor, spare: int, axis: int) -> Tensor:
    shape = list(per_key.shape)
    shape[axis] = spare
    padding = torch.zeros(shape, dtype=per_key.dtype, device=per_key.device)
    return torch.cat([per_key, padding], axis)


def _from_readout(readout: Readout, *, masked: bool) -> Bank:
    everything = not masked or known(readout.attended.all())
    return Bank(
        scores=readout.scores,
        values=readout.values,
        attended=None if everything else readout.attended,
        probs=readout.probs,
        pivot=at_reference(readout, readout.values, feature_axes=1),
        mean=readout.mean_offset.unsqueeze(-2),
    )


def _simple(scores: Tensor, values: Tensor) -> bool:
    """Whether the bank can be read as it is; otherwise `freeze` broadcasts it or says what is wrong."""
    if scores.shape != values.shape[:-1] or scores.dtype != values.dtype or not scores.numel():
        return False
    if scores.dtype not in (torch.float32, torch.float64):
        return False
    if isinstance(scores, Tracked) != isinstance(values, Tracked):
        return False
    totals = (number(numbers_of(part).sum()) for part in (scores, values))
    return all(map(math.isfinite, totals))


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
