"""What functions promise where there is no reference to subtract: truths, ranges and optima.

Each check draws one case and returns pairs (actual, allowed). Where the promise is about exact
quantities, such as a certificate's, these are computed in Arb from the definition. Where a linear
solver stands in between, the allowance is the backward error of a stable singular value
decomposition, 2·(rows + columns)·eps·σ_max.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import flint
import numpy as np
import torch

import finite_calculus as fc
from proofs import cases
from proofs.comparison import Property, plain, tensors, tracked
from proofs.references import bank as of_bank, restoration as of_cache
from proofs.references.numbers import PROVEN_BITS, arb_precision, distance, prove

Pairs = list[tuple[float, float]]
Certified = tuple[cases.Batch, fc.Certificate]
_STABLE = 2
_CACHE = ("scores", "values", "original_scores", "original_values")


def _each(check: Callable[[np.random.Generator, type], Pairs]) -> Callable[..., Iterator[Pairs]]:
    """A check of one case, repeated over a batch."""

    def repeated(rng: np.random.Generator, dtype: type, count: int) -> Iterator[Pairs]:
        return (
            check(np.random.default_rng(child), dtype)
            for child in rng.integers(1 << 62, size=count)
        )

    return repeated


def _one(draw: cases.Draw, rng: np.random.Generator, dtype: type) -> cases.Case:
    return draw(rng, dtype, 1).case(0)


def _exact(reference, case: cases.Case) -> float:
    balls, _ = prove(reference, plain(case))
    return float(balls[0].mid())


def _certified(rng: np.random.Generator, dtype: type, count: int, *, remainder: bool) -> Certified:
    """Certificates of a batch of edits, with their cases."""
    batch = cases.bank(rng, dtype, count)
    given = tensors(batch.joined())
    readout = fc.freeze(given["scores"], given["values"], mask=given["mask"])
    extra = {"score_remainder": given["linear_delta"]} if remainder else {}
    found = fc.certify(
        readout, given["score_delta"], given["value_delta"], given["gradient"], **extra
    )
    return batch, found


def _score_errors(batch: cases.Batch, found: fc.Certificate) -> Iterator[Pairs]:
    first, bound = found.first_order.tolist(), found.bound.tolist()
    for index in range(len(batch)):
        (exact,), _ = prove(of_bank.exact_score, plain(batch.case(index)), [bound[index]])
        yield [(distance(first[index], exact), bound[index])]


def certificate_is_true(rng: np.random.Generator, dtype: type, count: int) -> Iterator[Pairs]:
    """|S − Ŝ| ≤ B for the first-order score."""
    return _score_errors(*_certified(rng, dtype, count, remainder=False))


def jacobian_certificate_is_true(
    rng: np.random.Generator, dtype: type, count: int
) -> Iterator[Pairs]:
    """|S − Ŝ| ≤ B for the positional Jacobian's score, the rotary remainder included."""
    return _score_errors(*_certified(rng, dtype, count, remainder=True))


def upper_values_are_upper(rng: np.random.Generator, dtype: type, count: int) -> Iterator[Pairs]:
    """KL and TV as certificates report them are not below the exact ones."""
    batch, found = _certified(rng, dtype, count, remainder=False)
    kl, tv = found.divergence.tolist(), found.total_variation.tolist()
    for index in range(len(batch)):
        case = plain(batch.case(index))
        (exact_kl,), _ = prove(of_bank.divergence, case)
        (exact_tv,), _ = prove(of_bank.total_variation, case)
        yield [(distance(0.0, exact_kl), kl[index]), (distance(0.0, exact_tv), tv[index])]


