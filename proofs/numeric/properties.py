"""What functions promise where there is no reference to subtract: truths, ranges and optima.

A property draws a batch and yields pairs (actual, allowed) for every case of it. Certificates are held
to Arb in `truths`, plans over a cache in `plans`. Where a linear solver stands in between, the
allowance is the backward error of a stable singular value decomposition, 2·(rows + columns)·eps·σ_max.
"""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import torch

import finite_calculus as fc
from proofs.numeric import cases, head_cases, plans, regimes, truths
from proofs.numeric.cases import Batch, Case
from proofs.numeric.comparison import Pairs, Property, as_lists, tensors, tracked
from proofs.numeric.regimes import Rng
from proofs.references import effective as of_affine
from proofs.references.numbers import distance, prove

_STABLE = 2


def _each(check: Callable[[Case], Pairs]) -> Callable[[Batch], Iterator[Pairs]]:
    """A check of one case, for every case of a batch."""
    return lambda batch: (check(batch.case(index)) for index in range(len(batch)))


def _codes(rng: Rng, dtype: type, count: int) -> Batch:
    """Vectors of every size, from the smallest numbers to the largest, for two to eight bits."""
    info = np.finfo(dtype)
    vector = regimes.vectors(rng, (count, 6))
    largest = np.abs(vector).max(1, keepdims=True)
    lowest, highest = np.log10(float(info.smallest_subnormal)), np.log10(float(info.max))
    ordinary = 10.0 ** rng.uniform(-30, 30, (count, 1))
    size = np.where(
        rng.random((count, 1)) < 0.5, ordinary, 10.0 ** rng.uniform(lowest, highest, (count, 1))
    )
    shape = vector / np.where(largest == 0, 1.0, largest)
    vector = np.where(rng.random((count, 1)) < 0.2, info.max, size) * shape
    return Batch({"vector": vector.astype(dtype), "bits": rng.integers(2, 9, count)})


def quantised_codes_are_in_range(case: Case) -> Pairs:
    """Codes within ±(2^{b−1} − 1), |x − Q(x)| ≤ a/2 up to rounding, zero stays zero."""
    vector, bits = case["vector"], int(case["bits"])
    levels = 2 ** (bits - 1) - 1
    quantised = fc.quantise(torch.from_numpy(vector), bits).numpy()
    largest = Fraction(float(np.abs(vector).max()))
    if largest == 0:
        return [(float(np.abs(quantised).max()), 0.0)]
    scale, unit = largest / levels, Fraction(float(np.finfo(vector.dtype).eps)) / 2
    smallest = Fraction(float(np.finfo(vector.dtype).smallest_subnormal))
    pairs: Pairs = []
    for x, q in zip(vector.tolist(), quantised.tolist(), strict=True):
        code = round(max(abs(Fraction(q)) - smallest / 2, Fraction(0)) / scale)
        pairs.append((float(code), float(levels)))
        # Rounding of the scale, of the quotient and of the product, each one unit of the largest code,
        # and of the result to the grid of the smallest numbers.
        allowed = scale / 2 + 4 * unit * levels * scale + smallest / 2
        pairs.append((float(abs(Fraction(x) - Fraction(q)) / scale), float(allowed / scale)))
    return pairs


def _features(rng: Rng, dtype: type, count: int) -> Batch:
    keys, model = int(rng.integers(2, 5)), int(rng.integers(4, 9))
    return Batch({"features": rng.normal(size=(count, keys, model + 1)).astype(dtype)})


def preserving_directions_preserve(case: Case) -> Pairs:
    """Moving the query along the kernel changes no relative score beyond the singular value tolerance."""
    features = tensors(case)["features"]
    keys, model = features.shape[0], features.shape[1] - 1
    directions = fc.preserving_directions(features)
    rows = fc.relative_features(features, 0).double()
    largest = float(directions.singular_values.max())
    images = torch.matmul(rows, directions.basis.double())
    relative = _STABLE * (keys + model) * torch.finfo(features.dtype).eps
    orthonormal = torch.matmul(directions.basis.mT, directions.basis).double() - torch.eye(
        directions.basis.shape[1]
    )
    drift = float(orthonormal.abs().max()) if directions.basis.shape[1] else 0.0
    return [
        (float(images.abs().max()) if images.numel() else 0.0, relative * largest),
        (drift, relative),
        (float(abs(directions.basis.shape[1] + directions.rank - model)), 0.5),
        (float(abs(directions.rank - min(keys - 1, model))), 0.5),
    ]


