"""Single keys in closed form: the same numbers as groups of one, within the bounds that both derive."""

import pytest
import torch
from torch import Tensor

import finite_calculus as fc

SINGLES = torch.arange(6).unsqueeze(-1)


def bank(dominance: float, *, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scores with one key `dominance` above the others, values, and increments of both."""
    draw = torch.Generator().manual_seed(seed)
    scores, d = torch.randn(2, 3, 6, generator=draw, dtype=torch.float64).unbind(0)
    scores[:, 2] += dominance
    values, e = torch.randn(2, 3, 6, 2, generator=draw, dtype=torch.float64).unbind(0)
    return scores, values, d, e


def within(one: Tensor, other: Tensor) -> bool:
    gap = (fc.value_of(one) - fc.value_of(other)).double().abs()
    return bool((gap <= fc.error_of(one) + fc.error_of(other)).all())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("dominance", [0.0, 3.0, 30.0, 90.0, 800.0])
@pytest.mark.parametrize("size", [1e-9, 1.0, 20.0, 60.0])
def test_a_single_key_is_a_group_of_one(dominance: float, size: float, dtype: torch.dtype) -> None:
    scores, values, d, e = (fc.track(x.to(dtype)) for x in bank(dominance))
    readout = fc.freeze(scores, values)
    singles, groups = fc.prepare_singles(readout), fc.prepare(readout, SINGLES)
    d = fc.track(fc.value_of(d) * size)
    assert within(singles.response(d, e), groups.response(d.unsqueeze(-1), e.unsqueeze(-2)))
    assert within(singles.response(d), groups.response(d.unsqueeze(-1)))
    assert within(singles.deletion(), groups.deletion())


@pytest.mark.parametrize("dominance", [0.0, 30.0, 700.0])
def test_a_single_key_agrees_with_the_dense_response(dominance: float) -> None:
    scores, values, d, e = (fc.track(x) for x in bank(dominance))
    readout = fc.freeze(scores, values)
    responses = fc.prepare_singles(readout).response(d, e)
    for key in range(6):
        here = torch.arange(6) == key
        alone = torch.where(here, d, 0.0), torch.where(here.unsqueeze(-1), e, 0.0)
        assert within(responses[:, key], fc.finite_response(readout, *alone))


def test_the_bound_is_small_beside_the_result() -> None:
    scores, values, d, e = (fc.track(x) for x in bank(30.0))
    responses = fc.prepare_singles(fc.freeze(scores, values)).response(d, e)
    assert bool((fc.error_of(responses) <= 1e-10 * fc.value_of(responses).abs()).all())


def test_an_increment_that_all_keys_share_may_have_length_one() -> None:
    scores, values, *_ = bank(2.0)
    singles = fc.prepare_singles(fc.freeze(scores, values))
    for size in (0.5, 60.0, 500.0):
        shared = torch.tensor([size], dtype=torch.float64)
        assert torch.equal(singles.response(shared), singles.response(shared.expand(3, 6)))


def test_editing_a_key_that_is_not_attended_changes_nothing() -> None:
    scores, values, d, e = bank(0.0)
    mask = torch.tensor([True, True, False, True, True, True])
    singles = fc.prepare_singles(fc.freeze(scores, values, mask=mask))
    assert not singles.response(d, e)[:, 2].any()
    assert not singles.deletion()[:, 2].any()


@pytest.mark.parametrize("dominance", [0.0, 800.0])
@pytest.mark.parametrize("size", [1.0, 40.0, 700.0, 3000.0])
def test_masked_keys_stand_aside_however_large_the_increments(
    dominance: float, size: float
) -> None:
    scores, values, d, e = bank(dominance)
    d = size * d.sign()
    attended = torch.tensor([0, 1, 2, 4])
    mask = torch.isin(torch.arange(6), attended)
    masked = fc.prepare_singles(fc.freeze(fc.track(scores), fc.track(values), mask=mask))
    fewer = fc.freeze(fc.track(scores[:, attended]), fc.track(values[:, attended]))
    alone = fc.prepare_singles(fewer)
    responses = masked.response(fc.track(d), fc.track(e))
    assert not fc.value_of(responses)[:, ~mask].any()
    assert within(
        responses[:, attended], alone.response(fc.track(d[:, attended]), fc.track(e[:, attended]))
    )
    assert within(
        masked.response(fc.track(d[:1, :1]))[:, attended], alone.response(fc.track(d[:1, :1]))
    )
    assert not fc.value_of(masked.deletion())[:, ~mask].any()
    assert within(masked.deletion()[:, attended], alone.deletion())


@pytest.mark.parametrize(("dtype", "huge"), [(torch.float32, 80.0), (torch.float64, 705.0)])
def test_products_of_a_huge_increment_do_not_overflow(dtype: torch.dtype, huge: float) -> None:
    scores, values = torch.zeros(2, dtype=dtype), torch.zeros(2, 1, dtype=dtype)
    d, e = torch.tensor([0.0, huge], dtype=dtype), torch.tensor([[0.0], [-1e6]], dtype=dtype)
    responses = fc.prepare_singles(fc.freeze(scores, values)).response(d, e)
    assert responses.tolist() == [[0.0], [-1e6]]  # the key takes over with its new value


def test_deleting_the_only_key_is_refused() -> None:
    scores, values, *_ = bank(0.0)
    only = torch.tensor([True, False, False, False, False, False])
    with pytest.raises(ValueError, match="at least one attended key"):
        fc.prepare_singles(fc.freeze(scores, values, mask=only)).deletion()


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_masked_increments_may_hold_anything(bad: float) -> None:
    scores, values, d, e = bank(0.0)
    mask = torch.tensor([True, True, False, True, True, True])
    singles = fc.prepare_singles(fc.freeze(scores, values, mask=mask))
    spoiled_d, spoiled_e = torch.where(mask, d, bad), torch.where(mask.unsqueeze(-1), e, bad)
    assert torch.equal(singles.response(d, spoiled_e), singles.response(d, e))
    singles = fc.prepare_singles(fc.freeze(fc.track(scores), fc.track(values), mask=mask))
    clean = singles.response(fc.track(d), fc.track(e))
    assert within(singles.response(fc.track(spoiled_d), fc.track(spoiled_e)), clean)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_increments_that_are_not_finite_are_refused(bad: float) -> None:
    scores, values, d, e = bank(0.0)
    singles = fc.prepare_singles(fc.freeze(scores, values))
    with pytest.raises(ValueError, match="`score_delta` must be finite"):
        singles.response(d + bad)
    with pytest.raises(ValueError, match="`score_delta` must be finite"):
        singles.response(torch.tensor([bad], dtype=torch.float64))
    with pytest.raises(ValueError, match="`value_delta` must be finite"):
        singles.response(d, e + bad)
    with pytest.raises(ValueError, match="`score_delta`"):
        singles.response(d[:, :4])
