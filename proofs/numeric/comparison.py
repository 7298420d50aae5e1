"""Checks of a torch function, case by case, each against a bound that is derived and never chosen.

A `ReferenceComparison` holds a function against its reference: the computation runs on tracked tensors, so
that its own running error analysis says how far it may be off, and the reference is proven in Arb
balls. A `Property` holds a function to what it promises where there is no reference to subtract:
certificates are true, codes are in range, ratios are achieved. Both draw their cases in batches. A
case is a violation when an actual error exceeds its bound.
"""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from finite_calculus.rounding import error_of, track, value_of
from proofs.numeric.cases import Batch, Case, Draw
from proofs.references.numbers import agree, distance, prove, second_opinion

DTYPES = {"float64": np.float64, "float32": np.float32}
BATCH = 256
_BINS = 16
# Bounds beyond this many times the error are counted as such: bins must not grow with the cases.
_LOOSEST = 64 * _BINS
# Every so many batches the arrays lie in memory with gaps.
_GAPS = 4

Pairs = list[tuple[float, float]]


# mpmath evaluates one reference in so many again: with one in four the two would share an audit's time.
SECOND_OPINION = 16


@dataclass(frozen=True)
class Sample:
    """One case: actual errors beside their bounds, the largest exact entry, Arb's precision."""

    errors: list[float]
    bounds: list[float]
    scale: float = 0.0
    bits: int = 0

    @property
    def over_bound(self) -> float:
        """The largest error divided by its bound; above 1 is a violation, and so is NaN."""
        ratios = [_over(e, b) for e, b in zip(self.errors, self.bounds, strict=True)]
        return math.nan if any(map(math.isnan, ratios)) else max(ratios, default=0.0)


class _BatchedCheck(ABC):
    """A check whose cases are drawn in batches."""

    draw: Draw

    def batch(self, dtype: str, seed: int, count: int) -> Batch:
        """The cases of a seed; every fourth seed's lie in memory with gaps."""
        cases = self.draw(np.random.default_rng(seed), DTYPES[dtype], count)
        return cases if seed % _GAPS else cases.with_gaps()

    def samples(self, dtype: str, seed: int, count: int) -> Iterator[Sample]:
        """Draw a batch and measure every case of it."""
        return self.measure(self.batch(dtype, seed, count))

    @abstractmethod
    def measure(self, batch: Batch) -> Iterator[Sample]:
        """Measure every case of a batch."""


@dataclass(frozen=True)
class ReferenceComparison(_BatchedCheck):
    """A torch function, how to call it on a case, its reference and where its inputs come from.

    With `batched` the call takes a whole batch, cases first; otherwise one case at a time.
    """

    function: str
    compute: Callable[[Case], Any]
    reference: Callable[..., Any]
    draw: Draw
    batched: bool = True

    def measure(self, batch: Batch) -> Iterator[Sample]:
        """Compute a batch and measure every case against its proven reference.

        mpmath evaluates the reference of every sixteenth case again, as a second opinion.
        """
        for index, (values, bounds) in enumerate(self.computed(batch)):
            case = as_lists(batch.case(index))
            exact, bits = prove(self.reference, case, bounds)
            repeated = index % SECOND_OPINION == 0
            if repeated and not agree(exact, second_opinion(self.reference, case, bits)):
                raise ArithmeticError(f"mpmath and Arb disagree on {self.function} for {case}")
            errors = [distance(value, ball) for value, ball in zip(values, exact, strict=True)]
            scale = max((abs(float(ball.mid())) for ball in exact), default=0.0)
            yield Sample(errors, bounds, scale, bits)

    def computed(self, batch: Batch) -> Iterator[tuple[list[float], list[float]]]:
        """Values and error bounds of every case, flat."""
        if not self.batched:
            for index in range(len(batch)):
                leaves = leaves_of(self.compute(tracked(batch.case(index))))
                yield _flat(leaves, value_of), _flat(leaves, error_of)
            return
        leaves = [
            x.reshape(len(batch), -1) for x in leaves_of(self.compute(tracked(batch.joined())))
        ]
        values = torch.cat([value_of(leaf).double() for leaf in leaves], 1).tolist()
        bounds = torch.cat([error_of(leaf) for leaf in leaves], 1).tolist()
        yield from zip(values, bounds, strict=True)


@dataclass(frozen=True)
class Property(_BatchedCheck):
    """A torch function and a check that yields pairs (actual, allowed) for every case of a batch."""

    function: str
    check: Callable[[Batch], Iterable[Pairs]]
    draw: Draw

    def measure(self, batch: Batch) -> Iterator[Sample]:
        """Hold every case to its promises."""
        for pairs in self.check(batch):
            yield Sample([actual for actual, _ in pairs], [allowed for _, allowed in pairs])


Check = ReferenceComparison | Property


@dataclass(frozen=True)
class CasePlace:
    """Where a case is: the batch that `seed` and `count` draw, and its index in it."""

    seed: int
    count: int
    index: int


