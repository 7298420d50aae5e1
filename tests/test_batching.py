"""Leading dimensions lift every function as a loop would, and nothing else of a tensor matters.

Not its layout in memory, not its order of keys, not what masked keys hold. Torch may sum in another
order for another layout, so two evaluations are compared within the sum of their running error
bounds (`finite_calculus.rounding`); where only exactly rounded operations occur, bit by bit.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from tests.helpers.tensors import draw

HEADS, KEYS, WIDTH, MODEL, INPUTS = 2, 5, 3, 4, 4
BATCH = (2, 3)
GROUPS = torch.tensor([[0, 2], [3, 1]])
STARTS = torch.tensor([0, 3, 1])
SPANS = STARTS.unsqueeze(-1) + torch.arange(2)
REMOVED = torch.tensor([[True, False, True, False, False], [False, False, False, True, True]])
ROTARY_WIDTH = 8  # three planes, one of zero frequency, and two coordinates that do not rotate


def constant(like: Tensor, *shape: int) -> Tensor:
    """A fixed argument that all rows of a batch share, in the dtype of another one."""
    return draw(*shape, seed=99).to(like.dtype)


def rotary(like: Tensor, layout: str = "half") -> fc.Rotary:
    """Frequencies tracked if the features are, so that the rounding of every angle is counted."""
    frequencies = torch.tensor([1.0, 0.3, 0.0]).double()
    tracked = isinstance(like, fc.Tracked)
    return fc.Rotary(fc.track(frequencies) if tracked else frequencies, ROTARY_WIDTH, layout)


@dataclass(frozen=True)
class Case:
    """A function, and the trailing shapes of its batched arguments.

    `units` is None where the error is tracked. Otherwise results are compared within that many
    units of roundoff of the largest entry; 0 means bit by bit.
    """

    call: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    units: int | None = None
    keeps_dtype: bool = True
    differentiable: bool = True


EDIT = ((KEYS,), (KEYS, WIDTH), (KEYS,), (KEYS, WIDTH))
WEIGHTS = ((INPUTS,), (KEYS, INPUTS), (KEYS, WIDTH))
SHIFTED = ((1, ROTARY_WIDTH), (KEYS, ROTARY_WIDTH))


def edit(call: Callable[..., Any], **options: Any) -> Case:
    """Of (readout, score increments, value increments)."""
    return Case(lambda s, v, d, e, **mask: call(fc.freeze(s, v, **mask), d, e), EDIT, **options)


def prepared(call: Callable[..., Any]) -> Case:
    def function(s: Tensor, v: Tensor, d: Tensor, e: Tensor) -> Tensor:
        groups = fc.prepare(fc.freeze(s, v), GROUPS)
        return call(groups, d[..., GROUPS], e[..., GROUPS, :])

    return Case(function, EDIT)


def spanned(call: Callable[..., Any]) -> Case:
    def function(s: Tensor, v: Tensor, d: Tensor, e: Tensor) -> Tensor:
        spans = fc.prepare_spans(fc.read_bank(s, v), STARTS, 2)
        return call(spans, d[..., SPANS], e[..., SPANS, :])

    return Case(function, EDIT)


def turned(call: Callable[..., Tensor], layout: str) -> Case:
    return Case(lambda z: call(rotary(z, layout), z, 1.7), ((ROTARY_WIDTH,),))


def certificate(r: fc.Readout, d: Tensor, e: Tensor) -> fc.Certificate:
    return fc.certify(r, d, e, constant(d, WIDTH))


READOUT_CASES = {
    "output": edit(lambda r, d, e: r.output),
    "centred": edit(lambda r, d, e: r.centred),
    "log_ratio": edit(lambda r, d, e: fc.log_ratio(r, d)),
    "log_normaliser": edit(lambda r, d, e: fc.log_normaliser(r, d)),
    "probability_change": edit(lambda r, d, e: fc.probability_change(r, d)),
    "finite_response of keys": edit(lambda r, d, e: fc.finite_response(r, d)),
    "finite_response": edit(fc.finite_response),
    "key_response": edit(lambda r, d, e: fc.key_response(r, d)),
    "value_response": edit(lambda r, d, e: fc.value_response(r, e)),
    "interaction": edit(fc.interaction),
    "quadratic_interaction": edit(fc.quadratic_interaction),
    "linear_response": edit(lambda r, d, e: fc.linear_response(r, d)),
    "softmax_remainder": edit(lambda r, d, e: fc.softmax_remainder(r, d)),
    "remainder_weights": edit(lambda r, d, e: fc.remainder_weights(r, d)),
    "decompose": edit(fc.decompose),
    "divergence": edit(lambda r, d, e: fc.divergence(r, d)),
    "total_variation": edit(lambda r, d, e: fc.total_variation(r, d)),
    "positional_jacobian": edit(lambda r, d, e: fc.positional_jacobian(r, d)),
    "rotary_remainder": edit(lambda r, d, e: fc.rotary_remainder(r, d)),
    "weak band_interaction": edit(lambda r, d, e: fc.band_interaction(r, d / 8, e.sum(-1) / 8)),
    "strong band_interaction": edit(lambda r, d, e: fc.band_interaction(r, 4 * d, 4 * e.sum(-1))),
    "mixed_second_derivative": edit(lambda r, d, e: fc.mixed_second_derivative(r, d, e.sum(-1))),
    # Some hundred roundings of numbers no larger than the largest part of the certificate.
    "certify": edit(certificate, units=256, differentiable=False),
    "deletion_response": edit(lambda r, d, e: fc.deletion_response(r, REMOVED)),
    "deletion_jacobian": edit(lambda r, d, e: fc.deletion_jacobian(r, REMOVED)),
    "restoration_response": edit(fc.restoration_response),
    "single keys": edit(lambda r, d, e: fc.prepare_singles(r).response(d, e)),
    "single keys, scores alone": edit(lambda r, d, e: fc.prepare_singles(r).response(d)),
    "strong single keys": edit(lambda r, d, e: fc.prepare_singles(r).response(400 * d, e)),
    "single keys deleted": edit(lambda r, d, e: fc.prepare_singles(r).deletion()),
    "prepared response": prepared(lambda g, d, e: g.response(d, e)),
    "prepared response of keys": prepared(lambda g, d, e: g.response(d)),
    "prepared deletion": prepared(lambda g, d, e: g.deletion()),
    "prepared divergence": prepared(lambda g, d, e: g.divergence(d)),
    "prepared total_variation": prepared(lambda g, d, e: g.total_variation(d)),
    "prepared spans response": spanned(lambda g, d, e: g.response(d, e)),
    "prepared spans response of keys": spanned(lambda g, d, e: g.response(d)),
    "prepared spans response of strong edits": spanned(lambda g, d, e: g.response(60 * d, e)),
    "prepared spans deletion": spanned(lambda g, d, e: g.deletion()),
    "prepared spans divergence": spanned(lambda g, d, e: g.divergence(d)),
    "prepared spans total_variation": spanned(lambda g, d, e: g.total_variation(d)),
}

OTHER_CASES = {
    "phi1": Case(fc.phi1, ((4,),)),
    "phi2": Case(fc.phi2, ((4,),)),
    **{
        f"{call.__name__}, {layout}": turned(call, layout)
        for call in (
            fc.rotate,
            fc.displacement,
            fc.tangent,
            fc.phi1_rotary,
            fc.chord_norm,
            fc.tangent_norm,
        )
        for layout in ("half", "interleaved")
    },
    **{
        call.__name__: Case(lambda q, k, call=call: call(rotary(k), q, k, 1.7), SHIFTED)
        for call in (
            fc.key_shift_scores,
            fc.key_shift_scores_linear,
            fc.key_shift_scores_remainder,
        )
    },
    "augment": Case(fc.augment, ((MODEL,),), units=0),
    "affine_features": Case(
        lambda k: fc.affine_features(
            rotary(k), constant(k, MODEL, ROTARY_WIDTH), constant(k, ROTARY_WIDTH), k, 2.0
        ),
        ((KEYS, ROTARY_WIDTH),),
    ),
    "effective_weights": Case(fc.effective_weights, WEIGHTS),
    "effective output": Case(lambda u, a, v: fc.effective_weights(u, a, v).output, WEIGHTS),
    "effective_weights, reference key": Case(
        lambda u, a, v: fc.effective_weights(u, a, v, gauge=fc.reference_key_gauge(a, 1)), WEIGHTS
    ),
    "mean_key_gauge": Case(
        lambda a: fc.mean_key_gauge(a, mask=torch.ones(a.shape[:-1], dtype=torch.bool)),
        ((KEYS, INPUTS),),
    ),
    "mean_key_gauge of all": Case(fc.mean_key_gauge, ((KEYS, INPUTS),), units=KEYS),
    "key_shift_gauge": Case(
        lambda b: fc.key_shift_gauge(constant(b, INPUTS, WIDTH), b), ((WIDTH,),)
    ),
    "residual_write": Case(
        lambda h, u, a, v: fc.residual_write(
            h, fc.effective_weights(u, a, v), constant(h, WIDTH, MODEL), constant(h, MODEL)
        ),
        ((MODEL,), *WEIGHTS),
    ),
    "anchor_residual": Case(
        lambda u, a, v, w: fc.anchor_residual(
            fc.effective_weights(u, a, v), fc.effective_weights(w, a, v)
        ),
        (*WEIGHTS, (INPUTS,)),
    ),
    # Singular values are good to a few units of the largest one per row and column.
    "anchor_bound": Case(
        lambda u, a, v, w: fc.anchor_bound(
            fc.effective_weights(u, a, v), fc.effective_weights(w, a, v)
        ),
        (*WEIGHTS, (INPUTS,)),
        units=32 * (INPUTS + WIDTH),
    ),
    # A sum over keys of products of three factors; the gradient holds c, a and v − μ fixed.
    "unit_gradient_step": Case(
        lambda u, a, v: fc.unit_gradient_step(fc.effective_weights(u, a, v)),
        WEIGHTS,
        units=32 * KEYS,
        differentiable=False,
    ),
    "numerical_rank": Case(
        lambda m: fc.numerical_rank(m)[0],
        ((3, 4),),
        units=0,
        keeps_dtype=False,
        differentiable=False,
    ),
    "project": Case(lambda y: fc.project(y, constant(y, HEADS, WIDTH, MODEL)), ((HEADS, WIDTH),)),
    "contract": Case(
        lambda y: fc.contract(y, constant(y, HEADS, WIDTH, MODEL), constant(y, MODEL)),
        ((HEADS, WIDTH),),
    ),
    "restoration_benefit": Case(fc.restoration_benefit, ((MODEL,), (KEYS, MODEL))),
    "regression_step": Case(fc.regression_step, ((KEYS, WIDTH), (KEYS,))),
    "phase_context": Case(fc.phase_context, ((MODEL,),) * 4),
    # One division, one product and one rounding to an integer, each exactly rounded. Piecewise
    # constant codes have a gradient, which nothing here relies upon.
    "quantise": Case(lambda x: fc.quantise(x, 4), ((WIDTH,),), units=0),
}

CASES = READOUT_CASES | OTHER_CASES
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
# Shapes are enforced where the claim is about them; elsewhere checking would take most of the time.
unchecked = pytest.mark.usefixtures("unchecked_shapes")


# ---- the comparisons ----


def parts_of(result: Any) -> dict[str, Tensor]:
    """The tensors of a result, by name."""
    return {"": result} if isinstance(result, Tensor) else dict(vars(result))


def evaluate(case: Case, inputs: list[Tensor]) -> dict[str, Tensor]:
    """The parts of a result, tracked where the case has error rules."""
    given = inputs if case.units is not None else [fc.track(x) for x in inputs]
    return parts_of(case.call(*given))


def assert_agree(case: Case, found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Equal within the two error bounds, which must say something."""
    assert found.keys() == expected.keys()
    for name, one in found.items():
        other = expected[name]
        a, b = fc.value_of(one), fc.value_of(other)
        assert a.shape == b.shape, name
        assert a.dtype == b.dtype, name
        if case.units == 0:
            assert torch.equal(a, b), name
            continue
        eps, size = torch.finfo(a.dtype).eps, b.double().abs().amax().clamp(min=1)
        slack = fc.error_of(one) + fc.error_of(other)
        if case.units is not None:
            slack = case.units * eps * size
        worst = float(((a.double() - b.double()).abs() - slack).max())
        assert worst <= 0, f"{name} differs by {worst} more than rounding allows"
        # A bound of half the digits would let a wrong formula pass.
        assert float(torch.as_tensor(slack).max()) <= eps**0.5 * float(size), name


