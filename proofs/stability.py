"""Whether a computation keeps the digits that its inputs determine: its error beside the problem's own.

A running error analysis excuses a formula that cancels, since its bound grows with its error. Here the
error is held against the problem instead: to one rounding of the result, and to what moving the inputs
by at most one rounding each does to the exact result, which no algorithm can undercut by much. What an
error lies above that is lost, in bits; a form that loses half of the digits is not stable.
"""

import math

import numpy as np

from proofs.cases import Batch
from proofs.comparison import DTYPES, Comparison, plain
from proofs.references.numbers import arb_precision, prove

# Inputs are moved by this much, so that the reference's own error is nothing beside the effect, and
# the effect is scaled down to one rounding.
_MOVE = 2.0**-30
_DRAWS = 3
_DIFFERENCE_BITS = 4096


def allowed_bits(dtype: str) -> float:
    """Half of the digits of a precision."""
    return -math.log2(np.finfo(DTYPES[dtype]).eps) / 2


def lost_bits(check: Comparison, dtype: str, seed: int, count: int) -> list[float]:
    """For every case drawn, log2 of its largest error over what is unavoidable; nothing lost is 0 or less.

    A case whose result is zero and stays zero, as when it is clamped, has no digits to lose.
    """
    batch, info = check.batch(dtype, seed, count), np.finfo(DTYPES[dtype])
    rng = np.random.default_rng((seed, 1))
    moved = [_moved(batch, info.dtype, rng) for _ in range(_DRAWS)]
    lost = []
    for index, sample in enumerate(check.measure(batch)):
        effect = max(_effect(check, batch, other, index) for other in moved)
        if sample.scale == effect == 0:
            continue
        unavoidable = float(info.eps) / 2 * (sample.scale + effect / _MOVE)
        floor = float(info.smallest_normal)
        lost.append(math.log2(max(sample.errors) + floor) - math.log2(unavoidable + floor))
    return lost


def _moved(batch: Batch, dtype: np.dtype, rng: np.random.Generator) -> Batch:
    """The batch with every number of the dtype moved up or down; what is kept wider counts as exact."""

    def move(item):
        if not isinstance(item, np.ndarray) or item.dtype != dtype:
            return item
        return item.astype(np.float64) * (1 + _MOVE * rng.uniform(-1, 1, item.shape))

    parts = (batch.each, batch.shared)
    return Batch(*[{name: move(item) for name, item in part.items()} for part in parts])


def _effect(check: Comparison, batch: Batch, moved: Batch, index: int) -> float:
    """The largest change of the exact result."""
    here, there = (prove(check.reference, plain(of.case(index)))[0] for of in (batch, moved))
    with arb_precision(_DIFFERENCE_BITS):
        changes = [abs(float((b - a).mid())) for a, b in zip(here, there, strict=True)]
    return max(changes, default=0.0)
