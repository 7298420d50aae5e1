"""Every differentiable function has right derivatives, also where the plain formulas have none.

The regimes are ordinary scores, a dominant key (lead 30), masked keys that hold NaN and infinities,
and zero increments. gradcheck compares with central differences at its own default tolerances.
"""

import math
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import finite_calculus as fc
from tests.helpers.tensors import draw

# gradcheck calls each function hundreds of times; that shapes are right is tested elsewhere.
pytestmark = pytest.mark.usefixtures("unchecked_shapes", "repeated_warnings")

KEYS, WIDTH, MODEL, HEADS = 4, 2, 3, 2
NAN, INF = float("nan"), float("inf")
# The two excluded keys of the masked regime; their scores and values are garbage.
MASK = torch.tensor([True, False, True, False, True, True])
GROUPS = torch.tensor([[0, 2], [3, 1]])
STARTS = torch.tensor([2, 0])
SPANS = STARTS.unsqueeze(-1) + torch.arange(2)
REMOVED = torch.tensor([[True, False, True, False], [False, False, False, True]])


@pytest.fixture
def repeated_warnings() -> Iterator[None]:
    """Torch gives some warnings once per process; here every test has to do without them."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(before)


Regime = tuple[Tensor, Tensor, Tensor, Tensor]


def leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().clone().requires_grad_()


def ordinary() -> Regime:
    """Scores, values, score increments, value increments."""
    return draw(KEYS), draw(KEYS, WIDTH, seed=1), draw(KEYS, seed=2), draw(KEYS, WIDTH, seed=3)


def dominant() -> Regime:
    scores, *rest = ordinary()
    scores[1] = scores.max() + 30
    return scores, *rest


def unmoved() -> Regime:
    scores, values, score_delta, value_delta = ordinary()
    return scores, values, torch.zeros_like(score_delta), torch.zeros_like(value_delta)


def strong() -> Regime:
    """Increments that turn attention over: the branches for large log-ratios."""
    scores, values, _, value_delta = ordinary()
    return scores, values, 6 * draw(KEYS, seed=4), value_delta


REGIMES = {"ordinary": ordinary, "dominant": dominant, "unmoved": unmoved, "strong": strong}

# Each function of (readout, score increments, value increments), one differentiable result.
RESPONSES: dict[str, Callable[[fc.Readout, Tensor, Tensor], Tensor | tuple[Tensor, ...]]] = {
    "output": lambda r, d, e: r.output,
    "centred": lambda r, d, e: r.centred,
    "log_ratio": lambda r, d, e: fc.log_ratio(r, d),
    "log_normaliser": lambda r, d, e: fc.log_normaliser(r, d),
    "probability_change": lambda r, d, e: fc.probability_change(r, d),
    "finite_response of keys": lambda r, d, e: fc.finite_response(r, d),
    "finite_response": fc.finite_response,
    "key_response": lambda r, d, e: fc.key_response(r, d),
    "value_response": lambda r, d, e: fc.value_response(r, e),
    "interaction": fc.interaction,
    "quadratic_interaction": fc.quadratic_interaction,
    "linear_response": lambda r, d, e: fc.linear_response(r, d),
    "softmax_remainder": lambda r, d, e: fc.softmax_remainder(r, d),
    "remainder_weights": lambda r, d, e: fc.remainder_weights(r, d),
    "decompose": lambda r, d, e: tuple(vars(fc.decompose(r, d, e)).values()),
    "divergence": lambda r, d, e: fc.divergence(r, d),
    "positional_jacobian": lambda r, d, e: fc.positional_jacobian(r, d),
    "rotary_remainder": lambda r, d, e: fc.rotary_remainder(r, d),
    "band_interaction": lambda r, d, e: fc.band_interaction(r, d, e.sum(-1)),
    "mixed_second_derivative": lambda r, d, e: fc.mixed_second_derivative(r, d, e.sum(-1)),
}


def spans(readout: fc.Readout) -> fc.PreparedGroups:
    return fc.prepare_spans(fc.read_bank(readout.scores, readout.values), STARTS, 2)


# These need every key attended, or groups of four keys.
GROUPED: dict[str, Callable[[fc.Readout, Tensor, Tensor], Tensor]] = {
    "prepare.response": lambda r, d, e: fc.prepare(r, GROUPS).response(d[GROUPS], e[GROUPS]),
    "prepare.deletion": lambda r, d, e: fc.prepare(r, GROUPS).deletion(),
    "prepare.divergence": lambda r, d, e: fc.prepare(r, GROUPS).divergence(d[GROUPS]),
    "prepare_spans.response": lambda r, d, e: spans(r).response(d[SPANS], e[SPANS]),
    "prepare_spans.deletion": lambda r, d, e: spans(r).deletion(),
    "prepare_spans.divergence": lambda r, d, e: spans(r).divergence(d[SPANS]),
    "prepare_singles.response": lambda r, d, e: fc.prepare_singles(r).response(d, e),
    "prepare_singles.deletion": lambda r, d, e: fc.prepare_singles(r).deletion(),
    "deletion_response": lambda r, d, e: fc.deletion_response(r, REMOVED),
    "deletion_jacobian": lambda r, d, e: fc.deletion_jacobian(r, REMOVED),
    "restoration_response": fc.restoration_response,
}


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("name", [*RESPONSES, *GROUPED])
def test_responses_have_right_gradients(name: str, regime: str):
    call = (RESPONSES | GROUPED)[name]
    inputs = REGIMES[regime]()

    def function(scores, values, score_delta, value_delta):
        results = call(fc.freeze(scores, values), score_delta, value_delta)
        return results if isinstance(results, tuple) else (results,)

    # Responses of a dominant key are of size e^-30: unless scaled to one, any gradient would pass.
    sizes = [float(result.abs().max()) for result in function(*inputs)]
    scales = [1 / size if size > 0 else 1.0 for size in sizes]

    def scaled(*parts):
        return tuple(scale * part for scale, part in zip(scales, function(*parts), strict=True))

    assert gradcheck(scaled, [leaf(part) for part in inputs])


@pytest.mark.parametrize("name", RESPONSES)
def test_garbage_at_masked_keys_leaves_gradients_right_and_zero_there(name: str):
    scores, values, score_delta, value_delta = (
        spread(part, garbage)
        for part, garbage in zip(ordinary(), (-INF, NAN, INF, NAN), strict=True)
    )

    def function(*attended: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Of the attended entries alone; those at masked keys stay what they are."""
        filled = [
            torch.where(fitted(MASK, whole), part, whole)
            for part, whole in zip(
                attended, (scores, values, score_delta, value_delta), strict=True
            )
        ]
        readout = fc.freeze(filled[0], filled[1], mask=MASK)
        return RESPONSES[name](readout, filled[2], filled[3])

    assert gradcheck(function, [leaf(spread(part, 0.0)) for part in ordinary()])
    leaves = [leaf(part) for part in (scores, values, score_delta, value_delta)]
    results = RESPONSES[name](fc.freeze(leaves[0], leaves[1], mask=MASK), leaves[2], leaves[3])
    for result in results if isinstance(results, tuple) else (results,):
        assert bool(torch.isfinite(result).all())
    assert_quiet_at_masked_keys(results, leaves)