def certified_claims_are_true(rng: np.random.Generator, dtype: type, count: int) -> Iterator[Pairs]:
    """Every certified sign and every certified pair of a strength sweep agrees with Arb."""
    batch = cases.full_bank(rng, dtype, count)
    given = tensors(batch.joined())
    readout = fc.freeze(given["scores"], given["values"])
    strengths = torch.tensor([0.0, 1e-6, 1e-3, 0.1, 1.0], dtype=given["scores"].dtype)
    score_delta = strengths[:, None, None] * given["score_delta"]
    value_delta = strengths[:, None, None, None] * given["value_delta"]
    swept = fc.certify(readout, score_delta, value_delta, given["gradient"])
    found = fc.Certificate(*[part.mT for part in _parts(swept)])
    signs, greater = fc.certified_signs(found).tolist(), fc.certified_order(found).greater.tolist()
    for index in range(count):
        edits = zip(score_delta[:, index].numpy(), value_delta[:, index].numpy(), strict=True)
        case = batch.case(index)
        exact = [
            _exact(of_bank.exact_score, {**case, "score_delta": d, "value_delta": e})
            for d, e in edits
        ]
        wrong = sum(s != 0 and s != np.sign(x) for s, x in zip(signs[index], exact, strict=True))
        order = range(len(exact))
        wrong += sum(greater[index][a][b] and not exact[a] > exact[b] for a in order for b in order)
        yield [(float(wrong), 0.5)]


def heads_add_up(rng: np.random.Generator, dtype: type, count: int) -> Iterator[Pairs]:
    """The certificate summed over three heads bounds the summed exact score."""
    heads = 3
    batch, found = _certified(rng, dtype, heads * count, remainder=False)
    summed = fc.Certificate(*[part.reshape(count, heads) for part in _parts(found)]).over_heads()
    first, bound = summed.first_order.tolist(), summed.bound.tolist()
    for index in range(count):
        exact = flint.arb(0)
        with arb_precision(16 * PROVEN_BITS):
            for head in range(heads):
                case = plain(batch.case(heads * index + head))
                (score,), _ = prove(of_bank.exact_score, case, [bound[index]])
                exact += score
        yield [(distance(first[index], exact), bound[index])]


def _parts(found: fc.Certificate) -> list[torch.Tensor]:
    return [getattr(found, name) for name in fc.Certificate.__dataclass_fields__]


def quantised_codes_are_in_range(rng: np.random.Generator, dtype: type) -> Pairs:
    """Codes within ±(2^{b−1} − 1), |x − Q(x)| ≤ a/2 up to rounding, zero stays zero."""
    vector = cases.vectors(rng, (1, 6))[0].astype(dtype) * dtype(10.0 ** rng.uniform(-30, 30))
    bits = int(rng.integers(2, 9))
    levels = 2 ** (bits - 1) - 1
    quantised = fc.quantise(torch.from_numpy(vector), bits).numpy()
    largest = Fraction(float(np.abs(vector).max()))
    if largest == 0:
        return [(float(np.abs(quantised).max()), 0.0)]
    scale, unit = largest / levels, Fraction(float(np.finfo(dtype).eps)) / 2
    pairs: Pairs = []
    for x, q in zip(vector.tolist(), quantised.tolist(), strict=True):
        code = round(Fraction(q) / scale)
        pairs.append((float(abs(code)), float(levels)))
        # Rounding of the scale, of the quotient and of the product, each one unit of the largest code.
        allowed = scale / 2 + 4 * unit * levels * scale
        pairs.append((float(abs(Fraction(x) - Fraction(q)) / scale), float(allowed / scale)))
    return pairs


def preserving_directions_preserve(rng: np.random.Generator, dtype: type) -> Pairs:
    """Moving the query along the kernel changes no relative score beyond the singular value tolerance."""
    keys, model = int(rng.integers(2, 5)), int(rng.integers(4, 9))
    features = torch.from_numpy(rng.normal(size=(keys, model + 1)).astype(dtype))
    found = fc.preserving_directions(features)
    rows = fc.relative_features(features, 0).double()
    largest = float(found.singular_values.max())
    moved = torch.matmul(rows, found.basis.double())
    allowed = _STABLE * (keys + model) * float(np.finfo(dtype).eps) * largest
    orthonormal = torch.matmul(found.basis.mT, found.basis).double() - torch.eye(
        found.basis.shape[1]
    )
    drift = float(orthonormal.abs().max()) if found.basis.shape[1] else 0.0
    return [
        (float(moved.abs().max()) if moved.numel() else 0.0, allowed),
        (drift, _STABLE * (keys + model) * float(np.finfo(dtype).eps)),
        (float(abs(found.basis.shape[1] + found.rank - model)), 0.5),
        (float(abs(found.rank - min(keys - 1, model))), 0.5),
    ]