def batch_of(case: Case, *, lead: tuple[int, ...] = BATCH, dtype: torch.dtype = torch.float64):
    shapes = enumerate(case.shapes)
    return [draw(*lead, *shape, seed=seed).to(dtype) for seed, shape in shapes]


def test_assert_agree_refuses_a_wrong_digit_a_wrong_shape_and_an_empty_bound():
    case, x = CASES["phi1"], fc.track(draw(3))
    assert_agree(case, {"": x}, {"": x})
    for other in (
        fc.track(fc.value_of(x) * (1 + 1e-15)),
        fc.track(draw(1, 3)),
        fc.track(draw(3).float()),
        fc.track(draw(3), torch.ones(3).double()),
        fc.track(draw(3) * float("nan")),
    ):
        with pytest.raises(AssertionError):
            assert_agree(case, {"": x}, {"": other})


# ---- claims about every function ----


@unchecked
@every_case
def test_leading_dimensions_lift_as_a_loop_does(case: Case):
    inputs = batch_of(case)
    lifted = evaluate(case, inputs)
    for index in itertools.product(*map(range, BATCH)):
        single = evaluate(case, [x[index] for x in inputs])
        assert_agree(case, {name: part[index] for name, part in lifted.items()}, single)


@every_case
def test_a_batch_of_size_zero_gives_results_of_size_zero(case: Case):
    full = parts_of(case.call(*batch_of(case)))
    empty = parts_of(case.call(*batch_of(case, lead=(0, 3))))
    for name, part in empty.items():
        assert part.shape == (0, *full[name].shape[1:]), name
        assert part.dtype == full[name].dtype, name


