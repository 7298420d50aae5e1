"""Responses have right gradients in every regime, and none that is NaN.

gradcheck compares with central differences at its own default tolerances.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

import finite_calculus as fc
from tests.autograd.functions import (
    GROUPED,
    GROUPS,
    KEYS,
    REGIMES,
    RESPONSES,
    WIDTH,
    leaf,
    ordinary,
)
from tests.helpers.tensors import draw


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


@pytest.mark.parametrize("scale", [0.05, -4.0])
def test_band_interaction_has_right_gradients_in_both_branches(scale: float):
    scores, values, first, _ = ordinary()
    second = first + draw(KEYS, seed=5) / 4
    readout = fc.freeze(scores, values)
    # Far from the switch, which lies at a total variation of 1/4 by the stronger edit alone.
    variation = max(float(fc.total_variation(readout, scale * d)) for d in (first, second))
    assert variation > 0.4 if scale < -1 else variation < 0.1

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
    present = [gradient for gradient in gradients if gradient is not None]
    assert present
    assert all(bool(torch.isfinite(gradient).all()) for gradient in present)


def test_certificates_carry_no_gradient():
    scores, values, score_delta, value_delta = (leaf(part) for part in ordinary())
    certificate = fc.certify(fc.freeze(scores, values), score_delta, value_delta, draw(WIDTH))
    assert not any(part.requires_grad for part in vars(certificate).values())