def requested_ratios_are_achieved(rng: np.random.Generator, dtype: type) -> Pairs:
    """A feasible request is met within the stated accuracy, by the smallest edit."""
    keys, model = int(rng.integers(3, 6)), int(rng.integers(5, 9))
    features = torch.from_numpy(rng.normal(size=(keys, model + 1)).astype(dtype))
    start = fc.augment(torch.from_numpy(rng.normal(size=model).astype(dtype)))
    pairs = torch.tensor([[0, 1], [1, 2]])
    wanted = torch.from_numpy(rng.normal(size=2).astype(dtype))
    found = fc.control_query(start, features, pairs, wanted)
    edited = start.double() + torch.cat([found.edit.double(), torch.zeros(1, dtype=torch.float64)])
    exact = torch.log_softmax(features.double() @ edited, -1)
    reached = exact[pairs[:, 0]] - exact[pairs[:, 1]]
    rows = (features[pairs[:, 0]] - features[pairs[:, 1]])[:, :-1].double()
    smallest = torch.linalg.lstsq(rows.mT @ rows, rows.mT @ (rows @ found.edit.double())).solution
    condition = float(torch.linalg.cond(rows))
    slack = _STABLE * (keys + model) * float(np.finfo(dtype).eps) * condition**2
    excess = float(found.edit.double().norm()) / max(float(smallest.norm()), math.ulp(0.0)) - 1
    return [
        (float((reached - wanted.double()).abs().max()), found.accuracy),
        (0.0 if found.feasible else 1.0, 0.5),
        (max(excess, 0.0), slack),
    ]


def infeasible_requests_say_so(rng: np.random.Generator, dtype: type) -> Pairs:
    """Features that cannot meet a request: `feasible` is False and the residual is the true one."""
    features = torch.from_numpy(rng.normal(size=(3, 5)).astype(dtype))
    features[2, :-1] = features[0, :-1]
    start = fc.augment(torch.from_numpy(rng.normal(size=4).astype(dtype)))
    current = fc.log_ratios(start, features, torch.tensor([[0, 2]]))
    found = fc.control_query(start, features, torch.tensor([[0, 2]]), current + 1)
    return [
        (1.0 if found.feasible else 0.0, 0.5),
        (float((found.residual - 1).abs().max()), found.accuracy),
    ]


def bands_partition_the_planes(rng: np.random.Generator, dtype: type) -> Pairs:
    """Bands are disjoint, cover all planes, have their sizes, and descend in frequency."""
    planes = int(rng.integers(3, 70))
    frequencies = torch.from_numpy(
        rng.permutation(10.0 ** rng.uniform(-6, 0, planes)).astype(dtype)
    )
    first = int(rng.integers(0, planes))
    sizes = (first, 1, planes - first - 1)
    bands = fc.frequency_bands(fc.Rotary(frequencies, 2 * planes), sizes)
    cover = torch.stack(bands).sum(0)
    wrong = int((cover != 1).sum())
    wrong += sum(int(band.sum()) != size for band, size in zip(bands, sizes, strict=True))
    lowest = math.inf
    for band in bands:
        chosen = frequencies[band]
        if len(chosen):
            wrong += float(chosen.max()) > lowest
            lowest = float(chosen.min())
    return [(float(wrong), 0.5)]


def anchor_bound_holds(rng: np.random.Generator, dtype: type, count: int) -> Iterator[Pairs]:
    """‖Σ residual‖ ≤ ‖u‖‖ΔM − ΔM_anchor‖ as computed, beyond the rounding of the residual itself."""
    given = tensors(cases.affine(rng, dtype, count).joined())
    frozen = (given["features"], given["values"])
    here = fc.effective_weights(given["query_input"], *frozen, mask=given["mask"])
    there = fc.effective_weights(given["anchor_input"], *frozen, mask=given["mask"])
    residual = fc.anchor_residual(here, there).double()
    rounding = float(np.finfo(dtype).eps) * _STABLE * residual.shape[-2]
    parts = (residual, here.matrix.double(), there.matrix.double())
    scale = sum(part.abs().sum((-1, -2)) for part in parts)
    norms = torch.linalg.vector_norm(residual.sum(-2), dim=-1)
    allowed = fc.anchor_bound(here, there).double() + rounding * scale
    yield from ([pair] for pair in zip(norms.tolist(), allowed.tolist(), strict=True))