def transposed(x: Tensor) -> Tensor:
    return x.transpose(0, -1).contiguous().transpose(0, -1)


def strided(x: Tensor) -> Tensor:
    spaced = torch.full((*x.shape[:-1], 2 * x.shape[-1]), torch.nan, dtype=x.dtype)
    spaced[..., ::2] = x
    return spaced[..., ::2]


@unchecked
@every_case
@pytest.mark.parametrize("layout", [transposed, strided])
def test_layout_in_memory_does_not_matter(case: Case, layout: Callable[[Tensor], Tensor]):
    inputs = batch_of(case)
    scattered = [layout(x) for x in inputs]
    assert any(not x.is_contiguous() for x in scattered)
    assert all(torch.equal(x, y) for x, y in zip(inputs, scattered, strict=True))
    assert_agree(case, evaluate(case, scattered), evaluate(case, inputs))


@unchecked
@every_case
def test_expanded_inputs_act_as_their_copies(case: Case):
    expanded = [x.expand(4, *x.shape[1:]) for x in batch_of(case, lead=(1,))]
    copies = [x.contiguous() for x in expanded]
    assert_agree(case, evaluate(case, expanded), evaluate(case, copies))


@every_case
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_results_have_the_dtype_of_the_inputs(case: Case, dtype: torch.dtype):
    expected = dtype if case.keeps_dtype else torch.int64
    for name, part in parts_of(case.call(*batch_of(case, dtype=dtype))).items():
        assert part.dtype == expected, name
        assert bool(torch.isfinite(part).all()), name