def test_prepared_groups_ignore_garbage_at_masked_keys():
    parts = zip(ordinary(), (-INF, NAN, INF, NAN), strict=True)
    scores, values, score_delta, value_delta = (leaf(spread(part, bad)) for part, bad in parts)
    groups = torch.tensor([[0, 1], [3, 4]])  # each with one masked key
    prepared = fc.prepare(fc.freeze(scores, values, mask=MASK), groups)
    results = (
        prepared.response(score_delta[groups], value_delta[groups]),
        prepared.deletion(),
        prepared.divergence(score_delta[groups]),
        prepared.total_variation(score_delta[groups]),
    )
    assert_quiet_at_masked_keys(results, [scores, values, score_delta, value_delta])


def test_deletion_ignores_garbage_at_masked_keys():
    scores, values = (
        leaf(spread(part, bad)) for part, bad in zip(ordinary()[:2], (INF, NAN), strict=True)
    )
    readout = fc.freeze(scores, values, mask=MASK)
    removed = torch.tensor([[True, True, False, False, False, False], [False] * 3 + [True] * 3])
    assert_quiet_at_masked_keys(fc.deletion_response(readout, removed), [scores, values])


def spread(part: Tensor, garbage: float) -> Tensor:
    """Four attended entries placed among the keys of `MASK`, garbage at the others."""
    whole = torch.full((len(MASK), *part.shape[1:]), garbage, dtype=part.dtype)
    whole[MASK] = part
    return whole