def rank_is_bounded(rng: np.random.Generator, dtype: type, count: int) -> Iterator[Pairs]:
    """rank ΔM ≤ min(N − 1, r, m + 1), and a product of rank k has numerical rank k.

    Of the computed ΔM as many singular values may exceed its own rounding (Weyl) and that of the
    decomposition. Where that is as large as ΔM, its numerical rank means nothing.
    """
    given = tracked(cases.affine(rng, dtype, count).joined())
    features, values = given["features"], given["values"]
    matrix = fc.effective_weights(given["query_input"], features, values).matrix
    limit = min(values.shape[-2] - 1, values.shape[-1], features.shape[-1])
    found, errors = fc.value_of(matrix), fc.error_of(matrix)
    largest = torch.linalg.svdvals(found)[..., 0].double()
    relative = _STABLE * sum(found.shape[-2:]) * float(np.finfo(dtype).eps)
    rounding = torch.linalg.matrix_norm(errors) + relative * largest
    known = rng.integers(1, 4, count)
    left = rng.normal(size=(count, 7, 3)) * (np.arange(3) < known[:, None, None])
    products, _ = fc.numerical_rank(torch.from_numpy(left @ rng.normal(size=(count, 3, 6))))
    for index, (size, bound) in enumerate(zip(largest.tolist(), rounding.tolist(), strict=True)):
        rank = 0
        if bound < size:
            rank = int(fc.numerical_rank(found[index], tolerance=bound / size)[0])
        off = abs(int(products[index]) - int(known[index]))
        yield [(float(rank), limit + 0.5), (float(off), 0.5)]


def evictions_respect_the_budget(
    rng: np.random.Generator, dtype: type, count: int
) -> Iterator[Pairs]:
    """Each reported distortion is the exact one of the keys evicted so far, and within the budget."""
    batch = cases.corrupted_cache(rng, dtype, count)
    budgets = rng.uniform(0.1, 3, count).tolist()
    errors = _deletion_errors(batch)
    for index, budget in enumerate(budgets):
        case = batch.case(index)
        given = tensors(case)
        readout = fc.freeze(given["scores"], given["values"])
        groups = torch.eye(readout.keys, dtype=torch.bool)
        plan = fc.select_evictions(readout, groups, given["output_projection"], budget)
        pairs: Pairs = [(distortion, budget) for distortion in plan.distortions]
        for last, distortion in enumerate(plan.distortions, 1):
            gone = frozenset(plan.evicted[:last])
            bound = errors[gone][index]
            kept = np.array([key not in gone for key in range(readout.keys)])
            exact, _ = prove(of_cache.kept_distortion, plain({**case, "kept": kept}), [bound])
            pairs.append((distance(distortion, exact[0]), bound))
        yield pairs


def _deletion_errors(batch: cases.Batch) -> dict[frozenset[int], list[float]]:
    """For every set of deleted keys, bounds on the rounding of ‖Σ_h Δy_h W_o‖ in each case."""
    given = tracked(batch.joined())
    readout = fc.freeze(given["scores"], given["values"])
    every = range(readout.keys)
    sets = [frozenset(s) for size in every[1:] for s in itertools.combinations(every, size)]
    gone = torch.tensor([[key in chosen for key in every] for chosen in sets])
    response = fc.deletion_response(readout, gone).movedim(-3, -2)
    write = fc.project(response, given["output_projection"])
    errors = fc.error_of(torch.linalg.vector_norm(write, dim=-1)).unbind(-1)
    return dict(zip(sets, (each.tolist() for each in errors), strict=True))


