"""Comparison of a torch function with its reference, case by case, against a derived bound.

One record per function: the torch computation, the reference, the inputs. The computation runs on
tracked tensors, so that its own running error analysis says how far it may be off; the reference is
proven in Arb balls. A case is a violation when the computed value is farther from the reference than
its bound. Nothing here has a tolerance of its own.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from finite_calculus.rounding import error_of, track, value_of
from proofs.cases import Case, Draw
from proofs.references.numbers import agree, distance, prove, second_opinion

DTYPES = {"float64": np.float64, "float32": np.float32}
_OPINION_EVERY = 8


@dataclass(frozen=True)
class Comparison:
    """A torch function, how to call it on a case, its reference and where its inputs come from."""

    function: str
    compute: Callable[[Case], Any]
    reference: Callable[..., Any]
    draw: Draw


@dataclass(frozen=True)
class Outcome:
    """What a run of cases showed.

    `worst_over_bound` is the largest actual error divided by its bound; `median_slack` the median of
    bound over actual where the actual error is not zero; `worst_relative` the largest error relative
    to the largest entry of the result, where that is a normal number with room for its last bits;
    `worst_seed` replays the worst case.
    """

    function: str
    dtype: str
    cases: int
    violations: int
    worst_over_bound: float
    median_slack: float
    worst_relative: float
    worst_seed: tuple[int, ...]
    reference_bits: int


def run(comparison: Comparison, dtype: str, seeds: Iterable[int]) -> Outcome:
    """Compare one function with its reference on one case per seed."""
    ratios: list[float] = []
    worst, worst_seed, violations, relative, bits = 0.0, (), 0, 0.0, 0
    for count, seed in enumerate(seeds):
        errors, bounds, scale, used = measure(comparison, dtype, seed, opinion=count % _OPINION_EVERY == 0)
        bits = max(bits, used)
        over = max((_over(e, b) for e, b in zip(errors, bounds, strict=True)), default=0.0)
        violations += over > 1
        if over >= worst:
            worst, worst_seed = over, (seed,)
        ratios += [b / e for e, b in zip(errors, bounds, strict=True) if e > 0]
        if scale >= _normal(dtype):
            relative = max(relative, max(errors, default=0.0) / scale)
        ratios.sort()
    median = ratios[len(ratios) // 2] if ratios else math.inf
    cases = len(list(seeds)) if not isinstance(seeds, range) else len(seeds)
    return Outcome(
        comparison.function, dtype, cases, violations, worst, median, relative, worst_seed, bits
    )


def measure(
    comparison: Comparison, dtype: str, seed: int, *, opinion: bool
) -> tuple[list[float], list[float], float, int]:
    """Actual errors, derived bounds, the largest reference entry, and the precision Arb needed."""
    case = comparison.draw(np.random.default_rng(seed), DTYPES[dtype])
    result = _leaves(comparison.compute(tracked(case)))
    values = [x for tensor in result for x in value_of(tensor).double().flatten().tolist()]
    bounds = [x for tensor in result for x in error_of(tensor).flatten().tolist()]
    exact, bits = prove(comparison.reference, plain(case))
    if opinion and not agree(exact, second_opinion(comparison.reference, plain(case), bits)):
        raise ArithmeticError(f"mpmath and Arb disagree on {comparison.function}, seed {seed}, {dtype}")
    if len(values) != len(exact):
        raise ValueError(
            f"{comparison.function} returned {len(values)} numbers, its reference {len(exact)}"
        )
    errors = [distance(value, ball) for value, ball in zip(values, exact, strict=True)]
    scale = max((abs(float(ball.mid())) for ball in exact), default=0.0)
    return errors, bounds, scale, bits


def tracked(case: Case) -> Case:
    """The case for torch: floating arrays tracked as exact, masks and indices plain."""
    return {name: _tensor(item) for name, item in case.items()}


def plain(case: Case) -> Case:
    """The case for a reference: nested lists of Python numbers, the floats exact."""
    return {name: item.tolist() if isinstance(item, np.ndarray) else item for name, item in case.items()}


def _tensor(item: Any) -> Any:
    if not isinstance(item, np.ndarray):
        return item
    tensor = torch.from_numpy(item)
    return track(tensor) if tensor.is_floating_point() else tensor


def _leaves(result: Any) -> list[Tensor]:
    if isinstance(result, Tensor):
        return [result]
    if isinstance(result, dict):
        return [leaf for item in result.values() for leaf in _leaves(item)]
    if isinstance(result, list | tuple):
        return [leaf for item in result for leaf in _leaves(item)]
    return [leaf for name in result.__dataclass_fields__ for leaf in _leaves(getattr(result, name))]


def _normal(dtype: str) -> float:
    info = np.finfo(DTYPES[dtype])
    return float(info.smallest_normal) / float(info.eps)


def _over(error: float, bound: float) -> float:
    if error == 0:
        return 0.0
    return error / bound if bound > 0 else math.inf