def _requests(rng: Rng, dtype: type, count: int) -> Batch:
    keys, model = int(rng.integers(3, 6)), int(rng.integers(5, 9))
    each = {
        "features": rng.normal(size=(count, keys, model + 1)),
        "query": rng.normal(size=(count, model)),
        "wanted": rng.normal(size=(count, 2)),
    }
    return Batch(regimes.rounded(each, dtype), {"pairs": np.array([[0, 1], [1, 2]])})


def requested_ratios_are_achieved(case: Case) -> Pairs:
    """A feasible request is met within the stated accuracy, by the smallest edit."""
    inputs = tensors(case)
    features, pairs, requested = inputs["features"], inputs["pairs"], inputs["wanted"]
    start = fc.augment(inputs["query"])
    answer = fc.control_query(start, features, pairs, requested)
    edited = start.double() + torch.cat([answer.edit.double(), torch.zeros(1, dtype=torch.float64)])
    exact = torch.log_softmax(features.double() @ edited, -1)
    ratios = exact[pairs[:, 0]] - exact[pairs[:, 1]]
    rows = (features[pairs[:, 0]] - features[pairs[:, 1]])[:, :-1].double()
    # lstsq of a singular system reads pivots that nobody set, and is wrong once in a thousand.
    smallest = torch.linalg.pinv(rows) @ (rows @ answer.edit.double())
    relative = _STABLE * (sum(features.shape) - 1) * torch.finfo(features.dtype).eps
    slack = relative * float(torch.linalg.cond(rows)) ** 2
    excess = float(answer.edit.double().norm()) / max(float(smallest.norm()), math.ulp(0.0)) - 1
    return [
        (float((ratios - requested.double()).abs().max()), answer.accuracy),
        (0.0 if answer.feasible else 1.0, 0.5),
        (max(excess, 0.0), slack),
    ]


def _impossible_requests(rng: Rng, dtype: type, count: int) -> Batch:
    features = rng.normal(size=(count, 3, 5))
    features[:, 2, :-1] = features[:, 0, :-1]
    return Batch(
        regimes.rounded({"features": features, "query": rng.normal(size=(count, 4))}, dtype)
    )


def infeasible_requests_say_so(case: Case) -> Pairs:
    """Features that cannot meet a request: `feasible` is False and the residual is the true one."""
    inputs, pair = tensors(case), torch.tensor([[0, 2]])
    features, start = inputs["features"], fc.augment(inputs["query"])
    current = fc.log_ratios(start, features, pair)
    answer = fc.control_query(start, features, pair, current + 1)
    return [
        (1.0 if answer.feasible else 0.0, 0.5),
        (float((answer.residual - 1).abs().max()), answer.accuracy),
    ]


def _planes(rng: Rng, dtype: type, count: int) -> Batch:
    planes = int(rng.integers(3, 70))
    frequencies = 10.0 ** rng.uniform(-6, 0, (count, planes))
    return Batch(
        {"frequencies": frequencies.astype(dtype), "first": rng.integers(0, planes, count)}
    )


def bands_partition_the_planes(case: Case) -> Pairs:
    """Bands are disjoint, cover all planes, have their sizes, and descend in frequency."""
    frequencies, first = torch.from_numpy(case["frequencies"]), int(case["first"])
    planes = len(frequencies)
    sizes = (first, 1, planes - first - 1)
    bands = fc.frequency_bands(fc.Rotary(frequencies, 2 * planes), sizes)
    cover = torch.stack(bands).sum(0)
    wrong = int((cover != 1).sum())
    wrong += sum(int(band.sum()) != size for band, size in zip(bands, sizes, strict=True))
    lowest = math.inf
    for band in bands:
        inside = frequencies[band]
        if len(inside):
            wrong += float(inside.max()) > lowest
            lowest = float(inside.min())
    return [(float(wrong), 0.5)]


def anchor_bound_holds(batch: Batch) -> Iterator[Pairs]:
    """‖e‖₂, from the definition in Arb, is not above the bound as computed, with nothing added."""
    inputs = tensors(batch.joined())
    frozen = (inputs["features"], inputs["values"])
    here = fc.effective_weights(inputs["query_input"], *frozen, mask=inputs["mask"])
    there = fc.effective_weights(inputs["anchor_input"], *frozen, mask=inputs["mask"])
    bounds = fc.anchor_bound(here, there).tolist()
    for index, bound in enumerate(bounds):
        exact, _ = prove(of_affine.anchor_error, as_lists(batch.case(index)))
        yield [(math.hypot(*[distance(0.0, ball) for ball in exact]), bound)]