@unchecked
@every_case
def test_float32_agrees_with_float64_within_its_own_bound(case: Case):
    narrow = batch_of(case, dtype=torch.float32)
    low, high = evaluate(case, narrow), evaluate(case, [x.double() for x in narrow])
    eps = torch.finfo(torch.float32).eps
    for name, part in low.items():
        found, exact = fc.value_of(part).double(), fc.value_of(high[name]).double()
        slack = fc.error_of(part) + fc.error_of(high[name])
        if case.units is not None:
            # The inputs are exact in both; at most a unit of the result even where none is allowed
            # between two evaluations in one precision.
            slack = max(case.units, 4) * eps * exact.abs().amax().clamp(min=1)
        assert bool(((found - exact).abs() <= slack).all()), name


@unchecked
@every_case
def test_results_require_grad_exactly_if_an_input_does(case: Case):
    inputs = batch_of(case)
    assert not any(part.requires_grad for part in parts_of(case.call(*inputs)).values())
    leaves = [x.requires_grad_() for x in inputs]
    followed = [part.requires_grad for part in parts_of(case.call(*leaves)).values()]
    assert any(followed) == case.differentiable


@unchecked
@every_case
def test_inputs_are_never_modified(case: Case):
    inputs = batch_of(case)
    copies, versions = [x.clone() for x in inputs], [x._version for x in inputs]
    parts = parts_of(case.call(*inputs))
    assert parts
    assert all(torch.equal(x, y) for x, y in zip(inputs, copies, strict=True))
    assert [x._version for x in inputs] == versions


@unchecked
@every_case
def test_tracking_the_error_changes_no_bit_of_the_result(case: Case):
    inputs = batch_of(case)
    plain, tracked = parts_of(case.call(*inputs)), evaluate(case, inputs)
    for name, part in plain.items():
        assert torch.equal(fc.value_of(part), fc.value_of(tracked[name])), name


# ---- claims about readouts ----


@unchecked
@pytest.mark.parametrize("name", READOUT_CASES)
def test_values_shared_by_heads_act_as_their_copies(name: str):
    case = READOUT_CASES[name]
    scores, values, score_delta, value_delta = batch_of(case)
    shared = [scores, values[0, 0], score_delta, value_delta]
    copied = [scores, values[0, 0].expand_as(values).contiguous(), score_delta, value_delta]
    assert_agree(case, evaluate(case, shared), evaluate(case, copied))


