"""Every public function and every method of a public class, with what each transform of torch makes of it.

A key is the public name, with a comma before what tells variants apart. What is not `refused` works.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import finite_calculus as fc
from finite_calculus.rotary import Layout
from tests.helpers.tensors import draw
from tests.transforms.case import DERIVATIVES, NO_DERIVATIVE, Case, like

HEADS, KEYS, WIDTH, MODEL, INPUTS = 2, 5, 3, 4, 4
TURNED = 8  # three planes, one of zero frequency, and two coordinates that do not rotate

FREQUENCIES = torch.tensor([1.0, 0.3, 0.0]).double()
GROUPS = torch.tensor([[0, 2], [3, 1]])
STARTS = torch.tensor([0, 3, 1])
SPANS = STARTS.unsqueeze(-1) + torch.arange(2)
HEAVY = torch.tensor([[0, 1, 2, 3], [4, 1, 2, 3]])
REMOVED = torch.tensor([[True, False, True, False, False], [False, False, False, True, True]])
MASK = torch.tensor([True, False, True, True, True])
PAIRS = torch.tensor([[0, 1], [2, 4]])
SLOPE, PROJECTION = draw(WIDTH, seed=90), draw(HEADS, WIDTH, MODEL, seed=91)
WEIGHT, BIAS = draw(MODEL, TURNED, seed=92), draw(TURNED, seed=93)
OUT, GRADIENT, LIFT = (
    draw(WIDTH, MODEL, seed=94),
    draw(MODEL, seed=95),
    draw(INPUTS, WIDTH, seed=96),
)

# Reasons. No bound has a derivative, and none is tracked without numbers.
UNTRACKED = dict.fromkeys(DERIVATIVES, "Rounding errors must be tracked on constants")
UNNUMBERED = dict.fromkeys(
    ("fake", "compile"), "Rounding errors must be tracked on ordinary tensors"
)
WHOLE_NUMBERS = dict.fromkeys(DERIVATIVES, NO_DERIVATIVE)

EDIT = ((KEYS,), (KEYS, WIDTH), (KEYS,), (KEYS, WIDTH))
WEIGHTS = ((INPUTS,), (KEYS, INPUTS), (KEYS, WIDTH))
CACHE = ((HEADS, KEYS), (HEADS, KEYS, WIDTH)) * 2
SHIFTED = ((1, TURNED), (KEYS, TURNED))
CELLS = ((MODEL,),) * 4


def without_numbers(name: str, **others: str) -> dict[str, str]:
    """Refusals of a function that has to read numbers, besides others."""
    places = ("vmap", "meta", "fake", "compile")
    return dict.fromkeys(places, f"`{name}` must read the numbers") | others


def edit(call: Callable[..., Any], **options: Any) -> Case:
    """A function of a readout, score increments and value increments."""
    return Case(lambda s, v, d, e: call(fc.freeze(s, v), d, e), EDIT, **options)


def masked(call: Callable[..., Any], **options: Any) -> Case:
    """The same with a key that is not attended."""
    return Case(lambda s, v, d, e: call(fc.freeze(s, v, mask=like(s, MASK)), d, e), EDIT, **options)


def grouped(call: Callable[..., Any], groups: Tensor = GROUPS, **options: Any) -> Case:
    """A function of prepared groups, score increments and value increments."""

    def function(s: Tensor, v: Tensor, d: Tensor, e: Tensor) -> Any:
        index = like(s, groups)
        return call(fc.prepare(fc.freeze(s, v), index), d[..., index], e[..., index, :])

    return Case(function, EDIT, **options)


def spanned(call: Callable[..., Any], **options: Any) -> Case:
    def function(s: Tensor, v: Tensor, d: Tensor, e: Tensor) -> Any:
        spans = fc.prepare_spans(fc.read_bank(s, v), like(s, STARTS), 2)
        return call(spans, d[..., like(s, SPANS)], e[..., like(s, SPANS), :])

    return Case(function, EDIT, **options)


def members(groups: fc.PreparedGroups) -> tuple[Tensor, ...]:
    """What a preparation holds whatever the masses of its groups are."""
    return groups.scores, groups.values, groups.probs, groups.pulls, groups.rest


def rotary(argument: Tensor, layout: Layout = "half") -> fc.Rotary:
    return fc.Rotary(like(argument, FREQUENCIES), TURNED, layout)


def usual_rotary(argument: Tensor) -> fc.Rotary:
    return fc.Rotary(like(argument, fc.Rotary.from_base(1e4, TURNED).frequencies), TURNED)


def turned(call: Callable[..., Tensor], layout: Layout = "half") -> Case:
    return Case(lambda z, p: call(rotary(z, layout), z, p), ((TURNED,), ()))


def shifted(call: Callable[..., Tensor]) -> Case:
    return Case(lambda q, k, p: call(rotary(k), q, k, p), (*SHIFTED, ()))


def weighed(call: Callable[..., Any], *more: tuple[int, ...], **options: Any) -> Case:
    """A function of effective weights and further tensors."""

    def function(u: Tensor, a: Tensor, v: Tensor, *others: Tensor) -> Any:
        return call(fc.effective_weights(u, a, v), *others)

    return Case(function, (*WEIGHTS, *more), **options)


def anchored(call: Callable[..., Any], **options: Any) -> Case:
    def function(u: Tensor, a: Tensor, v: Tensor, w: Tensor) -> Any:
        return call(fc.effective_weights(u, a, v), fc.effective_weights(w, a, v))

    return Case(function, (*WEIGHTS, (INPUTS,)), **options)


def cached(call: Callable[..., Any], **options: Any) -> Case:
    """A function of a pair of caches and an output projection."""
    return Case(lambda *c: call(fc.CachePair(*c), like(c[0], PROJECTION)), CACHE, **options)


def certificate(first: Tensor, bound: Tensor) -> fc.Certificate:
    return fc.Certificate(first, bound.abs() / 8, bound.abs(), bound.abs())


def certify(r: fc.Readout, d: Tensor, e: Tensor) -> fc.Certificate:
    return fc.certify(r, d, e, like(d, SLOPE))


def evict(r: fc.Readout, d: Tensor, e: Tensor) -> fc.EvictionPlan:
    return fc.select_evictions(r, like(d, REMOVED), like(d, PROJECTION), 1.0)


RESPONSES = {
    "freeze": edit(lambda r, d, e: r),
    "freeze, masked": masked(lambda r, d, e: r),
    "Readout.output": edit(lambda r, d, e: r.output),
    "Readout.centred": edit(lambda r, d, e: r.centred),
    "Readout.half_centred": edit(lambda r, d, e: r.half_centred),
    "log_ratio": edit(lambda r, d, e: fc.log_ratio(r, d)),
    "log_normaliser": edit(lambda r, d, e: fc.log_normaliser(r, d)),
    "probability_change": edit(lambda r, d, e: fc.probability_change(r, d)),
    "finite_response": edit(fc.finite_response),
    "finite_response, masked": masked(fc.finite_response),
    "finite_response, scores alone": edit(lambda r, d, e: fc.finite_response(r, 9 * d)),
    "key_response": edit(lambda r, d, e: fc.key_response(r, d)),
    "value_response": edit(lambda r, d, e: fc.value_response(r, e)),
    "interaction": edit(fc.interaction),
    "quadratic_interaction": edit(fc.quadratic_interaction),
    "linear_response": edit(lambda r, d, e: fc.linear_response(r, d)),
    "softmax_remainder": edit(lambda r, d, e: fc.softmax_remainder(r, d)),
    "remainder_weights": edit(lambda r, d, e: fc.remainder_weights(r, d)),
    "decompose": edit(fc.decompose),
    "decompose, masked": masked(fc.decompose),
    "divergence": edit(lambda r, d, e: fc.divergence(r, d)),
    "total_variation": edit(lambda r, d, e: fc.total_variation(r, d)),
    "positional_jacobian": edit(lambda r, d, e: fc.positional_jacobian(r, d)),
    "rotary_remainder": edit(lambda r, d, e: fc.rotary_remainder(r, d)),
    "band_interaction": edit(lambda r, d, e: fc.band_interaction(r, d / 8, e.sum(-1) / 8)),
    "band_interaction, strong": edit(lambda r, d, e: fc.band_interaction(r, 4 * d, 4 * e.sum(-1))),
    "mixed_second_derivative": edit(lambda r, d, e: fc.mixed_second_derivative(r, d, e.sum(-1))),
    "deletion_response": edit(lambda r, d, e: fc.deletion_response(r, like(d, REMOVED))),
    "deletion_jacobian": edit(lambda r, d, e: fc.deletion_jacobian(r, like(d, REMOVED))),
    "restoration_response": edit(fc.restoration_response),
    # Some hundred roundings of numbers no larger than the largest part of the certificate.
    "certify": edit(certify, units=256, refused=UNTRACKED | UNNUMBERED),
    "prepare": grouped(lambda g, d, e: members(g)),
    "PreparedGroups.response": grouped(lambda g, d, e: g.response(d, e)),
    "PreparedGroups.response, scores alone": grouped(lambda g, d, e: g.response(d)),
    "PreparedGroups.response, strong": grouped(lambda g, d, e: g.response(60 * d, e)),
    "PreparedGroups.response, heavy": grouped(lambda g, d, e: g.response(d, e), HEAVY),
    "PreparedGroups.response, spans": spanned(lambda g, d, e: g.response(d, e)),
    "PreparedGroups.deletion": grouped(lambda g, d, e: g.deletion()),
    "PreparedGroups.deletion, spans": spanned(lambda g, d, e: g.deletion()),
    "PreparedGroups.divergence": grouped(lambda g, d, e: g.divergence(d)),
    "PreparedGroups.total_variation": grouped(lambda g, d, e: g.total_variation(d)),
    "PreparedGroups.small_readout": grouped(lambda g, d, e: g.small_readout.probs),
    "read_bank": edit(lambda r, d, e: fc.read_bank(r.scores, r.values)),
    "Bank.output": edit(lambda r, d, e: fc.read_bank(r.scores, r.values).output),
    "Bank.readout": edit(lambda r, d, e: fc.read_bank(r.scores, r.values).readout),
    "prepare_spans": spanned(lambda g, d, e: members(g)),
    "prepare_singles": edit(lambda r, d, e: fc.prepare_singles(r).pulls),
    "PreparedSingles.response": edit(lambda r, d, e: fc.prepare_singles(r).response(d, e)),
    "PreparedSingles.response, strong": edit(
        lambda r, d, e: fc.prepare_singles(r).response(400 * d, e)
    ),
    "PreparedSingles.deletion": edit(lambda r, d, e: fc.prepare_singles(r).deletion()),
    "PreparedSingles.groups": edit(lambda r, d, e: members(fc.prepare_singles(r).groups())),
}

ROTATIONS = {
    **{
        call.__name__: turned(call)
        for call in (
            fc.rotate,
            fc.displacement,
            fc.tangent,
            fc.phi1_rotary,
            fc.chord_norm,
            fc.tangent_norm,
        )
    },
    "rotate, interleaved": turned(fc.rotate, "interleaved"),
    "key_shift_scores": shifted(fc.key_shift_scores),
    "key_shift_scores_linear": shifted(fc.key_shift_scores_linear),
    "key_shift_scores_remainder": shifted(fc.key_shift_scores_remainder),
    "generator": Case(lambda w: fc.generator(fc.Rotary(w, 8)), ((3,),)),
    "Rotary.from_base": Case(lambda z: fc.rotate(usual_rotary(z), z, 1.0), ((TURNED,),)),
    "frequency_bands": Case(
        lambda w: fc.frequency_bands(fc.Rotary(w, 8), (1, 2)), ((3,),), WHOLE_NUMBERS, units=0
    ),
}

WEIGHING = {
    "augment": Case(fc.augment, ((MODEL,),), units=0),
    "affine_features": Case(
        lambda k, p: fc.affine_features(rotary(k), like(k, WEIGHT), like(k, BIAS), k, p),
        ((KEYS, TURNED), ()),
    ),
    "effective_weights": weighed(lambda w: w),
    "effective_weights, masked": Case(
        lambda u, a, v: fc.effective_weights(u, a, v, mask=like(u, MASK)), WEIGHTS
    ),
    "EffectiveWeights.output": weighed(lambda w: w.output),
    "reference_key_gauge": Case(lambda a: fc.reference_key_gauge(a, 1), ((KEYS, INPUTS),), units=0),
    # A mean has no error rule: a sum of so many terms, divided.
    "mean_key_gauge": Case(fc.mean_key_gauge, ((KEYS, INPUTS),), units=KEYS),
    "mean_key_gauge, masked": Case(
        lambda a: fc.mean_key_gauge(a, mask=like(a, MASK)), ((KEYS, INPUTS),)
    ),
    "key_shift_gauge": Case(lambda b: fc.key_shift_gauge(like(b, LIFT), b), ((WIDTH,),)),
    "residual_write": weighed(
        lambda w, h: fc.residual_write(h, w, like(h, OUT), like(h, GRADIENT)), (MODEL,)
    ),
    "anchor_residual": anchored(fc.anchor_residual),
    # Singular values are good to a few units of the largest one per row and column.
    "anchor_bound": anchored(fc.anchor_bound, units=64 * (INPUTS + WIDTH), refused=UNNUMBERED),
    # A sum over keys of products of three factors.
    "unit_gradient_step": weighed(fc.unit_gradient_step, units=32 * KEYS),
    "numerical_rank": Case(lambda m: fc.numerical_rank(m)[0], ((3, 4),), WHOLE_NUMBERS, units=0),
    "relative_features": Case(lambda a: fc.relative_features(a, 1), ((KEYS, INPUTS),)),
    "curvature": Case(lambda u, a: fc.curvature(u, a, 1), WEIGHTS[:2]),
    "log_ratios": Case(lambda u, a: fc.log_ratios(u, a, like(a, PAIRS)), WEIGHTS[:2]),
    "preserving_directions": Case(
        lambda a: fc.preserving_directions(a).singular_values,
        ((3, INPUTS),),
        without_numbers("preserving_directions"),
    ),
    "control_query": Case(
        lambda u, a, b: fc.control_query(u, a, like(a, PAIRS), b),
        ((INPUTS,), (KEYS, INPUTS), (2,)),
        without_numbers("control_query"),
    ),
}

WRITES = {
    "phi1": Case(fc.phi1, ((4,),), scale=4.0),
    "phi2": Case(fc.phi2, ((4,),), scale=4.0),
    "project": Case(lambda y: fc.project(y, like(y, PROJECTION)), ((HEADS, WIDTH),)),
    "contract": Case(
        lambda y, g: fc.contract(y, like(y, PROJECTION), g), ((HEADS, WIDTH), (MODEL,))
    ),
    "head_gradient": Case(fc.head_gradient, ((HEADS, WIDTH, MODEL), (MODEL,))),
    "regression_step": Case(fc.regression_step, ((KEYS, WIDTH), (KEYS,))),
    "aligned_rate": Case(lambda f, h: fc.aligned_rate(f + 2 * h, h), ((KEYS,), (KEYS,))),
    "phase_context": Case(fc.phase_context, CELLS),
    "signed_projections": Case(lambda *c: fc.signed_projections(fc.phase_context(*c)), CELLS),
    # Each operation is exactly rounded, and the codes are integers.
    "quantise": Case(lambda x: fc.quantise(x, 4), ((WIDTH,),), units=0),
    "select_evictions": Case(
        lambda s, v: evict(fc.freeze(s, v), s, v),
        ((HEADS, KEYS), (HEADS, KEYS, WIDTH)),
        without_numbers("select_evictions", **WHOLE_NUMBERS),
    ),
    "restoration_benefit": Case(fc.restoration_benefit, ((MODEL,), (KEYS, MODEL))),
    **{
        f"restoration_scores, {method}": cached(
            lambda c, w, method=method: fc.restoration_scores(c, w, method)
        )
        for method in ("exact", "first-order", "second-order", "attention", "value-norm", "fisher")
    },
    # The scores and the errors of the choice carry no gradient.
    # Some hundred roundings, as for a certificate; its choices have no error rule.
    "restore_greedily": cached(lambda c, w: fc.restore_greedily(c, w, 2), units=256),
    "CachePair.restore": cached(lambda c, w: c.restore(1), units=0),
    "CachePair.score_delta": cached(lambda c, w: c.score_delta),
    "CachePair.value_delta": cached(lambda c, w: c.value_delta),
    "CachePair.write_error": cached(lambda c, w: c.write_error(w)),
}

BOUNDS = {
    "Certificate.over_heads": Case(
        lambda f, b: certificate(f, b).over_heads(),
        ((HEADS,), (HEADS,)),
        UNTRACKED | UNNUMBERED,
        units=16,
    ),
    "certified_signs": Case(
        lambda f, b: fc.certified_signs(certificate(f, b)), ((KEYS,), (KEYS,)), WHOLE_NUMBERS, 0
    ),
    "certified_order": Case(
        lambda f, b: fc.certified_order(certificate(f, b)), ((KEYS,), (KEYS,)), WHOLE_NUMBERS, 0
    ),
    "CertifiedOrder.pairs": Case(
        lambda f, b: fc.certified_order(certificate(f, b)).pairs(),
        ((KEYS,), (KEYS,)),
        without_numbers("pairs", **WHOLE_NUMBERS),
    ),
    "track": Case(lambda x: fc.track(x) * 3, ((4,),), UNTRACKED | UNNUMBERED, units=0),
    "value_of": Case(fc.value_of, ((4,),), units=0),
    "error_of": Case(
        lambda x: fc.error_of(fc.track(x) / 3), ((4,),), UNTRACKED | UNNUMBERED, units=0
    ),
    "upper": Case(lambda x: fc.upper(fc.track(x) / 3), ((4,),), UNTRACKED | UNNUMBERED, units=0),
}

TABLE = RESPONSES | ROTATIONS | WEIGHING | WRITES | BOUNDS
