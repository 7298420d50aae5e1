"""What functions promise where there is no reference to subtract: truths, ranges and optima.

Each check draws one case and returns pairs (actual, allowed). Where the promise is about exact
quantities, such as a certificate's, these are computed in Arb from the definition. Where a linear
solver stands in between, the allowance is the backward error of a stable singular value
decomposition, a small multiple of (rows + columns)·eps·σ_max.
"""

import math
from fractions import Fraction

import flint
import numpy as np
import torch

import finite_calculus as fc
from proofs import cases
from proofs.comparison import Property, plain, tensors
from proofs.references import bank as of_bank
from proofs.references.numbers import prove

Pairs = list[tuple[float, float]]
_STABLE = 8


def _one(draw: cases.Draw, rng: np.random.Generator, dtype: type) -> cases.Case:
    return draw(rng, dtype, 1).case(0)


def _exact(reference, case: cases.Case) -> float:
    balls, _ = prove(reference, plain(case))
    return float(balls[0].mid())


def certificate_is_true(rng: np.random.Generator, dtype: type) -> Pairs:
    """|S − Ŝ| ≤ B, KL ≤ its upper value, TV ≤ its upper value; with and without a rotary remainder."""
    case = _one(cases.bank, rng, dtype)
    given = tensors(case)
    readout = fc.freeze(given["scores"], given["values"], mask=given["mask"])
    edit = (given["score_delta"], given["value_delta"], given["gradient"])
    plain_form = fc.certify(readout, *edit)
    jacobian_form = fc.certify(readout, *edit, score_remainder=given["linear_delta"])
    balls, _ = prove(of_bank.exact_score, plain(case))
    pairs = [
        (float(abs(balls[0] - float(found.first_order)).mid()), float(found.bound))
        for found in (plain_form, jacobian_form)
    ]
    pairs.append((_exact(of_bank.divergence, case), float(plain_form.divergence)))
    pairs.append((_exact(of_bank.total_variation, case), float(plain_form.total_variation)))
    return pairs


def certified_claims_are_true(rng: np.random.Generator, dtype: type) -> Pairs:
    """Every certified sign and every certified pair agrees with the exact scores in Arb."""
    case = _one(cases.full_bank, rng, dtype)
    given = tensors(case)
    readout = fc.freeze(given["scores"], given["values"])
    strengths = [0.0, 1e-6, 1e-3, 0.1, 1.0]
    scale = torch.tensor(strengths, dtype=given["scores"].dtype)
    score_delta = scale[:, None] * given["score_delta"]
    value_delta = scale[:, None, None] * given["value_delta"]
    found = fc.certify(readout, score_delta, value_delta, given["gradient"])
    exact = [
        _exact(of_bank.exact_score, {**case, "score_delta": d.numpy(), "value_delta": e.numpy()})
        for d, e in zip(score_delta, value_delta, strict=True)
    ]
    signs = fc.certified_signs(found).tolist()
    wrong = sum(
        sign != 0 and sign != np.sign(score) for sign, score in zip(signs, exact, strict=True)
    )
    wrong += sum(not exact[a] > exact[b] for a, b in fc.certified_order(found).pairs())
    return [(float(wrong), 0.5)]


def heads_add_up(rng: np.random.Generator, dtype: type) -> Pairs:
    """The certificate summed over heads bounds the summed exact score."""
    heads = [_one(cases.full_bank, rng, dtype) for _ in range(3)]
    found = []
    exact = flint.arb(0)
    for case in heads:
        given = tensors(case)
        readout = fc.freeze(given["scores"], given["values"])
        found.append(
            fc.certify(readout, given["score_delta"], given["value_delta"], given["gradient"])
        )
        balls, _ = prove(of_bank.exact_score, plain(case))
        exact += balls[0]
    stacked = fc.Certificate(
        *[
            torch.stack([getattr(one, name) for one in found])
            for name in fc.Certificate.__dataclass_fields__
        ]
    ).over_heads()
    return [(float(abs(exact - float(stacked.first_order)).mid()), float(stacked.bound))]


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
        Property("certified_signs", certified_claims_are_true),
        Property("certified_order", certified_claims_are_true),
        Property("Certificate.over_heads", heads_add_up),
        Property("quantise", quantised_codes_are_in_range),
        Property("preserving_directions", preserving_directions_preserve),
        Property("control_query", requested_ratios_are_achieved),
        Property("QueryControl.feasible", infeasible_requests_say_so),
        Property("frequency_bands", bands_partition_the_planes),
        Property("anchor_bound", anchor_bound_holds),
        Property("numerical_rank", rank_is_bounded),
        Property("select_evictions", evictions_respect_the_budget),
        Property("restore_greedily", greedy_restoration_takes_the_best),
        Property("unit_gradient_step", gradient_step_is_the_matrix),
    )
}