# Edits of the whole bank take increments of any batch shape that broadcasts with the readout's.
EDITED = [name for name in READOUT_CASES if "delet" not in name and "prepared" not in name]
SIZED = [name for name in EDITED if name not in ("output", "centred", "restoration_response")]


@unchecked
@pytest.mark.parametrize("name", SIZED)
def test_increments_may_have_further_leading_dimensions(name: str):
    case = READOUT_CASES[name]
    scores, values, score_delta, value_delta = batch_of(case, lead=(HEADS,))
    strengths = torch.tensor([0.5, -1.0, 2.0]).double()
    lifted = [
        scores,
        values,
        strengths.reshape(3, 1, 1) * score_delta,
        strengths.reshape(3, 1, 1, 1) * value_delta,
    ]
    found = evaluate(case, lifted)
    for index in range(3):
        single = evaluate(case, [scores, values, lifted[2][index], lifted[3][index]])
        assert_agree(case, {part: x[index] for part, x in found.items()}, single)


@unchecked
@pytest.mark.parametrize("name", SIZED)
def test_increments_may_have_fewer_leading_dimensions(name: str):
    case = READOUT_CASES[name]
    scores, values, score_delta, value_delta = batch_of(case)
    fewer = [scores, values, score_delta[0, 0], value_delta[0, 0]]
    full = [
        scores,
        values,
        score_delta[0, 0].expand_as(score_delta).contiguous(),
        value_delta[0, 0].expand_as(value_delta).contiguous(),
    ]
    assert_agree(case, evaluate(case, fewer), evaluate(case, full))


@pytest.mark.parametrize("name", ["finite_response", "interaction"])
def test_score_and_value_increments_broadcast_with_each_other(name: str):
    case = READOUT_CASES[name]
    scores, values, score_delta, value_delta = batch_of(case, lead=(HEADS,))
    candidates = torch.stack([score_delta, -score_delta, 2 * score_delta])
    found = evaluate(case, [scores, values, candidates, value_delta[0]])
    for index in range(3):
        value_edit = value_delta[0].expand_as(value_delta).contiguous()
        single = evaluate(case, [scores, values, candidates[index], value_edit])
        assert_agree(case, {part: x[index] for part, x in found.items()}, single)


def test_prepared_groups_take_further_leading_dimensions_for_strengths():
    scores, values, score_delta, value_delta = batch_of(READOUT_CASES["finite_response"])
    groups = fc.prepare(fc.freeze(fc.track(scores), fc.track(values)), GROUPS)
    score_edit, value_edit = score_delta[..., GROUPS], value_delta[..., GROUPS, :]
    strengths = torch.tensor([0.0, 1.0, -3.0]).double()
    lifted = groups.response(
        fc.track(strengths.reshape(3, 1, 1, 1, 1) * score_edit),
        fc.track(strengths.reshape(3, 1, 1, 1, 1, 1) * value_edit),
    )
    assert lifted.shape == (3, *BATCH, len(GROUPS), WIDTH)
    for index, strength in enumerate(strengths):
        single = groups.response(fc.track(strength * score_edit), fc.track(strength * value_edit))
        assert_agree(READOUT_CASES["prepared response"], {"": lifted[index]}, {"": single})


def test_a_mask_may_have_further_leading_dimensions():
    scores, values = draw(KEYS), draw(KEYS, WIDTH, seed=1)
    masks = torch.tensor([[True] * KEYS, [True, False, True, False, True], [False] * 4 + [True]])
    readout = fc.freeze(scores, values, mask=masks)
    assert readout.batch == (3,)
    for index, mask in enumerate(masks):
        kept = fc.freeze(fc.track(scores[mask]), fc.track(values[mask]))
        whole = fc.freeze(fc.track(scores), fc.track(values), mask=mask)
        case = READOUT_CASES["output"]
        assert_agree(case, {"": whole.output}, {"": kept.output})
        assert_agree(case, {"": fc.track(readout.output[index])}, {"": whole.output})


# ---- masked keys ----

MASK = torch.tensor([[True, True, False, True, False], [True, False, True, False, True]])
# Each group and each set of removed keys holds masked keys of both heads.
MASKED_GROUPS = torch.tensor([[0, 1], [3, 4]])
MASKED_REMOVED = torch.tensor(
    [[True, True, False, False, False], [False, False, True, False, True]]
)