def fitted(mask: Tensor, tensor: Tensor) -> Tensor:
    return mask.reshape(-1, *[1] * (tensor.ndim - 1))


def assert_quiet_at_masked_keys(results: Tensor | tuple[Tensor, ...], leaves: list[Tensor]) -> None:
    """Gradients are finite everywhere, zero at masked keys, and not all zero."""
    parts = results if isinstance(results, tuple) else (results,)
    total = torch.stack([(part * part.detach().cos()).sum() for part in parts]).sum()
    gradients = torch.autograd.grad(total, leaves, allow_unused=True)
    found = [gradient for gradient in gradients if gradient is not None]
    assert found
    for gradient in found:
        assert bool(torch.isfinite(gradient).all())
        assert int(gradient[~MASK].count_nonzero()) == 0
    assert any(int(gradient.count_nonzero()) > 0 for gradient in found)


def test_assert_quiet_refuses_gradients_at_masked_keys():
    loud = leaf(draw(len(MASK)))
    with pytest.raises(AssertionError):
        assert_quiet_at_masked_keys(loud * loud, [loud])
    with pytest.raises(AssertionError):
        assert_quiet_at_masked_keys(torch.where(MASK, loud / 0, 0.0), [loud])


@pytest.mark.parametrize("phi", [fc.phi1, fc.phi2])
@pytest.mark.parametrize(
    "x", [0.0, 1e-9, -1e-9, 1e-3, 0.999, 1.0, -1.0, 1.001, -3.0, -50.0, 20.0, 600.0, 705.0]
)
def test_phi_has_right_first_and_second_derivatives(phi: Callable[[Tensor], Tensor], x: float):
    point = leaf(torch.tensor([x], dtype=torch.float64))
    # Scaled by e^-x, so that finite differences of a steep function are not all rounding.
    scale = torch.exp(-point.detach().clamp(min=0))
    assert gradcheck(lambda z: phi(z) * scale, [point])
    assert gradgradcheck(lambda z: phi(z) * scale, [point])


@pytest.mark.parametrize(("order", "phi"), [(1, fc.phi1), (2, fc.phi2)])
def test_derivatives_of_phi_at_zero_are_those_of_its_series(
    order: int, phi: Callable[[Tensor], Tensor]
):
    x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    value = phi(x)
    # φk(x) = Σ xⁿ/(n + k)!, so that the n-th derivative at zero is n!/(n + k)!. The rule
    # φk' = φk − k·φ(k+1), applied n times, adds 2ⁿ terms with coefficients up to (n + k)!.
    for n in range(6):
        exact = math.factorial(n) / math.factorial(n + order)
        slack = 2**n * math.factorial(n + order) * torch.finfo(torch.float64).eps
        assert abs(float(value.detach()) - exact) <= slack
        (value,) = torch.autograd.grad(value, x, create_graph=True)


@pytest.mark.parametrize("phi", [fc.phi1, fc.phi2])
def test_phi_has_finite_gradients_from_the_far_left_to_the_overflow(
    phi: Callable[[Tensor], Tensor],
):
    x = leaf(
        torch.tensor([-1e300, -1e3, -700.0, -1.0, 0.0, 1.0, 699.0, 700.0, 701.0, 709.0]).double()
    )
    (gradient,) = torch.autograd.grad(phi(x).sum(), x)
    assert bool(torch.isfinite(gradient).all())
    assert bool((gradient[1:] > 0).all())


LAYOUTS = [("half", None), ("interleaved", None), ("half", "fast"), ("interleaved", "partial")]

ROTATIONS: dict[str, Callable] = {
    "rotate": fc.rotate,
    "displacement": fc.displacement,
    "tangent": fc.tangent,
    "phi1_rotary": fc.phi1_rotary,
    "chord_norm": lambda rotary, z, p, band: fc.chord_norm(rotary, z, p),
    "tangent_norm": lambda rotary, z, p, band: fc.tangent_norm(rotary, z, p),
}

