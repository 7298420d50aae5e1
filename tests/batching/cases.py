"""Every function that leading dimensions lift, with the trailing shapes of its arguments."""

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
    """A fixed argument that all rows of a batch share, in the dtype of another one and tracked as that is."""
    fixed = draw(*shape, seed=99).to(like.dtype)
    return fc.track(fixed) if isinstance(like, fc.Tracked) else fixed


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
    # Singular values are good to a few units of the largest one per row and column, and the bound
    # holds what the type's rounding may hide.
    "anchor_bound": Case(
        lambda u, a, v, w: fc.anchor_bound(
            fc.effective_weights(u, a, v), fc.effective_weights(w, a, v)
        ),
        (*WEIGHTS, (INPUTS,)),
        units=64 * (INPUTS + WIDTH),
    ),
    # A sum over keys of products of three factors.
    "unit_gradient_step": Case(
        lambda u, a, v: fc.unit_gradient_step(fc.effective_weights(u, a, v)),
        WEIGHTS,
        units=32 * KEYS,
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


# Edits of the whole bank take increments of any batch shape that broadcasts with the readout's.
EDITED = [name for name in READOUT_CASES if "delet" not in name and "prepared" not in name]

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