def masked_results(garbage: float) -> dict[str, Tensor]:
    """Everything that a masked readout can say, with `garbage` at its masked keys."""
    scores, values, score_delta, value_delta = (
        torch.where(MASK.reshape(*MASK.shape, *[1] * (x.ndim - 2)), x, garbage)
        for x in batch_of(READOUT_CASES["finite_response"], lead=(HEADS,))
    )
    readout = fc.freeze(scores, values, mask=MASK)
    groups = fc.prepare(readout, MASKED_GROUPS)
    spans = fc.prepare_spans(fc.read_bank(scores, values, mask=MASK), MASKED_GROUPS[:, 0], 2)
    score_edit, value_edit = score_delta[:, MASKED_GROUPS], value_delta[:, MASKED_GROUPS]
    other = value_delta.sum(-1)
    certificate = fc.certify(readout, score_delta, value_delta, draw(WIDTH))
    query, features = draw(HEADS, INPUTS), draw(HEADS, KEYS, INPUTS, seed=7)
    features = torch.where(MASK.unsqueeze(-1), features, garbage)
    weights = fc.effective_weights(query, features, values, mask=MASK)
    return {
        **{f"readout.{name}": part for name, part in vars(readout).items()},
        **{
            f"decompose.{k}": v
            for k, v in vars(fc.decompose(readout, score_delta, value_delta)).items()
        },
        **{f"certify.{name}": part for name, part in vars(certificate).items()},
        "log_ratio": fc.log_ratio(readout, score_delta),
        "probability_change": fc.probability_change(readout, score_delta),
        "remainder_weights": fc.remainder_weights(readout, score_delta),
        "divergence": fc.divergence(readout, score_delta),
        "total_variation": fc.total_variation(readout, score_delta),
        "band_interaction": fc.band_interaction(readout, score_delta, other),
        "mixed_second_derivative": fc.mixed_second_derivative(readout, score_delta, other),
        "deletion_response": fc.deletion_response(readout, MASKED_REMOVED),
        "deletion_jacobian": fc.deletion_jacobian(readout, MASKED_REMOVED),
        "prepared response": groups.response(score_edit, value_edit),
        "prepared deletion": groups.deletion(),
        "prepared divergence": groups.divergence(score_edit),
        "prepared total_variation": groups.total_variation(score_edit),
        "prepared spans response": spans.response(score_edit, value_edit),
        "prepared spans deletion": spans.deletion(),
        "effective matrix": weights.matrix,
        "effective mean": weights.mean,
        "mean_key_gauge": fc.mean_key_gauge(features, mask=MASK),
    }


@pytest.mark.parametrize("garbage", [1e9, -1e300, torch.nan, torch.inf, -torch.inf])
def test_masked_keys_influence_nothing(garbage: float):
    clean, spoiled = masked_results(0.25), masked_results(garbage)
    different = [name for name, part in clean.items() if not torch.equal(part, spoiled[name])]
    assert different == []


ORDER = torch.tensor([3, 0, 4, 1, 2])
# Results with an entry for every key, and where its axis is.
PER_KEY = {
    "log_ratio": -1,
    "probability_change": -1,
    "remainder_weights": -1,
    "centred": -2,
    "restoration_response": -2,
    "single keys": -2,
    "single keys, scores alone": -2,
    "strong single keys": -2,
}
# These ask for a bank whose keys are all attended.
UNMASKED = {"restoration_response", "strong single keys"}


@unchecked
@pytest.mark.parametrize("strength", [1.0, 20.0, -20.0])
@pytest.mark.parametrize("name", [name for name in EDITED if name not in UNMASKED])
def test_a_masked_readout_is_the_readout_of_the_attended_keys(name: str, strength: float):
    case = READOUT_CASES[name]
    inputs = batch_of(case, lead=())
    inputs[2] = strength * inputs[2]  # small and large increments take different paths
    inputs = [fc.track(x) if case.units is None else x for x in inputs]
    mask = MASK[0]
    whole = parts_of(case.call(*inputs, mask=mask))
    kept = parts_of(case.call(*(x[mask] for x in inputs)))
    if name in PER_KEY:
        attended = mask.nonzero().squeeze(-1)
        whole = {part: x.index_select(PER_KEY[name], attended) for part, x in whole.items()}
    assert_agree(case, whole, kept)