KEY_SHIFTS: dict[str, Callable] = {
    "key_shift_scores": fc.key_shift_scores,
    "key_shift_scores_linear": fc.key_shift_scores_linear,
    "key_shift_scores_remainder": fc.key_shift_scores_remainder,
}


def planes(layout: str, part: str | None) -> tuple[fc.Rotary, Tensor | None]:
    """Three planes, one of zero frequency, in a head of width six (eight if partial)."""
    frequencies = torch.tensor([1.0, 0.25, 0.0], dtype=torch.float64)
    rotary = fc.Rotary(frequencies, 8 if part == "partial" else 6, layout)
    band = fc.frequency_bands(rotary, (1, 2))[0] if part == "fast" else None
    return rotary, band


@pytest.mark.parametrize(("layout", "part"), LAYOUTS)
@pytest.mark.parametrize("name", ROTATIONS)
def test_rotations_have_right_gradients_in_the_vectors_and_the_shift(
    name: str, layout: str, part: str | None
):
    rotary, band = planes(layout, part)
    shifts = leaf(torch.tensor([0.3, -40.0], dtype=torch.float64))

    def function(vectors, amounts):
        return ROTATIONS[name](rotary, vectors, amounts, band=band)

    assert gradcheck(function, [leaf(draw(2, rotary.head_width)), shifts])


@pytest.mark.parametrize("name", ["rotate", "displacement", "tangent"])
def test_rotations_have_right_gradients_at_zero_shift(name: str):
    rotary, _ = planes("half", None)
    still = leaf(torch.zeros(2, dtype=torch.float64))
    assert gradcheck(lambda z, p: ROTATIONS[name](rotary, z, p), [leaf(draw(2, 6)), still])


def test_phi1_rotary_has_its_own_derivative_at_zero_shift():
    # φ1(δA) = I + δA/2 + …, so that its derivative at δ = 0 is Az/2.
    rotary, _ = planes("half", None)
    assert gradcheck(lambda p: fc.phi1_rotary(rotary, draw(6), p), [leaf(torch.zeros(()).double())])


@pytest.mark.parametrize(("layout", "part"), LAYOUTS)
@pytest.mark.parametrize("name", KEY_SHIFTS)
@pytest.mark.parametrize("shift", [0.0, 1e-3, 0.7, -40.0])
def test_key_shifts_have_right_gradients(name: str, layout: str, part: str | None, shift: float):
    rotary, band = planes(layout, part)
    width = rotary.head_width

    def function(query, keys, amount):
        return KEY_SHIFTS[name](rotary, query, keys, amount, band=band)

    amount = leaf(torch.tensor(shift, dtype=torch.float64))
    assert gradcheck(function, [leaf(draw(1, width)), leaf(draw(2, width, seed=1)), amount])


@pytest.mark.parametrize("scale", [0.05, -4.0])
def test_band_interaction_has_right_gradients_in_both_branches(scale: float):
    scores, values, first, _ = ordinary()
    second = first + draw(KEYS, seed=5) / 4
    readout = fc.freeze(scores, values)
    # Far from the switch, which lies at a total variation of 1/4 by the stronger edit alone.
    moved = max(float(fc.total_variation(readout, scale * d)) for d in (first, second))
    assert moved > 0.4 if scale < -1 else moved < 0.1

    def function(scores, values, first, second):
        return fc.band_interaction(fc.freeze(scores, values), first, second)

    assert gradcheck(
        function, [leaf(part) for part in (scores, values, scale * first, scale * second)]
    )