@dataclass
class Tally:
    """What a run of cases showed so far; two tallies of one function merge.

    `worst_over_bound` is the largest actual error divided by its bound, at the case `worst`; `slack`
    counts bound over actual in bins of a sixteenth of an octave, up to 2^64, where the actual error
    is not zero;
    `worst_relative` is the largest error relative to the largest entry of the result, where that is a
    normal number with room for its last bits; `reference_bits` is the largest precision Arb needed.
    """

    function: str
    dtype: str
    cases: int = 0
    violations: int = 0
    worst_over_bound: float = 0.0
    worst: CasePlace | None = None
    worst_relative: float = 0.0
    reference_bits: int = 0
    slack: Counter[int] = field(default_factory=Counter)

    def add(self, sample: Sample, place: CasePlace) -> None:
        """Count one case."""
        over = sample.over_bound
        self.cases += 1
        self.violations += not over <= 1
        if not over <= self.worst_over_bound:
            self.worst_over_bound, self.worst = over, place
        for error, bound in zip(sample.errors, sample.bounds, strict=True):
            if 0 < error < math.inf and 0 < bound < math.inf:
                bin_ = round(_BINS * (math.log2(bound) - math.log2(error)))
                self.slack[min(bin_, _LOOSEST)] += 1
        if sample.scale >= _normal(self.dtype):
            self.worst_relative = max(self.worst_relative, max(sample.errors) / sample.scale)
        self.reference_bits = max(self.reference_bits, sample.bits)

    def merge(self, other: "Tally") -> None:
        """Count the cases of another tally of the same function too."""
        self.cases += other.cases
        self.violations += other.violations
        if not other.worst_over_bound <= self.worst_over_bound:
            self.worst_over_bound, self.worst = other.worst_over_bound, other.worst
        self.worst_relative = max(self.worst_relative, other.worst_relative)
        self.reference_bits = max(self.reference_bits, other.reference_bits)
        self.slack.update(other.slack)

    def slack_quantile(self, fraction: float) -> float:
        """Bound over actual at a quantile, to the width of a bin; infinite if no case had an error."""
        target, cases_below = fraction * self.slack.total(), 0
        for bin_, count in sorted(self.slack.items()):
            cases_below += count
            if cases_below >= target:
                return 2.0 ** (bin_ / _BINS)
        return math.inf


def run(check: Check, dtype: str, cases: int, *, seed: int = 0) -> Tally:
    """Check one function on `cases` cases, in batches that share their shapes."""
    tally = Tally(check.function, dtype)
    size = batch_size(cases)
    for number, start in enumerate(range(0, cases, size)):
        count = min(size, cases - start)
        for index, sample in enumerate(check.samples(dtype, seed + number, count)):
            tally.add(sample, CasePlace(seed + number, count, index))
    return tally


def batch_size(cases: int) -> int:
    """Cases per batch: small runs still see several shapes."""
    return min(BATCH, max(1, cases // 8))


def tracked(case: Case) -> Case:
    """The case for torch: floating arrays tracked as exact, masks and indices plain."""
    return {name: _tensor(item, track) for name, item in case.items()}


def tensors(case: Case) -> Case:
    """The case for torch as plain tensors."""
    return {name: _tensor(item, lambda tensor: tensor) for name, item in case.items()}


def as_lists(case: Case) -> Case:
    """The case for a reference: nested lists of Python numbers, the floats exact."""
    return {
        name: item.tolist() if isinstance(item, np.ndarray | np.generic) else item
        for name, item in case.items()
    }


def _tensor(item: Any, wrap: Callable[[Tensor], Tensor]) -> Any:
    if not isinstance(item, np.ndarray):
        return item
    tensor = torch.from_numpy(item)
    return wrap(tensor) if tensor.is_floating_point() else tensor


def _flat(leaves: list[Tensor], part: Callable[[Tensor], Tensor]) -> list[float]:
    return [x for leaf in leaves for x in part(leaf).double().flatten().tolist()]


def leaves_of(result: Any) -> list[Tensor]:
    """The tensors of a result: of lists, dicts and dataclasses in their order."""
    if isinstance(result, Tensor):
        return [result]
    if isinstance(result, dict):
        return [leaf for item in result.values() for leaf in leaves_of(item)]
    if isinstance(result, list | tuple):
        return [leaf for item in result for leaf in leaves_of(item)]
    return [
        leaf for name in result.__dataclass_fields__ for leaf in leaves_of(getattr(result, name))
    ]


def _normal(dtype: str) -> float:
    info = np.finfo(DTYPES[dtype])
    return float(info.smallest_normal) / float(info.eps)


def _over(error: float, bound: float) -> float:
    if not math.isfinite(bound):
        return math.nan  # a bound that says nothing
    if error <= 0:
        return 0.0
    return error / bound if bound > 0 else math.inf