def _ranks(rng: Rng, dtype: type, count: int) -> Batch:
    batch, ranks = head_cases.affine(rng, dtype, count), rng.integers(1, 4, count)
    left = rng.normal(size=(count, 7, 3)) * (np.arange(3) < ranks[:, None, None])
    products = left @ rng.normal(size=(count, 3, 6))
    return Batch({**batch.each, "products": products, "known": ranks}, batch.shared)


def rank_is_bounded(batch: Batch) -> Iterator[Pairs]:
    """rank ΔM ≤ min(N − 1, r, m + 1), and a product of rank k has numerical rank k.

    Of the computed ΔM as many singular values may exceed its own rounding (Weyl) and that of the
    decomposition. Where that is as large as ΔM, its numerical rank means nothing.
    """
    inputs = tracked(batch.joined())
    features, values = inputs["features"], inputs["values"]
    matrix = fc.effective_weights(inputs["query_input"], features, values).matrix
    limit = min(values.shape[-2] - 1, values.shape[-1], features.shape[-1])
    entries, errors = fc.value_of(matrix), fc.error_of(matrix)
    largest = torch.linalg.svdvals(entries)[..., 0].double()
    relative = _STABLE * sum(entries.shape[-2:]) * torch.finfo(entries.dtype).eps
    rounding = torch.linalg.matrix_norm(errors) + relative * largest
    products, _ = fc.numerical_rank(fc.value_of(inputs["products"]))
    for index, (size, bound) in enumerate(zip(largest.tolist(), rounding.tolist(), strict=True)):
        rank = 0
        if bound < size:
            rank = int(fc.numerical_rank(entries[index], tolerance=bound / size)[0])
        off = abs(int(products[index]) - int(batch.each["known"][index]))
        yield [(float(rank), limit + 0.5), (float(off), 0.5)]


def gradient_step_is_the_matrix(batch: Batch) -> Iterator[Pairs]:
    """−∇E(0) by automatic differentiation equals ΔM up to the rounding of its sums."""
    inputs = tensors(batch.joined())
    weights = fc.effective_weights(inputs["query_input"], inputs["features"], inputs["values"])
    weighed = weights.coefficients.unsqueeze(-1) * weights.centred.abs()
    terms = (weights.features.abs().mT @ weighed).double()
    gap = (fc.unit_gradient_step(weights) - weights.matrix).double().abs()
    relative = 2 * (weights.features.shape[-2] + 2) * torch.finfo(weights.matrix.dtype).eps
    for gaps, bounds in zip(
        gap.flatten(1).tolist(), (relative * terms).flatten(1).tolist(), strict=True
    ):
        yield list(zip(gaps, bounds, strict=True))


PROPERTIES: dict[str, Property] = {
    check.function: check
    for check in (
        Property("certify", truths.certificate_is_true, cases.bank),
        Property("Certificate.jacobian", truths.jacobian_certificate_is_true, cases.bank),
        Property("Certificate.divergence", truths.upper_values_are_upper, cases.bank),
        Property("Certificate.over_heads", truths.heads_add_up, truths.heads),
        Property("certified_signs", truths.certified_signs_are_true, truths.sweeps),
        Property("certified_order", truths.certified_pairs_are_true, truths.sweeps),
        Property("quantise", _each(quantised_codes_are_in_range), _codes),
        Property("preserving_directions", _each(preserving_directions_preserve), _features),
        Property("control_query", _each(requested_ratios_are_achieved), _requests),
        Property("QueryControl.feasible", _each(infeasible_requests_say_so), _impossible_requests),
        Property("frequency_bands", _each(bands_partition_the_planes), _planes),
        Property("anchor_bound", anchor_bound_holds, head_cases.affine),
        Property("numerical_rank", rank_is_bounded, _ranks),
        Property("select_evictions", plans.evictions_respect_the_budget, plans.budgeted_cache),
        Property(
            "restore_greedily", plans.greedy_restoration_takes_the_best, cases.corrupted_cache
        ),
        Property("unit_gradient_step", gradient_step_is_the_matrix, head_cases.affine),
    )
}