@pytest.mark.parametrize("regime", ["ordinary", "dominant", "strong"])
def test_total_variation_has_right_gradients_away_from_its_kinks(regime: str):
    scores, values, score_delta, _ = REGIMES[regime]()

    def dense(scores, score_delta):
        return fc.total_variation(fc.freeze(scores, values), score_delta)

    def sparse(scores, score_delta):
        prepared = fc.prepare(fc.freeze(scores, values), GROUPS)
        return prepared.total_variation(score_delta[GROUPS])

    steps = 2e-6 * torch.cat([torch.eye(KEYS), -torch.eye(KEYS)]).double()  # beyond gradcheck's
    for moved, edited in ((scores + steps, score_delta), (scores, score_delta + steps)):
        signs = fc.log_ratio(fc.freeze(moved, values), edited).sign()
        assert torch.equal(signs, signs[:1].expand_as(signs))
        assert int((signs == 0).sum()) == 0
    for function in (dense, sparse):
        assert gradcheck(function, [leaf(scores), leaf(score_delta)])


@pytest.mark.parametrize("offset", [0.0, 30.0, -30.0])
@pytest.mark.parametrize("gauged", [False, True])
def test_effective_weights_have_right_gradients(offset: float, gauged: bool):
    query, features, values = draw(MODEL), draw(KEYS, MODEL, seed=1), draw(KEYS, WIDTH, seed=2)
    features[1] += offset * query / (query * query).sum()  # one score leads, or trails, by 30

    def function(query, features, values):
        gauge = fc.mean_key_gauge(features) if gauged else None
        weights = fc.effective_weights(query, features, values, gauge=gauge)
        return weights.matrix, weights.output

    assert gradcheck(function, [leaf(query), leaf(features), leaf(values)])


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_effective_weights_have_quiet_gradients_at_masked_keys(bad: float):
    query = leaf(draw(MODEL))
    features = leaf(spread(draw(KEYS, MODEL, seed=1), bad))
    values = leaf(spread(draw(KEYS, WIDTH, seed=2), bad))
    weights = fc.effective_weights(query, features, values, mask=MASK)
    (slope,) = torch.autograd.grad(weights.output.sum(), query, retain_graph=True)
    assert bool(torch.isfinite(slope).all())
    assert_quiet_at_masked_keys((weights.output, weights.matrix), [features, values])


def test_effective_weights_agree_with_the_readout_they_represent_in_their_gradients_too():
    query, features, values = draw(MODEL), draw(KEYS, MODEL, seed=1), draw(KEYS, WIDTH, seed=2)

    def gradients(output: Callable[[Tensor, Tensor], Tensor]) -> list[Tensor]:
        leaves = [leaf(query), leaf(values)]
        return list(torch.autograd.grad(output(*leaves).sum(), leaves))

    represented = gradients(lambda u, v: fc.effective_weights(u, features, v).output)
    direct = gradients(lambda u, v: fc.freeze(features @ u, v).output)
    # A few dozen roundings of quantities no larger than features times values.
    slack = 256 * torch.finfo(torch.float64).eps * float(features.abs().max() * values.abs().max())
    for one, other in zip(represented, direct, strict=True):
        assert float((one - other).abs().max()) <= slack


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (fc.restoration_benefit, [(MODEL,), (KEYS, MODEL)]),
        (fc.project, [(3, HEADS, WIDTH), (HEADS, WIDTH, MODEL)]),
        (fc.contract, [(3, HEADS, WIDTH), (HEADS, WIDTH, MODEL), (MODEL,)]),
        (fc.head_gradient, [(HEADS, WIDTH, MODEL), (MODEL,)]),
        (fc.regression_step, [(3, 4, WIDTH), (3, 4)]),
        (fc.key_shift_gauge, [(MODEL, WIDTH), (3, WIDTH)]),
        (fc.augment, [(3, MODEL)]),
        (lambda f, h: fc.aligned_rate(f + h, h), [(5,), (5,)]),
        (lambda *cells: tuple(vars(fc.phase_context(*cells)).values()), [(MODEL,)] * 4),
        (
            lambda *cells: tuple(fc.signed_projections(fc.phase_context(*cells)).values()),
            [(MODEL,)] * 4,
        ),
        (lambda u, a: fc.log_ratios(u, a, torch.tensor([[0, 1], [2, 0]])), [(MODEL,), (3, MODEL)]),
        (lambda u, a: fc.curvature(u, a, 1), [(MODEL,), (3, MODEL)]),
    ],
    ids=[
        "restoration_benefit",
        "project",
        "contract",
        "head_gradient",
        "regression_step",
        "key_shift_gauge",
        "augment",
        "aligned_rate",
        "phase_context",
        "signed_projections",
        "log_ratios",
        "curvature",
    ],
)
def test_polynomial_and_rational_functions_have_right_gradients(
    function: Callable, shapes: list[tuple[int, ...]]
):
    assert gradcheck(function, [leaf(draw(*shape, seed=i)) for i, shape in enumerate(shapes)])


