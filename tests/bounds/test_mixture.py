"""Plain data beside tracked ones: lifted where they are constants of a rotation, refused where they meet."""

from collections.abc import Callable
from typing import Any

import flint
import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from finite_calculus.rounding import together
from proofs.references.numbers import arb_precision
from tests.helpers.exact_bounds import F32, F64, both
from tests.helpers.tensors import draw

FREQUENCIES = torch.tensor([1.0, 0.3], dtype=F64)
WIDTH, SHIFT = 4, 1000.7

TURNS: dict[str, Callable[[fc.Rotary, Tensor, Any], Tensor]] = {
    "rotate": fc.rotate,
    "displacement": fc.displacement,
    "tangent": fc.tangent,
    "phi1_rotary": fc.phi1_rotary,
    "chord_norm": fc.chord_norm,
    "tangent_norm": fc.tangent_norm,
    "key_shift_scores": lambda r, x, p: fc.key_shift_scores(r, x[0], x, p),
    "key_shift_scores_linear": lambda r, x, p: fc.key_shift_scores_linear(r, x[0], x, p),
    "key_shift_scores_remainder": lambda r, x, p: fc.key_shift_scores_remainder(r, x[0], x, p),
    "affine_features": lambda r, x, p: fc.affine_features(r, x, None, x, p),
}


@both
@pytest.mark.parametrize("name", TURNS)
def test_one_tracked_part_of_a_rotation_has_the_bound_of_all_tracked(name: str, dtype):
    turn, vectors = TURNS[name], draw(6, WIDTH, dtype=dtype)
    shift = torch.tensor(SHIFT, dtype=dtype)

    def bound(*lift: str) -> Tensor:
        frequencies, x, p = (
            fc.track(tensor) if part in lift else tensor
            for part, tensor in (("planes", FREQUENCIES), ("vectors", vectors), ("shift", shift))
        )
        return fc.error_of(turn(fc.Rotary(frequencies, WIDTH), x, p))

    whole = bound("planes", "vectors", "shift")
    assert bool((whole > 0).any())
    for part in ("planes", "vectors", "shift"):
        assert torch.equal(bound(part), whole), part


def test_a_rotation_of_tracked_vectors_by_a_plain_rotary_is_within_its_bound():
    vectors, shifts = draw(60, 1, WIDTH), 1000 * draw(10, seed=1)
    turned = fc.rotate(fc.Rotary(FREQUENCIES, WIDTH), fc.track(vectors), shifts)
    values, bounds = fc.value_of(turned), fc.error_of(turned)
    with arb_precision(200):
        for row, vector in enumerate(vectors.squeeze(1).tolist()):
            for column, shift in enumerate(shifts.tolist()):
                for plane, frequency in enumerate(FREQUENCIES.tolist()):
                    angle = flint.arb(shift) * flint.arb(frequency)
                    x, y = flint.arb(vector[plane]), flint.arb(vector[plane + 2])
                    exact = (angle.cos() * x - angle.sin() * y, angle.sin() * x + angle.cos() * y)
                    for place, true in ((plane, exact[0]), (plane + 2, exact[1])):
                        value = flint.arb(values[row, column, place].item())
                        assert abs(value - true) <= flint.arb(bounds[row, column, place].item())


def test_a_tracked_shift_of_float32_keeps_its_error():
    shift = fc.track(torch.tensor(3.0), torch.tensor(0.5, dtype=F64))
    turned = fc.rotate(fc.Rotary(FREQUENCIES, WIDTH), draw(WIDTH), shift)
    assert float(fc.error_of(turned).max()) > 0.1


SCORES, VALUES, DELTA, EDITS = draw(5), draw(5, 2, seed=1), draw(5, seed=2), draw(5, 2, seed=3)
GRADIENT, PROJECTION = draw(2, seed=4), draw(1, 2, 3, seed=5)
PLAIN = fc.freeze(SCORES, VALUES)
INPUTS, FEATURES = draw(3, seed=6), draw(5, 3, seed=7)
WEIGHTS = fc.effective_weights(INPUTS, FEATURES, VALUES)


