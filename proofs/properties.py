"""What functions promise where there is no reference to subtract: truths, ranges and optima.

Each check draws one case and returns pairs (actual, allowed). Where the promise is about exact
quantities, such as a certificate's, these are computed in Arb from the definition. Where a linear
solver stands in between, the allowance is the backward error of a stable singular value
decomposition, a small multiple of (rows + columns)·eps·σ_max.
"""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import flint
import numpy as np
import torch

import finite_calculus as fc
from proofs import cases
from proofs.comparison import Property, plain, tensors
from proofs.references import bank as of_bank
from proofs.references.numbers import PROVEN_BITS, arb_precision, distance, prove

Pairs = list[tuple[float, float]]
Certified = tuple[cases.Batch, fc.Certificate]
_STABLE = 8


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


def anchor_bound_holds(rng: np.random.Generator, dtype: type) -> Pairs:
    """‖Σ residual‖ ≤ ‖u‖‖ΔM − ΔM_anchor‖ as computed, beyond the rounding of the residual itself."""
    given = tensors(_one(cases.affine, rng, dtype))
    frozen = (given["features"], given["values"])
    here = fc.effective_weights(given["query_input"], *frozen, mask=given["mask"])
    there = fc.effective_weights(given["anchor_input"], *frozen, mask=given["mask"])
    residual = fc.anchor_residual(here, there).double()
    rounding = float(np.finfo(dtype).eps) * _STABLE * residual.shape[0]
    scale = float(residual.abs().sum()) + float(here.matrix.abs().sum() + there.matrix.abs().sum())
    norm = float(residual.sum(-2).norm())
    return [(norm, float(fc.anchor_bound(here, there)) + rounding * scale)]


def rank_is_bounded(rng: np.random.Generator, dtype: type) -> Pairs:
    """rank ΔM ≤ min(N − 1, r, m + 1), and a product of rank k has numerical rank k."""
    given = tensors(_one(cases.affine, rng, dtype))
    found = fc.effective_weights(given["query_input"], given["features"], given["values"])
    rank, _ = fc.numerical_rank(found.matrix)
    keys, width = given["values"].shape
    limit = min(keys - 1, width, given["features"].shape[1])
    known = int(rng.integers(1, 4))
    left, right = rng.normal(size=(7, known)), rng.normal(size=(known, 6))
    product, _ = fc.numerical_rank(torch.from_numpy((left @ right).astype(np.float64)))
    # Rounding in v − μ can leave a matrix of pure rounding error, whose numerical rank means nothing.
    tiny = float(found.matrix.abs().max()) <= float(np.finfo(dtype).eps) * float(
        given["values"].abs().max() * given["features"].abs().max()
    )
    return [(0.0 if tiny else float(rank), limit + 0.5), (float(abs(int(product) - known)), 0.5)]


def _heads(rng: np.random.Generator, dtype: type) -> tuple[torch.Tensor, ...]:
    heads, keys, width, model = 2, int(rng.integers(4, 8)), 3, 4
    shapes = [(heads, keys), (heads, keys, width), (heads, width, model)]
    return tuple(torch.from_numpy(rng.normal(size=shape).astype(dtype)) for shape in shapes)


def _norm(write: torch.Tensor) -> tuple[float, float]:
    """The norm of a tracked write and the bound on its error."""
    norm = torch.linalg.vector_norm(write)
    return float(fc.value_of(norm)), float(fc.error_of(norm))


def evictions_respect_the_budget(rng: np.random.Generator, dtype: type) -> Pairs:
    """Each reported distortion is that of masking the evicted keys and recomputing, within budget."""
    scores, values, projection = _heads(rng, dtype)
    groups = torch.eye(scores.shape[1], dtype=torch.bool)
    budget = float(rng.uniform(0.1, 3))
    plan = fc.select_evictions(fc.freeze(scores, values), groups, projection, budget)
    tracked = fc.track(scores), fc.track(values)
    whole = fc.freeze(*tracked)
    pairs: Pairs = [(distortion, budget) for distortion in plan.distortions]
    for step, distortion in enumerate(plan.distortions):
        gone = groups[list(plan.evicted[: step + 1])].any(0)
        recomputed = fc.freeze(*tracked, mask=~gone).output - whole.output
        norm, error = _norm(fc.project(recomputed, fc.track(projection)))
        sparse = fc.deletion_response(whole, gone.unsqueeze(0)).squeeze(-2)
        _, own = _norm(fc.project(sparse, fc.track(projection)))
        pairs.append((abs(norm - distortion), error + own))
    return pairs


def greedy_restoration_takes_the_best(rng: np.random.Generator, dtype: type) -> Pairs:
    """Each greedy step restores an entry whose recomputed error is smallest, up to both roundings."""
    scores, values, projection = _heads(rng, dtype)
    cache = fc.CachePair(scores, values, scores + values[..., 0] / 4, values * 1.25)
    found = fc.restore_greedily(cache, projection, 2)
    pairs: Pairs = []
    for step, chosen in enumerate(found.restored):
        left = [key for key in range(scores.shape[1]) if key not in found.restored[:step]]
        recomputed = {key: _dense_error(cache.restore(key), projection) for key in left}
        norm, error = recomputed[chosen]
        pairs += [(norm - other, 2 * (error + slack)) for other, slack in recomputed.values()]
        pairs.append((abs(found.errors[step + 1] - norm), 2 * error))
        cache = cache.restore(chosen)
    return pairs


def _dense_error(cache: fc.CachePair, projection: torch.Tensor) -> tuple[float, float]:
    """‖o − o_original‖ by recomputing both writes, with its error bound."""
    current = fc.freeze(fc.track(cache.scores), fc.track(cache.values)).output
    original = fc.freeze(fc.track(cache.original_scores), fc.track(cache.original_values)).output
    return _norm(fc.project(current - original, fc.track(projection)))


def gradient_step_is_the_matrix(rng: np.random.Generator, dtype: type) -> Pairs:
    """−∇E(0) by automatic differentiation equals ΔM up to the rounding of its sums."""
    given = tensors(_one(cases.affine, rng, dtype))
    found = fc.effective_weights(given["query_input"], given["features"], given["values"])
    terms = (
        found.features.abs().mT @ (found.coefficients.unsqueeze(-1) * found.centred.abs())
    ).double()
    gap = (fc.unit_gradient_step(found) - found.matrix).double().abs()
    allowed = 2 * (found.features.shape[0] + 2) * float(np.finfo(dtype).eps) * terms
    return list(zip(gap.flatten().tolist(), allowed.flatten().tolist(), strict=True))


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
        Property("anchor_bound", _each(anchor_bound_holds)),
        Property("numerical_rank", _each(rank_is_bounded)),
        Property("select_evictions", _each(evictions_respect_the_budget)),
        Property("restore_greedily", _each(greedy_restoration_takes_the_best)),
        Property("unit_gradient_step", _each(gradient_step_is_the_matrix)),
    )
}