def test_affine_features_and_the_residual_write_have_right_gradients():
    rotary, _ = planes("half", None)

    def function(weight, bias, keys, inputs, values, projection):
        features = fc.affine_features(rotary, weight, bias, keys, 3.0)
        weights = fc.effective_weights(fc.augment(inputs), features, values)
        return features, fc.residual_write(inputs, weights, projection)

    shapes = [(MODEL, 6), (6,), (2, 6), (MODEL,), (2, WIDTH), (WIDTH, MODEL)]
    assert gradcheck(function, [leaf(draw(*shape, seed=i)) for i, shape in enumerate(shapes)])


def test_the_finite_response_starts_along_the_linear_one():
    scores, values, direction, _ = ordinary()

    def jacobian(response: Callable[[fc.Readout, Tensor], Tensor]) -> Tensor:
        readout = fc.freeze(scores, values)
        start = torch.zeros_like(direction)
        return torch.autograd.functional.jacobian(lambda d: response(readout, d), start)

    finite, linear = jacobian(fc.finite_response), jacobian(fc.linear_response)
    # Both are p(v − y): a dozen roundings of terms no larger than the spread of the values.
    slack = 32 * torch.finfo(torch.float64).eps * float(values.abs().max())
    assert float(linear.abs().max()) > 1e3 * slack
    assert float((finite - linear).abs().max()) <= slack


@pytest.mark.parametrize("name", [*RESPONSES, *GROUPED, "total_variation", "band twice"])
@pytest.mark.parametrize("lead", [0.0, 700.0])
@pytest.mark.parametrize("size", [0.0, 1e-300, 1e3])
def test_no_gradient_is_nan_for_extreme_increments_and_leads(name: str, lead: float, size: float):
    calls = RESPONSES | GROUPED
    calls["total_variation"] = lambda r, d, e: fc.total_variation(r, d)
    calls["band twice"] = lambda r, d, e: fc.band_interaction(r, d, -d)
    scores, values, score_delta, value_delta = ordinary()
    scores[2] += lead
    score_delta = size * torch.sign(score_delta)
    leaves = [leaf(part) for part in (scores, values, score_delta, value_delta)]
    results = calls[name](fc.freeze(leaves[0], leaves[1]), leaves[2], leaves[3])
    parts = results if isinstance(results, tuple) else (results,)
    total = torch.stack([part.sum() for part in parts]).sum()
    assert bool(torch.isfinite(total))
    gradients = torch.autograd.grad(total, leaves, allow_unused=True)
    found = [gradient for gradient in gradients if gradient is not None]
    assert found
    assert all(bool(torch.isfinite(gradient).all()) for gradient in found)


def test_discrete_choices_accept_inputs_that_require_grad():
    scores, values = leaf(draw(HEADS, KEYS)), leaf(draw(HEADS, KEYS, WIDTH, seed=1))
    originals = draw(HEADS, KEYS, seed=2), draw(HEADS, KEYS, WIDTH, seed=3)
    projection = leaf(draw(HEADS, WIDTH, MODEL))
    plan = fc.select_evictions(fc.freeze(scores, values), REMOVED, projection, 10.0)
    restored = fc.restore_greedily(fc.CachePair(scores, values, *originals), projection, 2)
    query, features = leaf(draw(MODEL)), leaf(draw(KEYS, MODEL))
    control = fc.control_query(query, features, torch.tensor([[0, 1]]), leaf(draw(1)))
    assert len(plan.evicted) == len(REMOVED)
    assert len(restored.restored) == 2
    assert control.feasible


def test_certificates_carry_no_gradient():
    scores, values, score_delta, value_delta = (leaf(part) for part in ordinary())
    certificate = fc.certify(fc.freeze(scores, values), score_delta, value_delta, draw(WIDTH))
    assert not any(part.requires_grad for part in vars(certificate).values())