def tracked_weights() -> fc.EffectiveWeights:
    return fc.effective_weights(fc.track(INPUTS), fc.track(FEATURES), fc.track(VALUES))


MIXTURES: dict[str, Callable[[], object]] = {
    "freeze, values": lambda: fc.freeze(SCORES, fc.track(VALUES)),
    "freeze, scores": lambda: fc.freeze(fc.track(SCORES), VALUES),
    "finite_response": lambda: fc.finite_response(PLAIN, fc.track(DELTA)),
    "finite_response, values": lambda: fc.finite_response(PLAIN, DELTA, fc.track(EDITS)),
    "divergence": lambda: fc.divergence(PLAIN, fc.track(DELTA)),
    "decompose": lambda: fc.decompose(PLAIN, fc.track(DELTA), fc.track(EDITS)),
    "band_interaction": lambda: fc.band_interaction(PLAIN, DELTA, fc.track(DELTA)),
    "positional_jacobian": lambda: fc.positional_jacobian(PLAIN, fc.track(DELTA)),
    "contract": lambda: fc.contract(fc.track(VALUES[:1]), PROJECTION, draw(3)),
    "effective_weights": lambda: fc.effective_weights(INPUTS, FEATURES, fc.track(VALUES)),
    "anchor_residual": lambda: fc.anchor_residual(WEIGHTS, tracked_weights()),
    "residual_write": lambda: fc.residual_write(
        fc.track(draw(3)), WEIGHTS, fc.track(PROJECTION[0])
    ),
    "residual_write, bias": lambda: fc.residual_write(
        draw(3), WEIGHTS, PROJECTION[0], fc.track(draw(3))
    ),
    "affine_features, bias": lambda: fc.affine_features(
        fc.Rotary(FREQUENCIES, WIDTH), draw(2, WIDTH), fc.track(draw(WIDTH)), draw(5, WIDTH), 1.0
    ),
    "log_ratios": lambda: fc.log_ratios(INPUTS, fc.track(FEATURES), torch.tensor([[0, 1]])),
}


@pytest.mark.parametrize("name", MIXTURES)
def test_tracked_tensors_do_not_meet_plain_ones_that_are_computed_with(name: str):
    with pytest.raises(TypeError, match=r"all be tracked or all be plain; `.*` tracked, `.*`"):
        MIXTURES[name]()


def test_a_certificate_of_partly_tracked_arguments_is_that_of_tracked_ones():
    whole = fc.certify(PLAIN, DELTA, EDITS, GRADIENT)
    following = fc.freeze(fc.track(SCORES), fc.track(VALUES))
    for readout, delta, edits, gradient in (
        (following, DELTA, EDITS, GRADIENT),
        (PLAIN, fc.track(DELTA), EDITS, GRADIENT),
        (PLAIN, DELTA, fc.track(EDITS), GRADIENT),
        (PLAIN, DELTA, EDITS, fc.track(GRADIENT)),
    ):
        part = fc.certify(readout, delta, edits, gradient)
        assert torch.equal(part.first_order, whole.first_order)
        assert torch.equal(part.bound, whole.bound)


def test_together_tracks_all_or_nothing():
    x, y = draw(3), draw(3, seed=1).to(F32)
    assert together(x, y) == (x, y)
    lifted = together(x, fc.track(y, torch.full_like(y, 0.5)))
    assert all(isinstance(tensor, fc.Tracked) for tensor in lifted)
    assert [float(fc.error_of(tensor).max()) for tensor in lifted] == [0.0, 0.5]


@pytest.mark.parametrize("dtype", [F64, F32])
def test_masked_scores_leave_a_response_its_bound(dtype: torch.dtype):
    inputs = (fc.track(x.to(dtype)) for x in (SCORES, VALUES))
    mask = torch.tensor([True, True, False, True, True])
    response = fc.finite_response(fc.freeze(*inputs, mask=mask), fc.track(DELTA.to(dtype)))
    # Some hundred roundings of numbers of size one.
    assert float(fc.error_of(response).max()) < 256 * torch.finfo(dtype).eps
