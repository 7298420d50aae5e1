"""Certificates are no looser than their formula, and claims are made only beyond the last bit."""

import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from tests.helpers.tensors import draw

KEYS, WIDTH = 6, 3
MASK = torch.tensor([True, True, False, True, True, False])
EPS = {dtype: torch.finfo(dtype).eps for dtype in (torch.float64, torch.float32)}


def formula(scores, values, score_delta, value_delta, gradient, remainder) -> dict[str, Tensor]:
    """KL(p‖p')·max|a| + TV·(max b − min b) + |⟨p r, a⟩|, from two softmaxes over the attended keys."""
    before, after = torch.softmax(scores, -1), torch.softmax(scores + score_delta, -1)
    pulls = ((values - before @ values) * gradient).sum(-1)
    swings = (value_delta * gradient).sum(-1)
    rotary = before * remainder @ pulls
    kl = (before * (before / after).log()).sum()
    tv = (after - before).abs().sum() / 2
    return {
        "first_order": before * score_delta @ pulls + before @ swings - rotary,
        "bound": kl * pulls.abs().max() + tv * (swings.max() - swings.min()) + rotary.abs(),
        "divergence": kl,
        "total_variation": tv,
    }


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("remainder", [0.0, 1.0])
@pytest.mark.parametrize("dtype", EPS)
def test_a_certificate_is_its_formula_up_to_rounding(seed: int, remainder: float, dtype):
    scores, score_delta, rest = draw(3, KEYS, seed=seed).to(dtype)
    values, value_delta = draw(2, KEYS, WIDTH, seed=seed + 100).to(dtype)
    gradient = draw(WIDTH, seed=seed + 200).to(dtype)
    options = {"score_remainder": remainder * rest} if remainder else {}
    readout = fc.freeze(scores, values, mask=MASK)
    certificate = fc.certify(readout, score_delta, value_delta, gradient, **options)
    attended = [x[MASK] for x in (scores, values, score_delta, value_delta)]
    exact = formula(*(x.double() for x in (*attended, gradient, remainder * rest[MASK])))
    # Some hundred roundings of numbers no larger than these parts; bounds are rounded upwards.
    slack = 512 * EPS[dtype] * (1 + float(exact["bound"]))
    for name, part in vars(certificate).items():
        assert part.dtype is dtype
        assert float((part.double() - exact[name]).abs()) <= slack, name


def test_the_same_edits_have_the_same_certificate_in_float32_and_float64():
    parts = [draw(KEYS), draw(KEYS, WIDTH, seed=1), draw(KEYS, seed=2), draw(KEYS, WIDTH, seed=3)]
    narrow = [part.float() for part in (*parts, draw(WIDTH, seed=4))]
    low = fc.certify(fc.freeze(*narrow[:2]), *narrow[2:])
    wide = [part.double() for part in narrow]
    high = fc.certify(fc.freeze(*wide[:2]), *wide[2:])
    assert float(low.bound) > float(high.bound)
    assert float(low.bound) - float(high.bound) <= 512 * EPS[torch.float32] * float(high.bound + 1)


def certificate_of(first: list, bound: list, dtype: torch.dtype = torch.float64) -> fc.Certificate:
    parts = [torch.tensor(part, dtype=dtype) for part in (first, bound, bound, bound)]
    return fc.Certificate(*parts)


def test_a_sign_is_certain_only_beyond_its_bound():
    certificate = certificate_of([2.0, -2.0, 1.0, -1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0, 0.0, 1.0])
    signs = fc.certified_signs(certificate)
    assert signs.tolist() == [1, -1, 0, 0, 0, 0]
    assert signs.dtype is torch.int64


def test_an_order_is_certain_only_beyond_the_rounding_of_both_ends():
    unit = 2.0**-53
    for steps, certain in ((0, False), (1, False), (2, False), (3, True), (4, True)):
        order = fc.certified_order(certificate_of([1.0, 1.0 - steps * unit], [0.0, 0.0]))
        assert order.greater.tolist() == [[False, certain], [False, False]]
        assert order.pairs() == [(0, 1)] * certain
    apart = fc.certified_order(certificate_of([3.0, 0.0, 1.0], [1.0, 0.5, 0.25]))
    assert apart.pairs() == [(0, 1), (0, 2), (2, 1)]


@pytest.mark.parametrize("dtype", EPS)
def test_heads_are_the_last_axis_of_a_certificate(dtype):
    first, bound = draw(2, 3, 4).to(dtype), draw(2, 3, 4, seed=1).abs().to(dtype)
    whole = fc.Certificate(first, bound, 2 * bound, 3 * bound).over_heads()
    parts = {"first_order": first, "bound": bound, "divergence": 2 * bound}
    for name, part in (parts | {"total_variation": 3 * bound}).items():
        total, exact = vars(whole)[name], part.double().sum(-1)
        assert total.dtype is dtype
        assert total.shape == (2, 3)
        # Sums of four: three roundings of the value, and as many in the bound on it.
        slack = 16 * EPS[dtype] * part.double().abs().sum(-1)
        if name == "bound":
            slack = slack + 16 * EPS[dtype] * first.double().abs().sum(-1)
        if name != "first_order":
            assert bool((total.double() >= exact).all()), name
        assert bool(((total.double() - exact).abs() <= slack).all()), name


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_value_edits_of_one_size_at_the_attended_keys_have_no_range(sign: float) -> None:
    scores, values, score_delta = draw(4), draw(4, 1, seed=1), draw(4, seed=2)
    mask = torch.tensor([True, False, True, True])
    readout = fc.freeze(scores, values, mask=mask)
    gradient = torch.ones(1, dtype=torch.float64)
    same = torch.full((4, 1), 3 * sign, dtype=torch.float64)
    none = fc.certify(readout, score_delta, 0 * same, gradient)
    certificate = fc.certify(readout, score_delta, same, gradient)
    # Beside the bound on the key part there is rounding alone: far less than any range times TV.
    assert float(certificate.bound - none.bound) < 1e-9 * float(certificate.total_variation)


@pytest.mark.usefixtures("unchecked_shapes")
def test_a_gradient_of_another_type_is_refused() -> None:
    readout = fc.freeze(draw(4), draw(4, 2, seed=1))
    edits = draw(4, seed=2), draw(4, 2, seed=3)
    with pytest.raises(TypeError, match=r"`gradient` is torch.float32, `readout` is torch.float64"):
        fc.certify(readout, *edits, draw(2).float())
    with pytest.raises(TypeError, match="`gradient` must be float64 or float32"):
        fc.certify(readout, *edits, draw(2).half())