@pytest.mark.parametrize("strength", [1e-3, 1.0, 20.0])
def test_masked_keys_have_probability_and_change_exactly_zero(strength: float):
    scores, values, score_delta, _ = batch_of(READOUT_CASES["finite_response"], lead=(HEADS,))
    readout = fc.freeze(scores, values, mask=MASK)
    edit = strength * score_delta
    for part in (
        readout.probs,
        fc.log_ratio(readout, edit),
        fc.probability_change(readout, edit),
        fc.remainder_weights(readout, edit),
    ):
        assert int(part[~MASK].count_nonzero()) == 0
        assert int(part[MASK].count_nonzero()) == int(MASK.sum())


# ---- order of keys ----


@unchecked
@pytest.mark.parametrize("name", EDITED)
def test_permuting_the_keys_permutes_the_results(name: str):
    case = READOUT_CASES[name]
    scores, values, score_delta, value_delta = batch_of(case)
    permuted = [scores[..., ORDER], values[..., ORDER, :]]
    permuted += [score_delta[..., ORDER], value_delta[..., ORDER, :]]
    expected = evaluate(case, [scores, values, score_delta, value_delta])
    if name in PER_KEY:
        expected = {k: x.index_select(PER_KEY[name], ORDER) for k, x in expected.items()}
    assert_agree(case, evaluate(case, permuted), expected)


def test_permuting_the_keys_and_the_groups_together_changes_no_sparse_result():
    scores, values, score_delta, value_delta = batch_of(READOUT_CASES["finite_response"])
    place = torch.argsort(ORDER)  # where each key went
    results = []
    for s, v, groups, removed in (
        (scores, values, GROUPS, REMOVED),
        (scores[..., ORDER], values[..., ORDER, :], place[GROUPS], REMOVED[:, ORDER]),
    ):
        readout = fc.freeze(fc.track(s), fc.track(v))
        prepared = fc.prepare(readout, groups)
        # Increments belong to the members of a group, so they do not move with the keys.
        d, e = fc.track(score_delta[..., GROUPS]), fc.track(value_delta[..., GROUPS, :])
        results.append(
            {
                "response": prepared.response(d, e),
                "divergence": prepared.divergence(d),
                "deletion": prepared.deletion(),
                "removal": fc.deletion_response(readout, removed),
            }
        )
    assert_agree(READOUT_CASES["prepared response"], results[0], results[1])


def test_permuting_the_keys_permutes_effective_features_and_keeps_the_matrix():
    query, features, values = (fc.track(x) for x in batch_of(OTHER_CASES["effective_weights"]))
    one = fc.effective_weights(query, features, values)
    other = fc.effective_weights(
        query, features.index_select(-2, ORDER), values.index_select(-2, ORDER)
    )
    case = OTHER_CASES["effective_weights"]
    assert_agree(case, {"": other.matrix}, {"": one.matrix})
    assert_agree(case, {"": other.coefficients}, {"": one.coefficients.index_select(-1, ORDER)})


# ---- the discrete functions ----


def cache(order: Tensor | None = None) -> fc.CachePair:
    keys = torch.arange(KEYS) if order is None else order
    scores, values = draw(HEADS, KEYS), draw(HEADS, KEYS, WIDTH, seed=1)
    originals = (
        scores + draw(HEADS, KEYS, seed=2) / 4,
        values + draw(HEADS, KEYS, WIDTH, seed=3) / 4,
    )
    return fc.CachePair(
        scores[:, keys], values[:, keys], originals[0][:, keys], originals[1][:, keys]
    )


@pytest.mark.parametrize(
    "method", ["exact", "first-order", "second-order", "attention", "value-norm", "fisher"]
)
def test_restoration_follows_its_entries_through_a_permutation(method: str):
    projection = draw(HEADS, WIDTH, MODEL, seed=4)
    plain = fc.restore_greedily(cache(), projection, KEYS, method=method)
    moved = fc.restore_greedily(cache(ORDER), projection, KEYS, method=method)
    assert torch.equal(ORDER[moved.restored], plain.restored)


def test_greedy_restoration_lifts_over_caches_as_a_loop_does():
    pairs, projection = [cache(), cache(ORDER)], draw(HEADS, WIDTH, MODEL, seed=4)
    parts = [torch.stack(part) for part in zip(*(vars(p).values() for p in pairs), strict=True)]
    both = fc.restore_greedily(fc.CachePair(*parts), projection, KEYS - 1)
    for row, pair in enumerate(pairs):
        single = fc.restore_greedily(pair, projection, KEYS - 1)
        assert torch.equal(both.restored[row], single.restored)
        assert both.errors[row].shape == (KEYS,)
        assert torch.equal(both.errors[row].argsort(), single.errors.argsort())


