"""Whether a computation keeps the digits that its inputs determine: its error beside the problem's own.

A running error analysis excuses a formula that cancels, since its bound grows with its error. Here the
error of every entry is held against the problem instead: to one rounding of the entry, and to what
moving the inputs by at most one rounding each does to its exact value, which no algorithm can undercut
by much. What an error lies above that is lost, in bits; a form that loses half of the digits is not stable.

Effective weights are formed and read by way of numbers that are stored, hence rounded, and that in a
poor gauge are far larger than the result: there their rounding cannot be avoided either.
"""

import math
from dataclasses import dataclass

import numpy as np
from flint import arb

from proofs.numeric.cases import Batch
from proofs.numeric.comparison import DTYPES, CasePlace, ReferenceComparison, as_lists
from proofs.references import effective
from proofs.references.numbers import arb_precision, prove

# Cases that are drawn at once: few, so that a small sample has many shapes.
BATCH = 4
# Inputs are moved by this much, so that the reference's own error is nothing beside the effect, and
# the effect is scaled down to one rounding.
_MOVE = 2.0**-30
_DRAWS = 3
_DIFFERENCE_BITS = 4096
# For every entry, the size of the rounded terms that it is formed from by its definition.
_TERMS = {
    "effective_weights": effective.matrix_terms,
    "EffectiveWeights.output": effective.output_terms,
    "residual_write": effective.residual_terms,
    "anchor_residual": effective.anchor_terms,
}


@dataclass
class Stability:
    """The most bits that a case has lost so far, at the case `worst`; two samples of one check merge."""

    allowed: float
    cases: int = 0
    bits: float = 0.0
    worst: CasePlace | None = None

    @property
    def holds(self) -> bool:
        """Whether every case kept its digits."""
        return self.bits < self.allowed

    def add(self, bits: float, place: CasePlace) -> None:
        """Count one case."""
        self.cases += 1
        if not bits <= self.bits:
            self.bits, self.worst = bits, place

    def merge(self, other: "Stability") -> None:
        """Count the cases of another sample too."""
        self.cases += other.cases
        if not other.bits <= self.bits:
            self.bits, self.worst = other.bits, other.worst


def allowed_bits(dtype: str) -> float:
    """Half of the digits of a precision."""
    return -math.log2(np.finfo(DTYPES[dtype]).eps) / 2


def sample(check: ReferenceComparison, dtype: str, cases: int, *, seed: int = 0) -> Stability:
    """Measure cases of a check, in batches with a seed each."""
    stability = Stability(allowed_bits(dtype))
    for number, start in enumerate(range(0, cases, BATCH)):
        here, count = seed + number, min(BATCH, cases - start)
        losses = lost_bits(check, dtype, check.batch(dtype, here, count), seed=here)
        for index, bits in enumerate(losses):
            stability.add(bits, CasePlace(here, count, index))
    return stability


def lost_bits(check: ReferenceComparison, dtype: str, batch: Batch, *, seed: int) -> list[float]:
    """For every case, the most bits that an entry of its result has lost; 0 or less if none has."""
    info = np.finfo(DTYPES[dtype])
    rng = np.random.default_rng((seed, 1))
    neighbours = [_moved(batch, info.dtype, rng) for _ in range(_DRAWS)]
    losses = []
    for index, measurement in enumerate(check.measure(batch)):
        exact, *others = (_exact(check, inputs, index) for inputs in (batch, *neighbours))
        terms = _terms(check.function, batch, index, len(exact))
        entries = zip(measurement.errors, terms, exact, *others, strict=True)
        losses.append(max((_lost(*entry, info=info) for entry in entries), default=0.0))
    return losses


def _lost(error: float, terms: float, exact: arb, *moved: arb, info: np.finfo) -> float:
    """log2 of the error of an entry over what is unavoidable.

    An entry that is zero and stays zero, as when it is clamped, has no digits to lose.
    """
    with arb_precision(_DIFFERENCE_BITS):
        effect = max(abs(float((other - exact).mid())) for other in moved)
    scale = abs(float(exact.mid()))
    if scale == effect == 0:
        return 0.0
    unavoidable = float(info.eps) / 2 * (scale + effect / _MOVE + terms)
    floor = float(info.smallest_normal)
    return math.log2(error + floor) - math.log2(unavoidable + floor)


def _moved(batch: Batch, dtype: np.dtype, rng: np.random.Generator) -> Batch:
    """The batch with every number of the dtype moved up or down; what is kept wider counts as exact."""

    def move(item):
        if not isinstance(item, np.ndarray) or item.dtype != dtype:
            return item
        return item.astype(np.float64) * (1 + _MOVE * rng.uniform(-1, 1, item.shape))

    parts = (batch.each, batch.shared)
    return Batch(*[{name: move(item) for name, item in part.items()} for part in parts])


def _exact(check: ReferenceComparison, batch: Batch, index: int) -> list[arb]:
    return prove(check.reference, as_lists(batch.case(index)))[0]


def _terms(name: str, batch: Batch, index: int, entries: int) -> list[float]:
    """The size of the rounded terms of every entry, if a result is formed from such."""
    if name not in _TERMS:
        return [0.0] * entries
    return [float(size.mid()) for size in prove(_TERMS[name], as_lists(batch.case(index)))[0]]