def greedy_restoration_takes_the_best(
    rng: np.random.Generator, dtype: type, count: int
) -> Iterator[Pairs]:
    """Each greedy step takes the largest exact benefit and reports the exact error that is left.

    Up to the rounding of the two scores compared, and of the error itself.
    """
    batch = cases.corrupted_cache(rng, dtype, count)
    given = tensors(batch.joined())
    cache = fc.CachePair(*[given[name] for name in _CACHE])
    # With every entry restored the error is exactly zero, which no reference can approach.
    steps = min(2, cache.scores.shape[-1] - 1)
    plan = fc.restore_greedily(cache, given["output_projection"], steps)
    pairs: list[Pairs] = [[] for _ in range(count)]
    for step in range(steps):
        scores, _ = _benefit_errors(batch)
        for index, restored in enumerate(plan.restored.tolist()):
            exact, _ = prove(of_cache.exact, plain(batch.case(index)), scores[index])
            taken, bounds = restored[step], scores[index]
            left = [key for key in range(len(exact)) if key not in restored[:step]]
            pairs[index] += [
                (_excess(exact[key], exact[taken]), bounds[key] + bounds[taken]) for key in left
            ]
        batch = _with_restored(batch, plan.restored[:, step].numpy())
        _, lengths = _benefit_errors(batch)
        for index, (error, bound) in enumerate(
            zip(plan.errors[:, step + 1].tolist(), lengths, strict=True)
        ):
            exact, _ = prove(of_cache.write_error, plain(batch.case(index)), [bound])
            pairs[index].append((distance(error, exact[0]), bound))
    yield from pairs


def _benefit_errors(batch: cases.Batch) -> tuple[list[list[float]], list[float]]:
    """Bounds on the rounding of the exact benefits and of ‖e‖, for every case."""
    given = tracked(batch.joined())
    cache = fc.CachePair(*[given[name] for name in _CACHE])
    benefits = fc.restoration_scores(cache, given["output_projection"], "exact")
    norms = torch.linalg.vector_norm(cache.write_error(given["output_projection"]), dim=-1)
    return fc.error_of(benefits).tolist(), fc.error_of(norms).tolist()


def _with_restored(batch: cases.Batch, chosen: np.ndarray) -> cases.Batch:
    """The batch after each case's chosen entry was restored."""
    here = (np.arange(batch.each["scores"].shape[-1]) == chosen[:, None])[:, None, :]
    scores = np.where(here, batch.each["original_scores"], batch.each["scores"])
    values = np.where(here[..., None], batch.each["original_values"], batch.each["values"])
    return cases.Batch({**batch.each, "scores": scores, "values": values}, batch.shared)


def _excess(x: flint.arb, y: flint.arb) -> float:
    """x − y where it is positive."""
    with arb_precision(16 * PROVEN_BITS):
        return max(0.0, float((x - y).mid()))


def gradient_step_is_the_matrix(
    rng: np.random.Generator, dtype: type, count: int
) -> Iterator[Pairs]:
    """−∇E(0) by automatic differentiation equals ΔM up to the rounding of its sums."""
    given = tensors(cases.affine(rng, dtype, count).joined())
    found = fc.effective_weights(given["query_input"], given["features"], given["values"])
    weighed = found.coefficients.unsqueeze(-1) * found.centred.abs()
    terms = (found.features.abs().mT @ weighed).double()
    gap = (fc.unit_gradient_step(found) - found.matrix).double().abs()
    allowed = 2 * (found.features.shape[-2] + 2) * float(np.finfo(dtype).eps) * terms
    for gaps, bounds in zip(gap.flatten(1).tolist(), allowed.flatten(1).tolist(), strict=True):
        yield list(zip(gaps, bounds, strict=True))


PROPERTIES: dict[str, Property] = {
    check.function: check
    for check in (
        Property("certify", certificate_is_true),
        Property("Certificate.jacobian", jacobian_certificate_is_true),
        Property("Certificate.divergence", upper_values_are_upper),
        Property("Certificate.over_heads", heads_add_up),
        Property("certified_signs", certified_claims_are_true),
        Property("certified_order", certified_claims_are_true),
        Property("quantise", _each(quantised_codes_are_in_range)),
        Property("preserving_directions", _each(preserving_directions_preserve)),
        Property("control_query", _each(requested_ratios_are_achieved)),
        Property("QueryControl.feasible", _each(infeasible_requests_say_so)),
        Property("frequency_bands", _each(bands_partition_the_planes)),
        Property("anchor_bound", anchor_bound_holds),
        Property("numerical_rank", rank_is_bounded),
        Property("select_evictions", evictions_respect_the_budget),
        Property("restore_greedily", greedy_restoration_takes_the_best),
        Property("unit_gradient_step", gradient_step_is_the_matrix),
    )
}