def test_restoring_nothing_reports_the_error_alone():
    found = fc.restore_greedily(cache(), draw(HEADS, WIDTH, MODEL, seed=4), 0)
    assert found.restored.shape == found.scores.shape == (0,)
    assert found.errors.shape == (1,)


def test_evictions_follow_their_groups_through_a_permutation():
    scores, values = draw(HEADS, KEYS), draw(HEADS, KEYS, WIDTH, seed=1)
    groups, projection = torch.eye(KEYS, dtype=torch.bool), draw(HEADS, WIDTH, MODEL, seed=4)
    plain = fc.select_evictions(fc.freeze(scores, values), groups, projection, 2.0)
    permuted = fc.freeze(scores[:, ORDER], values[:, ORDER])
    moved = fc.select_evictions(permuted, groups[:, ORDER], projection, 2.0)
    assert plain.evicted
    assert moved.evicted == plain.evicted


def test_certified_signs_and_orders_lift_as_a_loop_does():
    case = READOUT_CASES["certify"]
    inputs = batch_of(case, lead=(*BATCH, 4))
    inputs[2], inputs[3] = inputs[2] / 64, inputs[3] / 64  # small enough edits to be certified
    certificate = case.call(*inputs)
    signs, order = fc.certified_signs(certificate), fc.certified_order(certificate)
    assert int(signs.abs().sum()) > 0
    assert int(order.greater.sum()) > 0
    for index in itertools.product(*map(range, BATCH)):
        single = fc.Certificate(**{k: v[index] for k, v in vars(certificate).items()})
        assert torch.equal(fc.certified_signs(single), signs[index])
        assert torch.equal(fc.certified_order(single).greater, order.greater[index])
        listed = [pair[2:] for pair in order.pairs() if pair[:2] == index]
        assert fc.certified_order(single).pairs() == listed


def test_a_certificate_over_heads_adds_up_the_heads_and_not_the_batch():
    certificate = READOUT_CASES["certify"].call(*batch_of(READOUT_CASES["certify"]))
    whole = certificate.over_heads()
    for name, part in vars(certificate).items():
        summed, total = part.sum(-1), vars(whole)[name]
        # Three heads: a few units, upwards where it is a bound.
        slack = 16 * torch.finfo(part.dtype).eps * part.abs().sum(-1)
        assert total.shape == BATCH[:1], name
        assert bool(((total - summed).abs() <= slack).all()), name


def test_scores_of_restoration_do_not_require_grad_and_keep_their_dtype():
    for dtype in (torch.float32, torch.float64):
        pair = fc.CachePair(*(part.to(dtype) for part in vars(cache()).values()))
        projection = draw(HEADS, WIDTH, MODEL, seed=4).to(dtype)
        for method in ("exact", "first-order", "second-order", "attention", "value-norm", "fisher"):
            scores = fc.restoration_scores(pair, projection, method)
            assert scores.dtype == dtype
            assert not scores.requires_grad
        generator = torch.Generator().manual_seed(0)
        drawn = fc.restoration_scores(pair, projection, "random", generator=generator)
        assert drawn.dtype == dtype


# ---- heads and planes ----


def test_projected_writes_are_summed_over_heads_as_a_loop_does():
    writes, projection = draw(*BATCH, HEADS, WIDTH), draw(HEADS, WIDTH, MODEL, seed=1)
    gradient = draw(MODEL, seed=2)
    whole = fc.project(fc.track(writes), fc.track(projection))
    each = [
        torch.matmul(fc.track(writes[..., head, :]), fc.track(projection[head]))
        for head in range(HEADS)
    ]
    contracted = fc.contract(fc.track(writes), fc.track(projection), fc.track(gradient))
    case = OTHER_CASES["project"]
    assert_agree(case, {"": whole}, {"": each[0] + each[1]})
    assert_agree(case, {"": contracted}, {"": (whole * fc.track(gradient)).sum(-1)})


@pytest.mark.parametrize("name", ["rotate", "displacement", "tangent", "phi1_rotary"])
def test_the_two_layouts_differ_by_an_order_of_coordinates(name: str):
    halves = torch.tensor([0, 2, 4, 1, 3, 5, 6, 7])  # first coordinates, second ones, the rest
    vectors = batch_of(CASES[f"{name}, half"])[0]
    one = evaluate(CASES[f"{name}, interleaved"], [vectors])[""]
    other = evaluate(CASES[f"{name}, half"], [vectors[..., halves]])[""]
    assert_agree(CASES[f"{name}, half"], {"": one.index_select(-1, halves)}, {"": other})
