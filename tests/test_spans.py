"""Prepared spans are prepared groups, whatever holds the mass, and nothing grows as candidates × keys."""

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import finite_calculus as fc
from finite_calculus import _complement as complement
from tests.helpers.tensors import draw

KEYS, WIDTH, SPAN = 37, 2, 5
# First, last, and around the borders of the blocks of seven keys; several hold leading keys.
STARTS = torch.tensor([0, 1, 2, 6, 7, 8, 9, 11, 12, 13, 14, 20, 30, 32])
SPANS = STARTS.unsqueeze(-1) + torch.arange(SPAN)


def bank(lead: float) -> tuple[Tensor, Tensor]:
    """Three heads, tracked as exact; in each another pair of keys leads the others."""
    scores = draw(3, KEYS)
    for head, key in enumerate((12, 0, 31)):
        scores[head, key : key + 2] += lead
    return fc.track(scores), fc.track(draw(3, KEYS, WIDTH, seed=1))


def assert_agree(one: Tensor, other: Tensor) -> None:
    """Within the sum of the running error bounds, which are small beside every candidate's result."""
    bound = (fc.error_of(one) + fc.error_of(other)).reshape(3, len(STARTS), -1)
    values, expected = (fc.value_of(x).reshape(3, len(STARTS), -1) for x in (one, other))
    assert bool((bound.amax(-1) <= 1e-10 * expected.abs().amax(-1) + 1e-290).all())
    assert bool(((values - expected).abs() <= bound).all())


def edits(strength: float) -> tuple[Tensor, Tensor]:
    shape = (3, len(STARTS), SPAN)
    return fc.track(strength * draw(*shape, seed=2)), fc.track(draw(*shape, WIDTH, seed=3))


@pytest.mark.parametrize("strength", [1e-6, 1.0, 100.0, 2000.0])
@pytest.mark.parametrize("lead", [-5.0, 0.0, 5.0, 30.0, 300.0, 800.0])
def test_spans_are_groups_of_neighbouring_keys(lead: float, strength: float):
    scores, values = bank(lead)
    score_delta, value_delta = edits(strength)
    spans = fc.prepare_spans(fc.read_bank(scores, values), STARTS, SPAN)
    groups = fc.prepare(fc.freeze(scores, values), SPANS)
    assert (spans.heavy is None) == (lead <= 0)
    assert_agree(
        spans.response(score_delta, value_delta), groups.response(score_delta, value_delta)
    )
    assert_agree(spans.response(score_delta), groups.response(score_delta))
    assert_agree(spans.deletion(), groups.deletion())
    assert_agree(spans.divergence(score_delta), groups.divergence(score_delta))
    assert_agree(spans.total_variation(score_delta), groups.total_variation(score_delta))


@pytest.mark.parametrize("lead", [0.0, 5.0, 30.0])
def test_the_quotient_and_the_small_readout_agree(lead: float):
    spans = fc.prepare_spans(fc.read_bank(*bank(lead)), STARTS, SPAN)
    score_delta, value_delta = edits(1.0)
    assert spans.direct
    padding = torch.zeros(3, len(STARTS), 1).double()
    padded = torch.cat([score_delta, padding], -1)
    padded_values = torch.cat([value_delta, padding.unsqueeze(-1).expand(-1, -1, -1, WIDTH)], -2)
    small = fc.finite_response(spans.small_readout, padded, padded_values)
    assert_agree(spans.response(score_delta, value_delta), small)


@pytest.mark.parametrize("method", ["prepare", "prepare_spans"])
def test_chunks_of_candidates_change_nothing(method: str, monkeypatch: pytest.MonkeyPatch):
    scores, values = bank(30.0)
    removed = torch.zeros(len(STARTS), KEYS, dtype=torch.bool).scatter(1, SPANS, True)

    def results() -> list[Tensor]:
        readout = fc.freeze(scores, values)
        whole = fc.prepare_spans(fc.read_bank(scores, values), STARTS, SPAN)
        prepared = whole if method == "prepare_spans" else fc.prepare(readout, SPANS)
        return [prepared.response(*edits(1.0)), fc.deletion_response(readout, removed)]

    whole = results()
    monkeypatch.setattr(complement, "_CHUNK", 1)
    for one, other in zip(results(), whole, strict=True):
        assert_agree(one, other)


def test_a_mask_leaves_the_attended_keys_of_a_span():
    scores, values = bank(5.0)
    mask = torch.rand(3, KEYS, generator=torch.Generator().manual_seed(4)) < 0.7
    mask[:, 12] = mask[:, 2] = mask[:, 7] = mask[:, 18] = mask[:, 22] = mask[:, 33] = True
    score_delta, value_delta = edits(1.0)
    spans = fc.prepare_spans(fc.read_bank(scores, values, mask=mask), STARTS, SPAN)
    groups = fc.prepare(fc.freeze(scores, values, mask=mask), SPANS)
    assert_agree(
        spans.response(score_delta, value_delta), groups.response(score_delta, value_delta)
    )
    assert_agree(spans.deletion(), groups.deletion())


class Largest(TorchDispatchMode):
    """Remembers the number of entries of the largest tensor that any operation returned."""

    entries = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, Tensor):
                # Views, such as broadcast ones, hold no memory of their own.
                self.entries = max(self.entries, tensor.untyped_storage().nbytes() // 8)
        return result


@pytest.mark.parametrize("lead", [0.0, 30.0])
def test_memory_does_not_grow_as_candidates_times_keys(lead: float):
    keys, span = 4096, 8
    scores, values = draw(1, keys), draw(1, keys, 1, seed=1)
    scores[:, 1000] += lead + 10
    starts = torch.arange(keys - span + 1)
    with Largest() as largest:
        spans = fc.prepare_spans(fc.read_bank(scores, values), starts, span)
        spans.response(draw(1, len(starts), span, seed=2))
        spans.deletion()
        spans.small_readout  # noqa: B018 (built on demand)
    assert spans.heavy is not None
    assert largest.entries <= complement._CHUNK + 16 * keys * span
    assert largest.entries < keys * len(starts) / 6


def test_increments_may_be_formed_from_the_members():
    scores, values = draw(KEYS), draw(KEYS, WIDTH, seed=1)
    spans = fc.prepare_spans(fc.read_bank(scores, values), STARTS, SPAN)
    assert torch.equal(spans.scores, scores[SPANS])
    assert torch.equal(spans.values, values[SPANS])
