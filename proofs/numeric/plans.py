"""Plans held to what they report: evictions within their budget, restorations by exact benefit."""

import itertools
from collections.abc import Iterator

import flint
import numpy as np
import torch

import finite_calculus as fc
from proofs.numeric import cases
from proofs.numeric.cases import Batch, Case, Rng
from proofs.numeric.comparison import Pairs, as_lists, tensors, tracked
from proofs.references import restoration as of_cache
from proofs.references.numbers import PROVEN_BITS, arb_precision, distance, prove

_CACHE = ("scores", "values", "original_scores", "original_values")


def budgeted_cache(rng: Rng, dtype: type, count: int) -> Batch:
    """A cache of two heads, with a budget of distortion."""
    batch = cases.corrupted_cache(rng, dtype, count)
    return Batch({**batch.each, "budget": rng.uniform(0.1, 3, count)}, batch.shared)


def evictions_respect_the_budget(batch: Batch) -> Iterator[Pairs]:
    """Each reported distortion is the exact one of the keys evicted so far, and within the budget."""
    errors = _deletion_errors(batch)
    for index in range(len(batch)):
        case = batch.case(index)
        inputs, budget = tensors(case), float(case["budget"])
        readout = fc.freeze(inputs["scores"], inputs["values"])
        groups = torch.eye(readout.keys, dtype=torch.bool)
        plan = fc.select_evictions(readout, groups, inputs["output_projection"], budget)
        pairs: Pairs = [(distortion, budget) for distortion in plan.distortions]
        for last, distortion in enumerate(plan.distortions, 1):
            evicted = frozenset(plan.evicted[:last])
            bound = errors[evicted][index]
            remaining = np.array([key not in evicted for key in range(readout.keys)])
            exact, _ = prove(
                of_cache.kept_distortion, as_lists({**case, "kept": remaining}), [bound]
            )
            pairs.append((distance(distortion, exact[0]), bound))
        yield pairs


def _deletion_errors(batch: Batch) -> dict[frozenset[int], list[float]]:
    """For every set of deleted keys, bounds on the rounding of ‖Σ_h Δy_h W_o‖ in each case."""
    inputs = tracked(batch.joined())
    readout = fc.freeze(inputs["scores"], inputs["values"])
    every = range(readout.keys)
    sets = [frozenset(s) for size in every[1:] for s in itertools.combinations(every, size)]
    removed = torch.tensor([[key in members for key in every] for members in sets])
    response = fc.deletion_response(readout, removed).movedim(-3, -2)
    write = fc.project(response, inputs["output_projection"])
    errors = fc.error_of(torch.linalg.vector_norm(write, dim=-1)).unbind(-1)
    return dict(zip(sets, (each.tolist() for each in errors), strict=True))


def greedy_restoration_takes_the_best(batch: Batch) -> Iterator[Pairs]:
    """Each greedy step takes the largest exact benefit and reports the exact error that is left.

    Up to the rounding of the two scores compared, and of the error itself.
    """
    inputs = tensors(batch.joined())
    cache = fc.CachePair(*[inputs[name] for name in _CACHE])
    # With every entry restored there is nothing left to choose.
    steps = min(2, cache.scores.shape[-1] - 1)
    plan = fc.restore_greedily(cache, inputs["output_projection"], steps)
    pairs: list[Pairs] = [[] for _ in range(len(batch))]
    for step in range(steps):
        scores, _ = _benefit_errors(batch)
        for index, restored in enumerate(plan.restored.tolist()):
            exact, _ = prove(of_cache.exact, as_lists(batch.case(index)), scores[index])
            choice, bounds = restored[step], scores[index]
            others = [key for key in range(len(exact)) if key not in restored[:step]]
            pairs[index] += [
                (_excess(exact[key], exact[choice]), bounds[key] + bounds[choice]) for key in others
            ]
        batch = _with_restored(batch, plan.restored[:, step].numpy())
        _, lengths = _benefit_errors(batch)
        for index, (error, bound) in enumerate(
            zip(plan.errors[:, step + 1].tolist(), lengths, strict=True)
        ):
            pairs[index].append((distance(error, _write_error(batch.case(index), bound)), bound))
    yield from pairs


def _write_error(case: Case, bound: float) -> flint.arb:
    """‖o − o_original‖; exactly zero, which no ball can be proven to be, where nothing is corrupted."""
    if all(np.array_equal(case[name], case[f"original_{name}"]) for name in ("scores", "values")):
        return flint.arb(0)
    (exact,), _ = prove(of_cache.write_error, as_lists(case), [bound])
    return exact


def _benefit_errors(batch: Batch) -> tuple[list[list[float]], list[float]]:
    """Bounds on the rounding of the exact benefits and of ‖e‖, for every case."""
    inputs = tracked(batch.joined())
    cache = fc.CachePair(*[inputs[name] for name in _CACHE])
    benefits = fc.restoration_scores(cache, inputs["output_projection"], "exact")
    norms = torch.linalg.vector_norm(cache.write_error(inputs["output_projection"]), dim=-1)
    return fc.error_of(benefits).tolist(), fc.error_of(norms).tolist()


def _with_restored(batch: Batch, keys: np.ndarray) -> Batch:
    """The batch after each case's chosen entry was restored."""
    here = (np.arange(batch.each["scores"].shape[-1]) == keys[:, None])[:, None, :]
    scores = np.where(here, batch.each["original_scores"], batch.each["scores"])
    values = np.where(here[..., None], batch.each["original_values"], batch.each["values"])
    return Batch({**batch.each, "scores": scores, "values": values}, batch.shared)


def _excess(x: flint.arb, y: flint.arb) -> float:
    """x − y where it is positive."""
    with arb_precision(16 * PROVEN_BITS):
        return max(0.0, float((x - y).mid()))
